"""What waits on the queue, read without taking it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from huey import Huey

from queue_config.queue import ForeignMessageError


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waits: its short name, its positional arguments and its priority."""

    task: str
    args: tuple[Any, ...]
    priority: int


def waiting(huey: Huey, limit: int | None = None) -> list[Waiting]:
    """Return the tasks that wait, next first; a foreign message is left out."""
    found = []
    for data in huey.storage.enqueued_items(limit):
        try:
            message = huey.serializer.deserialize(data)
        except ForeignMessageError:
            continue  # the consumer refuses it when its turn comes
        found.append(Waiting(message.name.rpartition(".")[2], tuple(message.args), message.priority or 0))
    return found
