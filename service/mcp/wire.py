"""Streamable HTTP as a client speaks it: the headers of a message, and the messages of an answer. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any

SESSION = "Mcp-Session-Id"
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_BASE64 = "=?base64?"


def headers_of(message: dict[str, Any], session: str | None, version: str | None) -> dict[str, str]:
    """Return the headers with which a message is posted.

    A message that carries its version is independent; any other belongs to a session of the given id and version.
    """
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    own = meta.get(_VERSION) if isinstance(meta, dict) else None
    method = message.get("method")
    if isinstance(own, str) and isinstance(method, str):
        headers |= {"MCP-Protocol-Version": _encoded(own), "Mcp-Method": _encoded(method)}
        name = params.get(_NAMED_BY.get(method, ""))
        return headers | ({"Mcp-Name": _encoded(name)} if isinstance(name, str) else {})
    if session and method != "initialize":
        headers[SESSION] = session
        if version:
            headers["MCP-Protocol-Version"] = version
    return headers


def _encoded(value: str) -> str:
    """Return a header's value, in base64 if a header cannot contain it as it is."""
    if _PLAIN.fullmatch(value) and not value.startswith(_BASE64):
        return value
    return f"{_BASE64}{base64.b64encode(value.encode(errors='replace')).decode()}?="


def events(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event of a stream (WHATWG HTML, section 9.2)."""
    data: list[str] = []
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("data:"):
            data.append(text[5:].removeprefix(" "))
        elif not text and data:
            yield "\n".join(data)
            data = []
