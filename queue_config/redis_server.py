"""Read the facts that a Redis reports about itself, without touching the queue."""

from __future__ import annotations

from typing import NamedTuple

from redis import Redis
from redis.exceptions import ResponseError

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
