"""What a real Redis says of itself."""

from __future__ import annotations

import socket

import pytest
import redis

from queue_config.inspect import read_facts


@pytest.fixture
def server(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        yield client
        client.config_set("maxmemory-policy", "noeviction")


def test_the_version_and_the_policy_are_those_of_the_server(server, redis_url):
    assert read_facts(redis_url).version == server.info()["redis_version"]
    assert read_facts(redis_url).eviction == "noeviction"
    server.config_set("maxmemory-policy", "allkeys-lru")
    assert read_facts(redis_url).eviction == "allkeys-lru"


def test_a_server_that_refuses_to_tell_its_settings_is_asked_for_the_rest(server, redis_url):
    server.execute_command("ACL", "SETUSER", "plain", "on", ">word", "~*", "+@all", "-config")
    try:
        facts = read_facts(redis_url.replace("redis://", "redis://plain:word@"))
    finally:
        server.execute_command("ACL", "DELUSER", "plain")
    assert (facts.version, facts.eviction) == (server.info()["redis_version"], None)


def test_a_server_that_is_not_there_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(redis.RedisError):
        read_facts(f"redis://127.0.0.1:{port}/0")
