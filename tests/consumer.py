"""What huey's consumer does, without its threads."""

from __future__ import annotations

from queue_config.queue import Queue


def work(queue: Queue) -> None:
    """Execute what waits until the queue is empty."""
    for _ in range(100):
        task = queue.dequeue()
        if task is None:
            return
        queue.execute(task)
    raise AssertionError("the queue is never empty")
