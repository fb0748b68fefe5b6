"""What waits on the queue, read without taking it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from huey import Huey

from queue_config.queue import ForeignMessageError, RedisQueue


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


def waiting(huey: Huey, limit: int | None = None) -> list[Waiting]:
    """Return the tasks that wait, next first; a foreign message is left out."""
    found = []
    for data in huey.storage.enqueued_items(limit):
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


def waiting_by_task(huey: Huey, now: float) -> list[WaitingTasks]:
    """Return how much waits of each priority and task, the most urgent first; `now`: wall clock, seconds."""
    kinds: dict[tuple[int, str], list[float | None]] = {}
    for one in waiting(huey):
        kinds.setdefault((-one.priority, one.task), []).append(one.enqueued_at)
    return [
        WaitingTasks(-priority, task, len(times), _oldest(times, now))
        for (priority, task), times in sorted(kinds.items())
    ]


def _oldest(times: list[float | None], now: float) -> float | None:
    known = [at for at in times if at is not None]
    return max(0.0, now - min(known)) if known else None


def scheduled(huey: Huey) -> int:
    """Count the tasks for later; none of ours is, so that another number is a fault."""
    return int(huey.storage.schedule_size())


def empty(huey: Huey) -> int:
    """Take every task off the queue; return how many there were. The ledger knows what they hinted at."""
    count = int(huey.storage.queue_size())
    huey.storage.flush_queue()
    return count


def kind(huey: Huey) -> Literal["embedded", "redis"]:
    """Say what the queue is."""
    return "redis" if isinstance(huey, RedisQueue) else "embedded"
