"""Checks of the queue: its file, or the Redis that the settings name."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.maintenance.databases import damage
from queue_config.queue import QUEUE_FILE
from service.usecases.doctor.finding import Finding, Installation, failure, ok, warning


def check_queue(looked_at: Installation) -> Iterator[Finding]:
    """Ask the Redis of the settings, or read the queue's file."""
    url = looked_at.settings.redis_url
    if url is not None:
        yield from _of_redis(url.get_secret_value())
    elif looked_at.place is not None:
        file = looked_at.place.state / QUEUE_FILE
        if problem := damage(file):
            yield warning(
                "queue",
                f"{file} is damaged ({problem})",
                "Everindex creates it again, within a minute while it runs or when you start it; nothing is lost",
            )
        elif file.exists():
            yield ok("queue", f"SQLite file {file}")


def _of_redis(url: str) -> Iterator[Finding]:
    from redis.exceptions import RedisError  # noqa: PLC0415 - most installations have none

    from queue_config.inspect import read_facts  # noqa: PLC0415

    try:
        facts = read_facts(url)
    except RedisError as error:
        yield failure(
            "queue",
            f"Redis cannot be reached ({error})",
            "start Redis, or correct REDIS_URL (`everindex config` shows where it was set)",
        )
        return
    if facts.eviction and facts.eviction.startswith("allkeys"):
        yield warning(
            "queue",
            f"Redis deletes the queue when its memory is full (maxmemory-policy {facts.eviction})",
            "set the policy: `redis-cli config set maxmemory-policy noeviction`, and in redis.conf",
        )
    else:
        yield ok("queue", f"Redis {facts.version}")
