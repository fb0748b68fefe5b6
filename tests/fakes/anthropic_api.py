"""A fake of Anthropic's Messages API: a real HTTP server, no model.

It checks what the real one checks of a request (https://platform.claude.com/docs/en/api/messages: path, the key as
`x-api-key` or bearer, `anthropic-version`, the fields that must be there), answers in its shapes (errors: https://platform.claude.com/docs/en/api/errors), and
keeps every request body that it saw. What it answers is what the test says: tags, or one fault a request.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

KEY = "sk-ant-fake-key-of-the-tests"
MODELS = ("claude-haiku-5-5", "claude-haiku-4-5", "claude-sonnet-5-5")
VERSIONS = ("2023-06-01", "2026-10-21")
USAGE = {
    "input_tokens": 1_000,
    "output_tokens": 100,
    "cache_creation_input_tokens": 2_000,
    "cache_read_input_tokens": 3_000,
}
ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}

Tags = Sequence[tuple[object, object]]


@dataclass(frozen=True)
class Answer:
    """What one request gets; the tags of a good answer are (tag, confidence).

    `content` replaces the text of the content block, `body` the whole of the response's body.
    """

    tags: Tags = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stop_reason: str = "end_turn"
    content: str | None = None
    body: bytes | None = None
    usage: Mapping[str, object] | None = field(default_factory=lambda: USAGE)
    thinking: bool = False
    how: Literal["whole", "truncated", "hang", "dropped"] = "whole"


@dataclass
class FakeAnthropic:
    """A running fake: where it listens, what it saw, what it answers.

    `answers` are given one a request, in order; after them `by_default` answers, which may look at the request.
    """

    url: str = ""
    key: str = KEY
    answers: deque[Answer] = field(default_factory=deque)
    by_default: Callable[[dict[str, Any]], Answer] = lambda _: Answer()
    bodies: list[bytes] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Every request that was seen, parsed."""
        return [json.loads(body) for body in self.bodies]

    @property
    def wire(self) -> str:
        """All bodies that were seen, with JSON's escapes resolved: what a test greps for what must not leave."""
        return "\n".join(json.dumps(request, ensure_ascii=False) for request in self.requests)

    def next_answer(self, body: bytes) -> Answer:
        """Keep a request, and choose what it gets."""
        with self._lock:
            self.bodies.append(body)
            return self.answers.popleft() if self.answers else self.by_default(json.loads(body))


@contextmanager
def fake_anthropic() -> Iterator[FakeAnthropic]:
    """Run a fake on a free loopback port."""
    fake = FakeAnthropic()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        fake.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeAnthropic

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = self._objection(body) or self.fake.next_answer(body)
        if answer.how == "hang":
            self.fake.released.wait()
        self.close_connection = answer.how != "whole"
        if answer.how in ("hang", "dropped"):
            return
        payload = self._payload(answer, body)
        self.send_response(answer.status)
        headers = {"content-type": "application/json", "request-id": "req_fake", **answer.headers}
        for name, value in (*headers.items(), ("content-length", str(len(payload)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload[: len(payload) // 2] if answer.how == "truncated" else payload)

    def _objection(self, body: bytes) -> Answer | None:
        """Return the error that the real API would answer, if the request has one."""
        if self.path != "/v1/messages":
            return Answer(status=404)
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        if self.fake.key not in (self.headers.get("x-api-key"), bearer):
            return Answer(status=401, content="invalid x-api-key")
        if self.headers.get("anthropic-version") not in VERSIONS:
            return Answer(status=400, content="anthropic-version: header is required")
        return _fault(json.loads(body))

    def _payload(self, answer: Answer, body: bytes) -> bytes:
        if answer.body is not None:
            return answer.body
        if answer.status != 200:
            kind = ERRORS.get(answer.status, "api_error")
            error = {"type": kind, "message": answer.content or kind.replace("_", " ")}
            return json.dumps({"type": "error", "error": error, "request_id": "req_fake"}).encode()
        tags = [{"tag": tag, "confidence": confidence} for tag, confidence in answer.tags]
        text = json.dumps({"tags": tags}) if answer.content is None else answer.content
        thought = [{"type": "thinking", "thinking": "", "signature": "c2ln"}] if answer.thinking else []
        message = {
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "model": json.loads(body)["model"],
            "content": [*thought, {"type": "text", "text": text}],
            "stop_reason": answer.stop_reason,
            "stop_sequence": None,
            "usage": answer.usage,
        }
        return json.dumps(message).encode()


def _fault(request: dict[str, Any]) -> Answer | None:
    if request.get("model") not in MODELS:
        return Answer(status=404, content=f"model: {request.get('model')}")
    if not isinstance(request.get("max_tokens"), int) or not request.get("messages"):
        return Answer(status=400, content="max_tokens, messages: Field required")
    if request["messages"][-1]["role"] != "user":
        return Answer(status=400, content="This model does not support assistant message prefill.")
    refused = {"temperature", "top_p", "top_k"} & request.keys()
    return Answer(status=400, content=f"not supported: {refused}") if refused else None
