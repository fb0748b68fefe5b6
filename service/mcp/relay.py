"""Relay standard input and output to `/mcp` of a running query worker.

An agent starts a process for each session. This one loads neither the MCP library nor a model: it passes each message
on as it is, and the running service answers with what it holds in memory. Both eras of the protocol are relayed:
requests that carry their version are independent; a session that begins with `initialize` is begun again when the
service restarts.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BytesIO
from typing import Any, BinaryIO

from pipelines.errors import EverindexError, NotRunningError, ServiceError
from service.runtime.client import Service

# Streamable HTTP as a client speaks it: the headers of a message, and the messages of an answer. Pure.


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


_PATH = "/mcp"
_MOST_AT_ONCE = 64
_PATIENCE_SECONDS = 15.0  # a service that was killed is back sooner
_LOOK_SECONDS = 0.2
_PARSE_ERROR, _FAILED = -32700, -32000
_OK, _NOT_FOUND = 200, 404
_BEGIN, _BEGUN = "initialize", "notifications/initialized"

Message = dict[str, Any]


class Relay:
    """Passes messages on. `find` returns the running service, or None; `out` receives what it answers."""

    def __init__(self, find: Callable[[], Service | None], out: BinaryIO) -> None:
        self._find = find
        self._out = out
        self._writing = threading.Lock()
        # The session of the earlier era: how it began, its id and version, and what was subscribed to, by address.
        self._beginning = threading.Lock()
        self._begun: Message | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._subscribed: dict[str, Message] = {}
        self._open: dict[str, HTTPConnection] = {}
        self._ended = threading.Event()

    def run(self, lines: Iterable[bytes]) -> None:
        """Relay until the input ends and what was asked is answered."""
        asked: dict[Future[None], bool] = {}
        with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
            for line in lines:
                message = self._read(line)
                if message is None:
                    continue
                if message.get("method") in (_BEGIN, _BEGUN):
                    self._answer(message)  # what follows depends on it
                else:
                    asked = {one: stream for one, stream in asked.items() if not one.done()}
                    asked[pool.submit(self._answer, message)] = (
                        message.get("method") == "subscriptions/listen"
                    )
            wait([one for one, is_stream in asked.items() if not is_stream])
            self._ended.set()
            for connection in list(self._open.values()):
                _shut(connection)

    def _read(self, line: bytes) -> Message | None:
        if not line.strip():
            return None
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            return message
        self._refuse(None, _PARSE_ERROR, "this line is not a JSON object; send one message per line")
        return None

    def _write(self, text: str) -> None:
        # A message is one line, however the service broke it; within a JSON string there are no such characters.
        line = text.replace("\r", " ").replace("\n", " ")
        with self._writing, suppress(BrokenPipeError):
            self._out.write(line.encode() + b"\n")
            self._out.flush()

    def _refuse(self, request: Any, code: int, text: str) -> None:
        self._write(json.dumps({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}}))

    def _answer(self, message: Message) -> None:
        """Pass a message on, and write what comes back."""
        if message.get("method") == "notifications/cancelled":
            self._cancel(message)
        try:
            self._send(message)
        except (EverindexError, OSError, HTTPException) as error:
            if "id" in message and "method" in message and not self._ended.is_set():
                self._refuse(message["id"], _FAILED, str(error))
        else:
            if message.get("method") == _BEGUN:
                threading.Thread(target=self._follow, args=(self._session,), daemon=True).start()

    def _cancel(self, message: Message) -> None:
        """Close the connection of a request: that cancels it."""
        params = message.get("params")
        if isinstance(params, dict) and (connection := self._open.get(json.dumps(params.get("requestId")))):
            _shut(connection)

    def _send(self, message: Message, *, again: bool = True) -> None:
        """Pass a message on, and write the answer. Raises NotRunningError, ServiceError, OSError, HTTPException."""
        session = self._session
        headers = headers_of(message, session, self._version)
        connection, authorized = self._service().connect()
        name = json.dumps(message.get("id"))
        self._open[name] = connection
        try:
            connection.request("POST", _PATH, json.dumps(message).encode(), headers | authorized)
            connection.sock.settimeout(None)  # a stream may be quiet for days
            response = connection.getresponse()
            if response.status == _NOT_FOUND and SESSION in headers and again:
                self._begin_again(session)
                self._send(message, again=False)
                return
            self._remember(message, response)
            self._pass_on(message, response)
        finally:
            self._open.pop(name, None)
            connection.close()

    def _service(self) -> Service:
        """Return the running service; wait for one that is just being restarted. Raises NotRunningError."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            service = self._find()
            if service is not None:
                return service
            if time.monotonic() >= until or self._ended.wait(_LOOK_SECONDS):
                raise NotRunningError(
                    "Everindex is not running on this vault; start it with `everindex up VAULT`"
                )

    def _remember(self, message: Message, response: HTTPResponse) -> None:
        """Keep what is needed to begin the session again."""
        method, params = message.get("method"), message.get("params")
        if method == _BEGIN and response.status == _OK:
            self._begun, self._session = message, response.headers.get(SESSION)
        uri = params.get("uri") if isinstance(params, dict) else None
        if method == "resources/subscribe" and isinstance(uri, str):
            self._subscribed[uri] = message
        elif method == "resources/unsubscribe" and isinstance(uri, str):
            self._subscribed.pop(uri, None)

    def _pass_on(self, message: Message, response: HTTPResponse) -> None:
        """Write each message of an answer. Raises ServiceError where the answer is none of the protocol."""
        kind = response.headers.get_content_type()
        if kind == "text/event-stream":
            for text in events(response):
                self._learn(message, text)
                self._write(text)
            return
        text = response.read().decode("utf-8", "replace")
        if not text:
            return
        said = _parsed(text)
        if "jsonrpc" in said:
            self._learn(message, text)
            self._write(text)
        else:
            raise ServiceError(f"the service answered {response.status}: {said.get('detail') or text[:200]}")

    def _learn(self, message: Message, text: str) -> None:
        """Read the version that a session agreed on."""
        if message.get("method") == _BEGIN:
            result = _parsed(text).get("result")
            if isinstance(result, dict):
                self._version = result.get("protocolVersion")

    def _begin_again(self, lost: str | None) -> None:
        """Begin the session again at a service that has restarted, without a word to the client."""
        with self._beginning:
            if self._session != lost or self._begun is None:
                return  # another request has begun it
            quiet = Relay(self._find, BytesIO())
            for one in (self._begun, {"jsonrpc": "2.0", "method": _BEGUN}, *self._subscribed.values()):
                quiet._send(one, again=False)
            self._session, self._version = quiet._session, quiet._version
        threading.Thread(target=self._follow, args=(self._session,), daemon=True).start()

    def _follow(self, session: str | None) -> None:
        """Write what the service sends of itself in a session of the earlier era, as long as the session lasts."""
        while session and self._session == session and not self._ended.is_set():
            with suppress(EverindexError, OSError, HTTPException):
                connection, authorized = self._service().connect()
                self._open[f"session {session}"] = connection
                own = {
                    SESSION: session,
                    "Accept": "text/event-stream",
                    "MCP-Protocol-Version": self._version or "",
                }
                connection.request("GET", _PATH, headers=authorized | own)
                connection.sock.settimeout(None)
                response = connection.getresponse()
                if response.status == _NOT_FOUND:
                    self._begin_again(session)
                elif response.status == _OK:
                    for text in events(response):
                        self._write(text)
            self._ended.wait(_LOOK_SECONDS)


def _parsed(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _shut(connection: HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
