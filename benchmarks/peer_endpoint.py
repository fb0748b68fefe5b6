"""An embedding endpoint as OpenAI's, on this machine and with Everindex's model, for the products that can use one.

It records the texts that it embeds, which is the cost of a change.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from pipelines.embedding.embedder import Embedder, Vectors
from pipelines.embedding.models import find_model

KEY = "local"


class Endpoint:
    """Where it listens, and the texts that it embedded."""

    def __init__(self) -> None:
        self.embedder = Embedder(find_model(None), threads=2)
        self.texts: list[str] = []
        self.turn = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        """The base address, as clients of OpenAI want it."""
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def embed(self, texts: list[str]) -> Vectors:
        """Return a vector for each text, and record the texts."""
        with self.turn:
            self.texts += texts
            return self.embedder.encode_documents(texts)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
                body = json.dumps(answer(endpoint.embed(texts), asked)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it overrides
                """Print nothing, because the benchmark reads the products' output."""

        return Handler


def answer(vectors: Vectors, asked: dict[str, Any]) -> dict[str, Any]:
    """Return vectors as OpenAI answers: as numbers, or as base64 of 32-bit floats."""
    packed = asked.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": number,
            "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode() if packed else row.tolist(),
        }
        for number, row in enumerate(np.asarray(vectors))
    ]
    return {
        "object": "list",
        "data": data,
        "model": asked["model"],
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }


@contextmanager
def embedding_endpoint() -> Iterator[Endpoint]:
    """Serve the model as long as the block runs."""
    endpoint = Endpoint()
    thread = threading.Thread(target=endpoint.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        endpoint.server.server_close()
