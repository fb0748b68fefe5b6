"""The queue: an SQLite file on one machine, or Redis.

Huey delivers at most once, so a message carries only hints (the ledger records the pending work), and only messages
that we signed are decoded into tasks.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
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
from queue_config.secrets import QUEUE_KEY, read_secret

# Messages of the queue: JSON signed with the vault's key. Huey's default serializer is pickle, which runs code.


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


QUEUE_FILE = "queue.db"
_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
_READ_SECONDS = 1.0
_CHECK_SECONDS = 60.0
_MOST_PRIORITIES = 16
ONCE_SECONDS = 3600.0
"""A run-once message older than this is refused: its request may be out of date."""

log = structlog.get_logger()


class QueueUnavailableError(OSError):
    """The queue's file cannot be used now: its disk is full or failing, or the file is damaged."""


class NotRecordedError(OSError):
    """The start of a run-once task cannot be recorded, so a replay of its message would not be detected."""


QUEUE_ERRORS = (QueueUnavailableError, RedisError)
"""What an unavailable queue raises. Nothing is lost: the ledger records the pending work."""


class _Guarded:
    """Extends huey: a message that is not ours, or names no task, is counted and dropped, never run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refused = {"foreign": 0, "unknown": 0, "replayed": 0}
        self._trouble = Trouble("the queue cannot be read; saves wait")
        self.aside: Executor | None = None
        """Runs the tasks marked `aside=True`; None: they run like all others."""
        self.is_first: Callable[[str], bool] = lambda _: True
        """Says whether the task with this id, marked `once=True`, is executed for the first time, and records it.

        Raises NotRecordedError.
        """

    def execute(self, task: Any, timestamp: Any = None) -> Any:
        """Run a task, or hand it to `aside` if it takes so long that no other task should wait for it.

        A run-once task is refused if it was executed before or is old: an attacker who can write to the queue may
        replay its signed message. It is dropped if its start cannot be recorded.
        """
        if getattr(task, "once", False) and not self._may_run(task):
            return None
        execute = super().execute  # type: ignore[misc]  # huey has no types
        if self.aside is not None and getattr(task, "aside", False):
            return self.aside.submit(execute, task, timestamp)
        return execute(task, timestamp)

    def _may_run(self, task: Any) -> bool:
        at = getattr(task, "enqueued_at", None)
        try:
            first = at is not None and abs(time.time() - at) <= ONCE_SECONDS and self.is_first(task.id)
        except NotRecordedError as error:
            log.warning(
                "a request was dropped because its start could not be recorded; send it again",
                task=task.name,
                reason=str(error),
            )
            return False
        if not first:
            self._refuse("replayed", f"the request {task.name} ran before or is too old; send it again")
        return first

    def dequeue(self) -> Any:
        """Return the next task, or None; wait if the queue cannot be reached."""
        try:
            task = super().dequeue()  # type: ignore[misc]  # huey has no types
        except QUEUE_ERRORS as error:
            self._trouble.met(str(error))
            time.sleep(_RETRY_SECONDS)
            return None
        self._trouble.over()
        return task

    # We use none of these, but huey asks the storage for them every second, and twice per task.

    def read_schedule(self, *_: Any) -> list[Any]:
        """Return nothing: we schedule no tasks."""
        return []

    def is_revoked(self, *_: Any) -> bool:
        """Return False: we revoke no tasks."""
        return False

    def delete(self, _: str) -> bool:
        """Return False: only revocations would be deleted."""
        return False

    def deserialize_task(self, data: bytes) -> Any:
        """Return the task of a message with its `enqueued_at`, or None if there is nothing to run."""
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
        """Yield a cursor; after an error the connection is not used again."""
        try:
            with super().db(*args, **kwargs) as cursor:
                yield cursor
        except cysqlite.DatabaseError as error:
            # huey's rollback would fail, too, and its error would hide the first one.
            errors = (error, error.__context__)
            self.damaged |= any(isinstance(e, cysqlite.DatabaseCorruptError) for e in errors)
            self.close()
            raise QueueUnavailableError(f"{self.filename} cannot be used: {error}") from error

    def close(self) -> bool:
        """Close the connection, if there is one; any thread may call it."""
        with self.lock:
            connection, self._conn = self._conn, None
            if connection:
                connection.close()
        return connection is not None

    def initialize_schema(self) -> None:
        """Create missing tables, and a new file in place of a damaged or a deleted one."""
        self.damaged |= self._was_deleted()
        if not self.damaged:
            try:
                super().initialize_schema()
                self.check()
            except QueueUnavailableError:
                if not self.damaged:
                    raise
        if self.damaged:
            log.warning(
                "the queue's file is damaged or was deleted; it is created again, and the ledger has the pending work"
            )
            for path in (Path(self.filename), *self._journal()):
                path.unlink(missing_ok=True)
            self.damaged = False
            super().initialize_schema()

    def _journal(self) -> list[Path]:
        return [Path(self.filename + end) for end in ("-wal", "-shm")]

    def _was_deleted(self) -> bool:
        """Say whether a journal is left of a file that is gone: it would be taken for the new file's."""
        # In this order, because a process that creates the file now creates its journal afterwards.
        return any(path.exists() for path in self._journal()) and not Path(self.filename).exists()

    def check(self) -> None:
        """Read the whole file, of which no message may need the damaged part. Raises QueueUnavailableError."""
        found = self.sql("pragma quick_check(1)", results=True)
        if [text for (text,) in found] != ["ok"]:
            self.damaged = True
            raise QueueUnavailableError(f"{self.filename} is damaged: {found}")


