"""A fake of servers that embed (OpenAI's `/v1/embeddings`, Ollama's `/api/embed`): a real HTTP server, no model.

It checks what the real ones check of a request, answers in their shapes (https://platform.openai.com/docs/api-reference/embeddings,
https://github.com/ollama/ollama/blob/main/docs/api.md), and keeps every text that it saw. A text's vector is made of
hashes of its words, so texts that share words are near. What a request gets is what the test says: one fault a request.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import numpy as np

KEY = "sk-fake-key-of-the-tests"
MODEL = "fake-embed"
DIMENSION = 16
HUGE = 200_000_000


@dataclass(frozen=True)
class Reply:
    """What one request gets. `spoil` changes the vectors, `body` replaces the whole body."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    how: Literal["whole", "truncated", "hang", "dropped", "huge"] = "whole"
    body: bytes | None = None
    model: str | None = None
    spoil: Callable[[list[list[Any]]], list[list[Any]]] = lambda rows: rows


def all_nan(rows: list[list[Any]]) -> list[list[Any]]:
    return [[math.nan] * len(row) for row in rows]


def all_null(rows: list[list[Any]]) -> list[list[Any]]:
    return [[None] * len(row) for row in rows]


def all_zero(rows: list[list[Any]]) -> list[list[Any]]:
    return [[0.0] * len(row) for row in rows]


def longer(rows: list[list[Any]]) -> list[list[Any]]:
    return [[*row, 0.5] for row in rows]


def one_less(rows: list[list[Any]]) -> list[list[Any]]:
    return rows[:-1]


NAN, NULL, ZERO = Reply(spoil=all_nan), Reply(spoil=all_null), Reply(spoil=all_zero)
LONGER, ONE_LESS = Reply(spoil=longer), Reply(spoil=one_less)
OTHER_MODEL = Reply(model="another model")
HANG, DROPPED, TRUNCATED = Reply(how="hang"), Reply(how="dropped"), Reply(how="truncated")
TOO_LARGE = Reply(how="huge")
NO_JSON = Reply(body=b"<html>welcome</html>")
BROKEN = Reply(status=500)
BUSY = Reply(status=429, headers={"retry-after": "7"})


def vector_of(text: str, model: str = MODEL, dimension: int = DIMENSION) -> np.ndarray:
    """Return the unit vector of a text by the fake model of that name."""
    words = re.findall(r"\w+", text.casefold()) or [text]
    vector = sum((_of_word(word, model, dimension) for word in words), np.zeros(dimension))
    vector += 0.1 * _of_word(text, model, dimension)
    return vector / np.linalg.norm(vector)


@lru_cache(maxsize=50_000)
def _of_word(word: str, model: str, dimension: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(f"{model}\0{word}".encode("utf-8", "replace")).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimension)


@dataclass
class FakeEmbedding:
    """A running fake: where it listens, what it saw, what it answers.

    `replies` are given one a request, in order; after them `by_default` answers, which may look at the texts.
    """

    url: str = ""
    key: str = ""
    model: str = MODEL
    dimension: int = DIMENSION
    replies: deque[Reply] = field(default_factory=deque)
    by_default: Callable[[Sequence[str]], Reply] = lambda _: Reply()
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    die: Callable[[], None] = lambda: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def texts(self) -> list[str]:
        """Every text that was seen."""
        return [text for request in self.requests for text in request["input"]]

    def next_reply(self, request: dict[str, Any], key: str | None) -> Reply:
        """Keep a request, and choose what it gets."""
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            return self.replies.popleft() if self.replies else self.by_default(request["input"])


@contextmanager
def fake_embedding(port: int = 0, **given: Any) -> Iterator[FakeEmbedding]:
    """Run a fake on a loopback port, a free one unless it is named; `die` ends it at once."""
    fake = FakeEmbedding(**given)
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"fake": fake}))
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    def die() -> None:
        fake.released.set()
        server.is_dying = True
        server.shutdown()
        thread.join()
        server.server_close()

    fake.die = die
    try:
        yield fake
    finally:
        if thread.is_alive():
            die()


class _Server(ThreadingHTTPServer):
    is_dying = False
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeEmbedding
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = json.loads(body)
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ") or None
        reply = self._objection(request, bearer) or self.fake.next_reply(request, bearer)
        if reply.how == "hang":
            self.fake.released.wait()
        self.close_connection = reply.how != "whole"
        if reply.how in ("hang", "dropped") or self.server.is_dying:
            self.close_connection = True
            return
        payload = self._payload(reply, request)
        self.send_response(reply.status)
        length = HUGE if reply.how == "huge" else len(payload)
        for name, value in {
            "content-type": "application/json",
            **reply.headers,
            "content-length": length,
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        if reply.how == "huge":
            self._write_much()
        else:
            self.wfile.write(payload[: len(payload) // 2] if reply.how == "truncated" else payload)

    def _write_much(self) -> None:
        for _ in range(HUGE // 1_000_000):
            self.wfile.write(b" " * 1_000_000)

    def _objection(self, request: dict[str, Any], bearer: str | None) -> Reply | None:
        """Return the error that a real server would answer, if the request has one."""
        if self.path not in ("/v1/embeddings", "/api/embed"):
            return Reply(status=404)
        if self.fake.key and bearer != self.fake.key:
            return Reply(status=401)
        if request.get("model") != self.fake.model:
            return Reply(status=404)
        texts = request.get("input")
        ok = isinstance(texts, list) and texts and all(isinstance(text, str) and text for text in texts)
        return None if ok else Reply(status=400)

    def _payload(self, reply: Reply, request: dict[str, Any]) -> bytes:
        if reply.body is not None:
            return reply.body
        if reply.status != 200:
            return json.dumps({"error": {"message": f"no: {request['input']}", "type": "fake"}}).encode()
        model, dimension = reply.model or self.fake.model, self.fake.dimension
        rows = reply.spoil([vector_of(text, model, dimension).tolist() for text in request["input"]])
        tokens = sum(len(text.split()) for text in request["input"])
        if self.path == "/api/embed":
            return json.dumps({"model": model, "embeddings": rows, "prompt_eval_count": tokens}).encode()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        said = {"object": "list", "model": model, "data": data[::-1], "usage": {"total_tokens": tokens}}
        return json.dumps(said).encode()
