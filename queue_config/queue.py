"""The queue: an SQLite file on one machine, or Redis; JSON messages signed with the vault's key.

Huey delivers at most once and its default serializer is pickle. So a message carries only hints (the ledger
knows what is owed), and nothing that is not signed by us is ever decoded into a task.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Any

import structlog
from huey import CySqliteHuey, PriorityRedisHuey
from huey.exceptions import HueyException
from huey.registry import Message
from huey.serializer import Serializer

QUEUE_FILE = "queue.db"
KEY_FILE = "queue.key"
_DIGEST = hashlib.sha256
_SIGNATURE_BYTES = _DIGEST().digest_size

log = structlog.get_logger()


class ForeignMessageError(ValueError):
    """A message on the queue is not signed with this vault's key: it is dropped, never executed."""


class SignedJsonSerializer(Serializer):  # type: ignore[misc]  # huey has no types
    """Messages as JSON (scalars, lists, dicts) behind an HMAC-SHA256 of their bytes."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def _sign(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, _DIGEST).digest()

    def _serialize(self, data: Any) -> bytes:
        plain = {"message": data._asdict()} if isinstance(data, Message) else {"value": data}
        body = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
        return self._sign(body) + body

    def _deserialize(self, data: bytes) -> Any:
        signature, body = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(body)):
            raise ForeignMessageError(
                "a message on the queue was not signed with this vault's key, and was dropped; "
                "if another program uses the same queue, give it one of its own"
            )
        plain = json.loads(body)
        return Message(**plain["message"]) if "message" in plain else plain["value"]


def read_key(state: Path) -> bytes:
    """Return the vault's signing key, made at the first call (32 bytes, mode 0600)."""
    path = state / KEY_FILE
    if not path.exists():
        write_secret(path, secrets.token_hex(32))
    return bytes.fromhex(path.read_text().strip())


def write_secret(path: Path, text: str) -> None:
    """Write a file of mode 0600, unless it is there already: the first writer wins."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    beside.touch(mode=0o600, exist_ok=False)
    beside.write_text(text + "\n")
    try:
        path.hardlink_to(beside)
    except FileExistsError:
        pass  # another process was first; its secret is the one in use
    finally:
        beside.unlink()


class _Guarded:
    """What we add to a huey: a message that is not ours, or names no task, is counted and dropped, never run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refused = {"foreign": 0, "unknown": 0}

    def deserialize_task(self, data: bytes) -> Any:
        """Return the task of a message, or None where there is none to run."""
        try:
            return super().deserialize_task(data)  # type: ignore[misc]  # huey has no types
        except ForeignMessageError as error:
            self._refuse("foreign", str(error))
        except HueyException as error:
            self._refuse("unknown", str(error))
        return None

    def _refuse(self, kind: str, reason: str) -> None:
        self.refused[kind] += 1
        log.warning("a message was refused", kind=kind, reason=reason)


class EmbeddedQueue(_Guarded, CySqliteHuey):  # type: ignore[misc]  # huey has no types
    """The queue in an SQLite file of the state folder."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inode = self._inode_now()

    def _inode_now(self) -> int | None:
        path = Path(self.storage.filename)
        return path.stat().st_ino if path.exists() else None

    def reopen_if_replaced(self) -> None:
        """Go on with a new file where ours was deleted: nobody else hears what is put on a deleted one."""
        if self._inode_now() != self._inode:
            self.storage.close()
            self.storage.initialize_schema()
            self._inode = self._inode_now()


class RedisQueue(_Guarded, PriorityRedisHuey):  # type: ignore[misc]  # huey has no types
    """The queue in a Redis."""

    def reopen_if_replaced(self) -> None:
        """Do nothing: the client connects anew by itself."""


Queue = EmbeddedQueue | RedisQueue


def open_queue(state: Path, redis_url: str | None, name: str) -> Queue:
    """Open the vault's queue: Redis where a URL is given, else an SQLite file in the state folder."""
    serializer = SignedJsonSerializer(read_key(state))
    if redis_url:
        return RedisQueue(
            f"everindex-{name}", url=redis_url, serializer=serializer, results=False, read_timeout=1
        )
    return EmbeddedQueue(
        f"everindex-{name}", filename=str(state / QUEUE_FILE), serializer=serializer, results=False
    )
