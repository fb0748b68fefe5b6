"""The queue: an SQLite file on one machine, or Redis; JSON messages signed with the vault's key.

Huey delivers at most once and its default serializer is pickle. So a message carries only hints (the ledger
knows what is owed), and nothing that is not signed by us is ever decoded into a task.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cysqlite
import structlog
from huey import CySqliteHuey, PriorityRedisHuey
from huey.exceptions import HueyException
from huey.registry import Message
from huey.serializer import Serializer
from huey.storage import CySqliteStorage
from redis import ConnectionPool
from redis.exceptions import RedisError

from queue_config.logs import Trouble

QUEUE_FILE = "queue.db"
KEY_FILE = "queue.key"
_DIGEST = hashlib.sha256
_SIGNATURE_BYTES = _DIGEST().digest_size
_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0

log = structlog.get_logger()


class ForeignMessageError(ValueError):
    """A message on the queue is not signed with this vault's key: it is dropped, never executed."""


class QueueUnavailableError(OSError):
    """The queue's file cannot be used just now: its disk is full or failing, or it is damaged."""


QUEUE_ERRORS = (QueueUnavailableError, RedisError)
"""What a queue that cannot be reached raises: nothing is lost, the ledger knows what is owed."""


class Sent(Message):  # type: ignore[misc]  # huey has no types
    """A message, and when it was put on the queue: wall clock, seconds; None: by a version that did not say."""

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
                "if another program uses the same queue, give it one of its own"
            )
        plain = json.loads(body)
        if "message" not in plain:
            return plain["value"]
        sent = Sent(**plain["message"])
        sent.enqueued_at = plain.get("at")
        return sent


def read_key(state: Path) -> bytes:
    """Return the vault's signing key, made at the first call (32 bytes, mode 0600)."""
    path = state / KEY_FILE
    if not path.exists():
        write_secret(path, secrets.token_hex(32))
    return bytes.fromhex(path.read_text().strip())


def write_secret(path: Path, text: str) -> None:
    """Write a file of mode 0600, unless it is there already: the first writer wins."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())  # a power cut must not leave an empty secret, which anybody knows
        path.hardlink_to(beside)
    except FileExistsError:
        pass  # another process was first; its secret is the one in use
    finally:
        beside.unlink(missing_ok=True)


class _Guarded:
    """What we add to a huey: a message that is not ours, or names no task, is counted and dropped, never run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refused = {"foreign": 0, "unknown": 0}
        self._trouble = Trouble("the queue cannot be read; saves wait")
        self.aside: Executor | None = None
        """What does the tasks that are marked `aside=True`; None: they are done in their turn."""

    def execute(self, task: Any, timestamp: Any = None) -> Any:
        """Do a task, or have it done aside: it takes so long that no other should wait for it."""
        execute = super().execute  # type: ignore[misc]  # huey has no types
        if self.aside is not None and getattr(task, "aside", False):
            return self.aside.submit(execute, task, timestamp)
        return execute(task, timestamp)

    def dequeue(self) -> Any:
        """Return the next task, or None; a queue that cannot be reached is waited for."""
        try:
            task = super().dequeue()  # type: ignore[misc]  # huey has no types
        except QUEUE_ERRORS as error:
            self._trouble.met(str(error))
            time.sleep(_RETRY_SECONDS)
            return None
        self._trouble.over()
        return task

    # What we do not use, huey asks the storage for every second, and twice a task.

    def read_schedule(self, *_: Any) -> list[Any]:
        """Return nothing: no task of ours is for later."""
        return []

    def is_revoked(self, *_: Any) -> bool:
        """Say no: no task of ours is taken back."""
        return False

    def delete(self, _: str) -> bool:
        """Say that there was nothing: a revocation is all that would be deleted."""
        return False

    def deserialize_task(self, data: bytes) -> Any:
        """Return the task of a message, with its `enqueued_at`, or None where there is none to run."""
        try:
            message = self.serializer.deserialize(data)  # type: ignore[attr-defined]  # huey has no types
            task = self._registry.create_task(message)  # type: ignore[attr-defined]
            task.enqueued_at = message.enqueued_at
        except ForeignMessageError as error:
            self._refuse("foreign", str(error))
        except HueyException as error:
            self._refuse("unknown", str(error))
        else:
            return task
        return None

    def _refuse(self, kind: str, reason: str) -> None:
        self.refused[kind] += 1
        log.warning("a message was refused", kind=kind, reason=reason)


class _QueueFile(CySqliteStorage):  # type: ignore[misc]  # huey has no types
    """The embedded queue's file. Its methods raise QueueUnavailableError."""

    _conn: Any
    damaged = False

    @contextmanager
    def db(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Give a cursor; after an error the connection is not used again."""
        try:
            with super().db(*args, **kwargs) as cursor:
                yield cursor
        except cysqlite.DatabaseError as error:
            # huey's rollback fails, too, and its error hides the first one.
            errors = (error, error.__context__)
            self.damaged |= any(isinstance(e, cysqlite.DatabaseCorruptError) for e in errors)
            self.close()
            raise QueueUnavailableError(f"{self.filename} cannot be used: {error}") from error

    def close(self) -> bool:
        """Close the connection, if there is one; any thread may."""
        with self.lock:
            connection, self._conn = self._conn, None
            if connection:
                connection.close()
        return connection is not None

    def initialize_schema(self) -> None:
        """Make the tables where there are none, and a new file in place of a damaged one."""
        if not self.damaged:
            try:
                super().initialize_schema()
            except QueueUnavailableError:
                if not self.damaged:
                    raise
        if self.damaged:
            log.warning("the queue's file is damaged and made anew; the ledger knows what was on it")
            for end in ("", "-wal", "-shm"):
                Path(self.filename + end).unlink(missing_ok=True)
            self.damaged = False
            super().initialize_schema()


class EmbeddedQueue(_Guarded, CySqliteHuey):  # type: ignore[misc]  # huey has no types
    """The queue in an SQLite file of the state folder."""

    storage_class = _QueueFile

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inode = self._inode_now()

    def _inode_now(self) -> int | None:
        path = Path(self.storage.filename)
        return path.stat().st_ino if path.exists() else None

    def enqueue(self, task: Any) -> Any:
        """Put a task on the queue that everybody reads."""
        self.reopen_if_replaced()
        try:
            return super().enqueue(task)
        except QueueUnavailableError:
            if not self.storage.damaged:
                raise
            self.reopen_if_replaced()
            return super().enqueue(task)

    def reopen_if_replaced(self) -> None:
        """Go on with a new file where ours is damaged or was deleted: nobody hears what is put on a deleted one."""
        if self.storage.damaged or self._inode_now() != self._inode:
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
        # A Redis that hangs must not hang us: what is longer than a blocking read is an error.
        pool = ConnectionPool.from_url(
            redis_url, socket_timeout=_PATIENCE_SECONDS, socket_connect_timeout=_PATIENCE_SECONDS
        )
        return RedisQueue(
            f"everindex-{name}", connection_pool=pool, serializer=serializer, results=False, read_timeout=1
        )
    return EmbeddedQueue(
        f"everindex-{name}", filename=str(state / QUEUE_FILE), serializer=serializer, results=False
    )
