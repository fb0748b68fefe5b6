"""The queue: an SQLite file on one machine, or Redis; JSON messages signed with the vault's key.

Huey delivers at most once and its default serializer is pickle. So a message carries only hints (the ledger
knows what is owed), and nothing that is not signed by us is ever decoded into a task.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
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
from queue_config.private import QUEUE_KEY, read_secret

QUEUE_FILE = "queue.db"
_DIGEST = hashlib.sha256
_SIGNATURE_BYTES = _DIGEST().digest_size
_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
_MOST_PRIORITIES = 16
ONCE_SECONDS = 3600.0
"""A message that may be executed once is refused when it is older: what it asks for may no longer be meant."""

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
    """Return the vault's signing key, made at the first call (32 bytes, mode 0600). Raises NotPrivateError."""
    return bytes.fromhex(read_secret(state, QUEUE_KEY))


class _Guarded:
    """What we add to a huey: a message that is not ours, or names no task, is counted and dropped, never run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refused = {"foreign": 0, "unknown": 0, "replayed": 0}
        self._trouble = Trouble("the queue cannot be read; saves wait")
        self.aside: Executor | None = None
        """What does the tasks that are marked `aside=True`; None: they are done in their turn."""
        self.is_first: Callable[[str], bool] = lambda _: True
        """Says whether the task of this id, marked `once=True`, was never executed, and remembers it."""

    def execute(self, task: Any, timestamp: Any = None) -> Any:
        """Do a task, or have it done aside: it takes so long that no other should wait for it.

        One that must not be done twice is refused if it was done, or is old: whoever can write to the queue may
        have kept its message, which is signed.
        """
        if getattr(task, "once", False):
            at = getattr(task, "enqueued_at", None)
            if at is None or abs(time.time() - at) > ONCE_SECONDS or not self.is_first(task.id):
                self._refuse("replayed", f"the request {task.name} was executed before, or is old: ask again")
                return None
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
        """Go on with a new file where ours is damaged or was deleted: nobody hears what is put on a deleted one."""
        if self.storage.damaged or self._inode_now() != self._inode:
            self.storage.close()
            self.storage.initialize_schema()
            self._inode = self._inode_now()


class RedisQueue(_Guarded, PriorityRedisHuey):  # type: ignore[misc]  # huey has no types
    """The queue in a Redis: a sorted set by falling priority, whose members begin with eight bytes of time."""

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
        # A stranger's messages may have any score: ours have a handful.
        while len(counts) < _MOST_PRIORITIES and (
            found := conn.zrangebyscore(key, above, "+inf", start=0, num=1, withscores=True)
        ):
            ((_, score),) = found
            counts[int(-score)] = conn.zcount(key, score, score)
            above = f"({score}"
        return counts

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
