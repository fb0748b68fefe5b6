"""Inspect the messages on the queue without removing them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from redis import Redis
from redis.exceptions import ResponseError

from queue_config.queue import ForeignMessageError, Queue, RedisQueue

PEEKED = 64
"""Upper bound on the messages read per priority to find a waiting task: the queue may be long."""

COUNTED = 500
"""Upper bound on the messages read per priority to count them by task."""

OTHERS = "others"
"""The `task` under which messages beyond `COUNTED` are counted, because they are not read."""


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A waiting task: its short name, positional arguments and priority.

    `enqueued_at` is in seconds by the wall clock, or None if unknown. Two hints with the same content are equal.
    """

    task: str
    args: tuple[Any, ...]
    priority: int
    enqueued_at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class WaitingTasks:
    """The waiting tasks of one kind and priority; `oldest_s` is None if unknown."""

    priority: int
    task: str
    count: int
    oldest_s: float | None


def waiting(huey: Queue, limit: int | None = None) -> list[QueuedTask]:
    """Return the waiting tasks, next first, without foreign messages."""
    return _read(huey, huey.storage.enqueued_items(limit))


def _read(huey: Queue, messages: Iterable[bytes]) -> list[QueuedTask]:
    found = []
    for data in messages:
        try:
            message = huey.serializer.deserialize(data)
        except ForeignMessageError:
            continue  # the consumer refuses it later
        found.append(
            QueuedTask(
                message.name.rpartition(".")[2],
                tuple(message.args),
                message.priority or 0,
                message.enqueued_at,
            )
        )
    return found


def waits(huey: Queue, task: str, priority: int, domain: str) -> bool:
    """Say whether a task of this priority is already waiting for this domain (its first argument).

    Reads only the next few messages. A hint beyond them may be enqueued twice, which is harmless: the next sweep
    asks again.
    """
    messages = huey.peek(priority, PEEKED)
    return len(messages) == PEEKED or _is_in(_read(huey, messages), task, domain)


def is_among_next(huey: Queue, task: str, priority: int, argument: str) -> bool:
    """Say whether a task with this first argument is among the next `PEEKED` messages of this priority.

    Unlike `waits`, it is never true without such a message, for tasks that no sweep enqueues again.
    """
    return _is_in(_read(huey, huey.peek(priority, PEEKED)), task, argument)


def _is_in(found: list[QueuedTask], task: str, argument: str) -> bool:
    return any(one.task == task and one.args[:1] == (argument,) for one in found)


def waiting_by_task(huey: Queue, now: float) -> list[WaitingTasks]:
    """Count the waiting messages by priority and task, most urgent first; `now`: wall clock, seconds.

    Reads the next `COUNTED` messages of each priority; those after them count as `OTHERS`.
    """
    found = []
    for priority, count in sorted(huey.count_by_priority().items(), reverse=True):
        kinds: dict[str, list[float | None]] = {}
        messages = huey.peek(priority, COUNTED)
        for one in _read(huey, messages):
            kinds.setdefault(one.task, []).append(one.enqueued_at)
        found += [
            WaitingTasks(priority, task, len(at), _oldest(at, now)) for task, at in sorted(kinds.items())
        ]
        if len(messages) == COUNTED < count:
            found.append(WaitingTasks(priority, OTHERS, count - COUNTED, None))
    return found


def _oldest(times: list[float | None], now: float) -> float | None:
    known = [at for at in times if at is not None]
    return max(0.0, now - min(known)) if known else None


def scheduled(huey: Queue) -> int:
    """Count the scheduled tasks. We schedule none, so any number but 0 is a bug."""
    return int(huey.storage.schedule_size())


def empty(huey: Queue) -> int:
    """Remove every task from the queue; return their number. Pending work stays in the ledger."""
    count = int(huey.storage.queue_size())
    huey.storage.flush_queue()
    return count


def kind(huey: Queue) -> Literal["embedded", "redis"]:
    """Return the kind of queue."""
    return "redis" if isinstance(huey, RedisQueue) else "embedded"


# Read the facts that a Redis reports about itself, without touching the queue.


_PATIENCE_SECONDS = 5.0


class RedisFacts(NamedTuple):
    """A server's version, and what it does when its memory is full; None: it does not say."""

    version: str
    eviction: str | None


def read_facts(url: str) -> RedisFacts:
    """Return what the server at a URL says of itself. Raises RedisError where it cannot be asked."""
    with Redis.from_url(
        url, socket_timeout=_PATIENCE_SECONDS, socket_connect_timeout=_PATIENCE_SECONDS
    ) as server:
        version = str(server.info("server")["redis_version"])
        try:
            eviction = server.config_get("maxmemory-policy").get("maxmemory-policy")
        except ResponseError:  # many hosted servers refuse CONFIG
            eviction = None
    return RedisFacts(version, eviction)
