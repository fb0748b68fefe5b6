"""What waits on the queue, read without taking it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from queue_config.queue import ForeignMessageError, Queue, RedisQueue

PEEKED = 64
"""So many messages of a priority at most are read to learn whether a task waits: the queue may be long."""

COUNTED = 500
"""So many messages of a priority at most are read to count them by task."""

OTHERS = "others"
"""The `task` of those that wait behind so many that they are not read."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waits: its short name, positional arguments and priority.

    `enqueued_at`: when, by the wall clock, in seconds; None: unknown. Two hints that say the same are equal.
    """

    task: str
    args: tuple[Any, ...]
    priority: int
    enqueued_at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class WaitingTasks:
    """The tasks of one kind and priority that wait; `oldest_s` is None where nobody knows."""

    priority: int
    task: str
    count: int
    oldest_s: float | None


def waiting(huey: Queue, limit: int | None = None) -> list[Waiting]:
    """Return the tasks that wait, next first; a foreign message is left out."""
    return _read(huey, huey.storage.enqueued_items(limit))


def _read(huey: Queue, messages: Iterable[bytes]) -> list[Waiting]:
    found = []
    for data in messages:
        try:
            message = huey.serializer.deserialize(data)
        except ForeignMessageError:
            continue  # the consumer refuses it when its turn comes
        found.append(
            Waiting(
                message.name.rpartition(".")[2],
                tuple(message.args),
                message.priority or 0,
                message.enqueued_at,
            )
        )
    return found


def waits(huey: Queue, task: str, priority: int, domain: str) -> bool:
    """Say whether a task of this priority and domain, which is its first argument, waits on the queue already.

    Only the next few messages are read. Behind more than these a hint is not missed: whoever finds what is owed
    asks again.
    """
    messages = huey.peek(priority, PEEKED)
    found = _read(huey, messages)
    return len(messages) == PEEKED or any(w.task == task and w.args[:1] == (domain,) for w in found)


def waiting_by_task(huey: Queue, now: float) -> list[WaitingTasks]:
    """Return how much waits of each priority and task, the most urgent first; `now`: wall clock, seconds.

    Of each priority the next `COUNTED` messages are read; what waits behind them counts as `OTHERS`.
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
    """Count the tasks for later; none of ours is, so that another number is a fault."""
    return int(huey.storage.schedule_size())


def empty(huey: Queue) -> int:
    """Take every task off the queue; return how many there were. The ledger knows what they hinted at."""
    count = int(huey.storage.queue_size())
    huey.storage.flush_queue()
    return count


def kind(huey: Queue) -> Literal["embedded", "redis"]:
    """Say what the queue is."""
    return "redis" if isinstance(huey, RedisQueue) else "embedded"
