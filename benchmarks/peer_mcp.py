"""The Model Context Protocol by HTTP, as far as calling a tool needs it."""

from __future__ import annotations

import json
from typing import Any

import httpx


class McpClient:
    """A client of one server, with its session."""

    def __init__(self, address: str) -> None:
        self.address, self.number = address, 0
        self.client = httpx.Client(trust_env=False, timeout=120)
        self.client.headers["Accept"] = "application/json, text/event-stream"
        hello = {"name": "benchmark", "version": "1"}
        self.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": hello})
        self.client.post(address, json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request; return its result. Raises LookupError if there is none."""
        self.number += 1
        asked = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        answer = self.client.post(self.address, json=asked).raise_for_status()
        if session := answer.headers.get("mcp-session-id"):
            self.client.headers["mcp-session-id"] = session
        return result_of(answer.text, self.number)


def result_of(text: str, number: int) -> dict[str, Any]:
    """Return the result in an answer, which is JSON or a stream of events. Raises LookupError if there is none."""
    lines = text.splitlines() if not text.lstrip().startswith("{") else [f"data:{text}"]
    for line in lines:
        if line.startswith("data:") and line[5:].strip():
            message = json.loads(line[5:])
            if message.get("id") == number and "result" in message:
                return dict(message["result"])
    raise LookupError(f"no answer to request {number}: {text[:200]}")
