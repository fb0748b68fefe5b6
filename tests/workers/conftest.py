"""A process's resources and its queue, on an SQLite file and on a real Redis."""

from __future__ import annotations

import pytest

from queue_config.queue import EmbeddedQueue
from queue_config.settings import Settings
from tests.models import shared_models  # noqa: F401 - a fixture
from workers.resources import Resources


@pytest.fixture(params=["embedded", "redis"])
def resources(request, vault, tmp_path, tiny_model):
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    made = Resources(
        Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), redis_url=url)
    )
    yield made
    for cache in made.caches().values():
        cache.close()
    made.state().close()


@pytest.fixture
def queue(resources):
    opened = resources.queue()
    yield opened
    if isinstance(opened, EmbeddedQueue):
        opened.storage.close()