class EmbeddedQueue(_Guarded, CySqliteHuey):  # type: ignore[misc]  # huey has no types
    """The queue in an SQLite file of the state folder."""

    storage_class = _QueueFile

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inode = self._inode_now()
        self._checked_at = time.monotonic()

    def _inode_now(self) -> int | None:
        path = Path(self.storage.filename)
        return path.stat().st_ino if path.exists() else None

    def enqueue(self, task: Any) -> Any:
        """Put a task on the queue that all processes read."""
        self.reopen_if_replaced()
        try:
            return super().enqueue(task)
        except QueueUnavailableError:
            if not self.storage.damaged:
                raise
            self.reopen_if_replaced()
            return super().enqueue(task)

    def peek(self, priority: int, limit: int) -> list[bytes]:
        """Return up to `limit` messages of one priority, next first, and leave them on the queue."""
        sql = "select data from task where queue = ? and priority = ? order by id limit ?"
        return [data for (data,) in self.storage.sql(sql, (self.storage.name, priority, limit), results=True)]

    def count_by_priority(self) -> dict[int, int]:
        """Return how many messages of each priority wait."""
        sql = "select priority, count(*) from task where queue = ? group by priority order by priority desc limit ?"
        found = self.storage.sql(sql, (self.storage.name, _MOST_PRIORITIES), results=True)
        return {int(priority): count for priority, count in found}

    def reopen_if_replaced(self) -> None:
        """Switch to a new file if ours is damaged or deleted: no process reads messages in a deleted file."""
        self._check_now_and_then()
        if self.storage.damaged or self._inode_now() != self._inode:
            self.storage.close()
            self.storage.initialize_schema()
            self._inode = self._inode_now()

    def _check_now_and_then(self) -> None:
        if time.monotonic() - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = time.monotonic()
            with suppress(QueueUnavailableError):  # `damaged` says whether that is the reason
                self.storage.check()


class RedisQueue(_Guarded, PriorityRedisHuey):  # type: ignore[misc]  # huey has no types
    """The queue in Redis: a sorted set by falling priority, whose members begin with eight bytes of time."""

    def peek(self, priority: int, limit: int) -> list[bytes]:
        """Return up to `limit` messages of one priority, next first, and leave them on the queue."""
        storage = self.storage
        found = storage.conn.zrangebyscore(storage.queue_key, -priority, -priority, start=0, num=limit)
        return [member[8:] for member in found]

    def count_by_priority(self) -> dict[int, int]:
        """Return how many messages of each priority wait."""
        key, conn = self.storage.queue_key, self.storage.conn
        counts: dict[int, int] = {}
        above: float | str = "-inf"
        # Foreign messages may have any score; ours have only a few.
        while len(counts) < _MOST_PRIORITIES and (
            found := conn.zrangebyscore(key, above, "+inf", start=0, num=1, withscores=True)
        ):
            ((_, score),) = found
            counts[int(-score)] = conn.zcount(key, score, score)
            above = f"({score}"
        return counts

    def reopen_if_replaced(self) -> None:
        """Do nothing: the client reconnects by itself."""


Queue = EmbeddedQueue | RedisQueue


def open_queue(state: Path, redis_url: str | None, name: str) -> Queue:
    """Open the vault's queue: Redis if a URL is given, else an SQLite file in the state folder."""
    serializer = SignedJsonSerializer(read_key(state))
    if redis_url:
        # A hanging Redis must not block us: anything longer than a blocking read is an error.
        pool = ConnectionPool.from_url(
            redis_url, socket_timeout=_PATIENCE_SECONDS, socket_connect_timeout=_PATIENCE_SECONDS
        )
        return RedisQueue(
            f"everindex-{name}",
            connection_pool=pool,
            serializer=serializer,
            results=False,
            read_timeout=_READ_SECONDS,
        )
    return EmbeddedQueue(
        f"everindex-{name}", filename=str(state / QUEUE_FILE), serializer=serializer, results=False
    )
