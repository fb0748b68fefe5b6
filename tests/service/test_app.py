"""What the query worker reports about itself."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from pipelines.model import LOW_PRIORITY, FoundFile
from queue_config.settings import Settings
from service.app import create_app
from service.http.routes import LONGEST_WAIT_SECONDS, add_search
from service.schemas.operations import Readiness
from service.usecases.operations import Operations
from service.usecases.search import View
from workers.resources import Resources

ALERTS = Path(__file__).parents[2] / "deploy/alerts.yml"


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    return Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))


@pytest.fixture
def questions(resources):
    """The questions of a query worker that has loaded its model."""
    resources.caches()
    asked = View(resources)
    asked.load_models()
    return asked


def ready(questions):
    """Return the status of `GET /ready`, and its body."""
    app = FastAPI()
    add_search(app, questions, questions.resources.queue())
    answer = TestClient(app).get("/ready")
    body = Readiness.model_validate_json(answer.text)
    assert body.ready == (answer.status_code == 200)
    return answer.status_code, body


def wait(resources, seconds):
    """Let a note have waited for `seconds`."""
    (domain,) = resources.domains()
    seen = [(FoundFile("a.md", "a.md", 1, 1, 1), "hash")]
    resources.cache(domain).ledger.record(domain.slug, seen, [], priority=LOW_PRIORITY)
    with closing(sqlite3.connect(resources.state().cache_path(domain.slug))) as con, con:
        con.execute("UPDATE vault_file SET dirty_since = dirty_since - ?", (seconds,))


def test_it_is_ready_when_nothing_waits(questions):
    status, body = ready(questions)
    assert (status, body.oldest_pending_s, body.failed) == (200, 0.0, {})
    assert body.model_ready
    assert body.caches_ready
    assert body.index_ready


def test_it_is_ready_while_a_note_waits_its_turn(resources, questions):
    wait(resources, LONGEST_WAIT_SECONDS / 2)
    status, body = ready(questions)
    assert (status, body.index_ready) == (200, True)
    assert body.oldest_pending_s >= LONGEST_WAIT_SECONDS / 2


def test_it_is_not_ready_when_a_note_has_waited_for_too_long(resources, questions):
    wait(resources, LONGEST_WAIT_SECONDS + 1)
    status, body = ready(questions)
    assert (status, body.index_ready, body.model_ready, body.caches_ready) == (503, False, True, True)


def test_notes_that_an_operator_lets_wait_keep_it_ready(resources, questions):
    wait(resources, LONGEST_WAIT_SECONDS + 1)
    operations = Operations(resources, resources.queue())
    (domain,) = resources.domains()
    operations.pause(domain.slug, paused=True)
    assert ready(questions)[0] == 200
    operations.pause(domain.slug, paused=False)
    assert ready(questions)[0] == 503


def test_it_is_not_ready_before_its_model_is_loaded(resources):
    resources.caches()
    status, body = ready(View(resources))
    assert (status, body.model_ready, body.caches_ready, body.index_ready) == (503, False, True, True)


def test_it_is_not_ready_before_there_is_a_cache(resources):
    status, body = ready(View(resources))
    assert (status, body.caches_ready) == (503, False)


def test_it_is_not_ready_with_a_cache_that_cannot_be_opened(resources):
    resources.caches()
    path = resources.state().cache_path("vault")
    resources.cache(resources.domains()[0]).close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(b"no database" * 1000)
    status, body = ready(View(resources))
    assert (status, body.caches_ready, list(body.failed)) == (503, False, ["vault"])


def test_it_waits_as_long_as_the_alert_does():
    limit = re.search(r"everindex_oldest_pending_age_seconds > (\d+)", ALERTS.read_text())
    assert limit
    assert float(limit[1]) == LONGEST_WAIT_SECONDS


def test_what_works_beside_the_questions_ends_with_the_application(resources):
    resources.caches()
    before = set(threading.enumerate())
    with TestClient(create_app(resources.settings, 8741)):
        beside = set(threading.enumerate()) - before
        assert beside
    for one in beside:
        one.join(timeout=60)
    assert not [one.name for one in beside if one.is_alive()]
