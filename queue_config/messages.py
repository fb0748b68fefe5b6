"""Messages of the queue: JSON signed with the vault's key. Huey's default serializer is pickle, which runs code."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

from huey.registry import Message
from huey.serializer import Serializer

from queue_config.private import QUEUE_KEY, read_secret

_DIGEST = hashlib.sha256
_SIGNATURE_BYTES = _DIGEST().digest_size


class ForeignMessageError(ValueError):
    """A message on the queue is not signed with this vault's key; it is dropped, never executed."""


class Sent(Message):  # type: ignore[misc]  # huey has no types
    """A message and when it was enqueued: wall clock in seconds; None: by a version that did not record it."""

    enqueued_at: float | None = None


class SignedJsonSerializer(Serializer):  # type: ignore[misc]  # huey has no types
    """Messages as JSON (scalars, lists, dicts) behind an HMAC-SHA256 of their bytes."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def _sign(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, _DIGEST).digest()

    def _serialize(self, data: Any) -> bytes:
        message = isinstance(data, Message)
        plain = {"message": data._asdict(), "at": time.time()} if message else {"value": data}
        body = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
        return self._sign(body) + body

    def _deserialize(self, data: bytes) -> Any:
        signature, body = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(body)):
            raise ForeignMessageError(
                "a message on the queue was not signed with this vault's key, and was dropped; "
                "if another program uses the same queue, give it its own queue"
            )
        plain = json.loads(body)
        if "message" not in plain:
            return plain["value"]
        sent = Sent(**plain["message"])
        sent.enqueued_at = plain.get("at")
        return sent


def read_key(state: Path) -> bytes:
    """Return the vault's signing key, created by the first call (32 bytes, mode 0600). Raises NotPrivateError."""
    return bytes.fromhex(read_secret(state, QUEUE_KEY))
