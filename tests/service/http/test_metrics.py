"""The metrics of every process, named by Prometheus' conventions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from pipelines.model import EndpointUse, Suggestion, now_iso
from pipelines.state.endpoints import EndpointUses
from pipelines.state.health import Process, Processes
from pipelines.state.jobs import History, Result
from pipelines.state.note_log import NoteEvent, NoteLog
from pipelines.state.state import EMBEDDING_SPEED, MEMORY, WATCHER, EmbeddingSpeed, WatcherFacts
from pipelines.state.tags import Proposals
from queue_config.settings import Settings
from service.http.metrics import add_metrics
from service.usecases.operations import Operations
from workers.heartbeat import process_name
from workers.resources import Resources
from workers.tasks import make_tasks

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(params=["embedded", "redis"])
def resources(request, vault, tmp_path, tiny_model):
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    made = Resources(
        Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), redis_url=url)
    )
    made.caches()
    made.state()
    return made


@pytest.fixture
def asked(resources):
    """The program that scrapes, with what search tells its times."""
    app = FastAPI()
    times = add_metrics(app, Operations(resources, resources.queue()))
    client: Any = TestClient(app)
    client.times = times
    return client


@pytest.fixture
def history(resources):
    opened = History(resources.place.state)
    yield opened
    opened.close()


def families(asked):
    response = asked.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {family.name: family for family in text_string_to_metric_families(response.text)}


def value(asked, name, **labels):
    """Return the one sample of a name and labels, or None."""
    found = [
        sample.value
        for family in families(asked).values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def job(history, state="done", **fields):
    number = history.start("id", "index_notes", "vault", worker=process_name(), paths=["a.md"])
    history.finish(number, Result(state=state, ran_ms=40.0, **fields))


def fill(resources, history, asked):
    """Record something for each metric, so that each has a sample."""
    job(history, saved_ms={"vault": [640.0]}, embedded=3)
    make_tasks(resources.queue(), resources).drain("vault")
    proposals = Proposals(resources.place.state)
    proposals.add(
        "vault", "a.md", [(Suggestion("soil", 0.9), "topic")], proposer="p", note_hash="h", at="now"
    )
    proposals.close()
    log = NoteLog(resources.place.state)
    log.add("vault", "m", "1:p", [NoteEvent("a.md", "indexed", ms=40, texts_embedded=1)])
    log.close()
    state = resources.state()
    state.put(EMBEDDING_SPEED, EmbeddingSpeed(120.5), "vault")
    state.put(WATCHER, WatcherFacts("events", None, 1.0, 2.0, overflows=0, process=1))
    processes = Processes(resources.place.state)
    processes.put(Process(process_name(), "worker", "1", datetime.now(UTC).isoformat(), 1000))
    processes.close()
    asked.times.observe("knn", 0.02)
    use_endpoints(resources)


def use_endpoints(resources):
    named = [{"name": name, "url": "http://127.0.0.1:9/v1", "model": "m"} for name in ("here", "cloud")]
    endpoints = Settings(endpoints=named).endpoints
    resources.settings = resources.settings.model_copy(update={"endpoints": endpoints})
    resources.stores.of(EndpointUses).add(now_iso()[:10], EndpointUse("cloud", 5, 1, 20, 200, 0.25))


def test_what_endpoints_did_today_is_there(resources, asked):
    use_endpoints(resources)
    assert value(asked, "everindex_endpoint_requests_today", server="cloud", result="failed") == 1
    assert value(asked, "everindex_endpoint_requests_today", server="cloud", result="done") == 4
    assert value(asked, "everindex_endpoint_texts_today", server="here", place="first") == 0
    assert value(asked, "everindex_endpoint_texts_today", server="cloud", model="m", place="fallback") == 20
    assert value(asked, "everindex_embedding_spend_today_dollars") == 0.25
    assert value(asked, "everindex_embedding_spend_limit_dollars") == 1


def test_every_metric_has_help_a_type_and_a_sample(resources, history, asked):
    fill(resources, history, asked)
    for name, family in families(asked).items():
        assert family.documentation.endswith("."), name
        assert family.type in ("counter", "gauge", "histogram"), name
        assert family.samples, name


def test_names_and_units_follow_the_conventions(resources, history, asked):
    """What `promtool check metrics` looks at: see prometheus/client_golang, testutil/promlint."""
    fill(resources, history, asked)
    text = asked.get("/metrics").text
    assert re.findall(r"# TYPE (\S+) counter", text)
    for name, kind in re.findall(r"# TYPE (\S+) (\S+)", text):
        assert re.fullmatch(r"everindex(_[a-z0-9]+)+", name), name
        assert name.endswith("_total") == (kind == "counter"), name
        assert not name.endswith(("_count", "_sum", "_bucket")), name
        assert not set(name.split("_")) & {
            "counter",
            "gauge",
            "histogram",
            "ms",
            "mb",
            "kb",
            "s",
            "minutes",
        }, name
    for family in families(asked).values():
        for sample in family.samples:
            for label in sample.labels:
                assert re.fullmatch(r"[a-z]+", label), (sample.name, label)
                assert label not in family.name.split("_"), (sample.name, label)
            assert sample.labels.keys() & {"le", "quantile"} <= (
                {"le"} if family.type == "histogram" else set()
            )


def test_a_histogram_is_one(history, asked):
    for ms in (100.0, 640.0, 1_000_000.0):
        job(history, saved_ms={"vault": [ms]})
    samples = families(asked)["everindex_save_to_searchable_seconds"].samples
    buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    assert list(buckets.values()) == sorted(buckets.values())
    assert (buckets["0.25"], buckets["1.0"], buckets["+Inf"]) == (1, 2, 3)
    assert value(asked, "everindex_save_to_searchable_seconds_count") == 3
    assert value(asked, "everindex_save_to_searchable_seconds_sum") == pytest.approx(1000.74)


def test_a_counter_never_falls_when_history_is_pruned(history, asked):
    for _ in range(3):
        job(history)
    job(history, state="put off", error="later")
    before = asked.get("/metrics").text
    history.prune(14, 1)
    assert value(asked, "everindex_jobs_total", task="index_notes", state="done") == 3
    assert value(asked, "everindex_jobs_total", task="index_notes", state="put_off") == 1
    assert "everindex_jobs_total" in before


def test_what_waits_on_the_queue_is_counted_by_priority_and_task(resources, asked):
    make_tasks(resources.queue(), resources).drain("vault")
    assert value(asked, "everindex_queue_up") == 1
    assert value(asked, "everindex_queue_tasks", task="drain") == 1
    assert value(asked, "everindex_queue_oldest_age_seconds", task="drain") >= 0


def test_an_unavailable_queue_leaves_the_rest(asked, monkeypatch):
    from queue_config.queue import EmbeddedQueue, QueueUnavailableError, RedisQueue

    def away(*_):
        raise QueueUnavailableError("away")

    for kind in (EmbeddedQueue, RedisQueue):
        monkeypatch.setattr(kind, "count_by_priority", away)
    assert value(asked, "everindex_queue_up") == 0
    assert value(asked, "everindex_cache_up", domain="vault") == 1


def test_a_damaged_cache_leaves_the_rest(resources, asked):
    path = resources.state().cache_path("vault")
    resources.cache(resources.domains()[0]).close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(b"no database" * 1000)
    assert value(asked, "everindex_cache_up", domain="vault") == 0
    assert value(asked, "everindex_queue_up") == 1


def test_notes_are_counted_by_how_they_stand(asked):
    assert value(asked, "everindex_notes", domain="vault", state="indexed") == 0
    assert value(asked, "everindex_notes", domain="vault", state="parked") == 0


def test_without_a_worker_none_is_counted(asked):
    assert value(asked, "everindex_processes", role="worker") == 0


def test_a_worker_that_ended_unexpectedly_is_counted_for_an_hour(asked, resources):
    processes = Processes(resources.place.state)
    processes.put(
        Process(f"{process_name().partition('/')[0]}/1.0", "worker", "1", datetime.now(UTC).isoformat(), 1)
    )
    processes.close()
    assert value(asked, "everindex_processes_ended", role="worker") == 1
    assert value(asked, "everindex_processes", role="worker") == 0


def test_search_tells_its_times_by_stage(asked):
    asked.times.observe("knn", 0.02)
    asked.times.observe("knn", 0.04)
    assert value(asked, "everindex_search_duration_seconds_count", stage="knn") == 2
    assert value(asked, "everindex_search_duration_seconds_sum", stage="knn") == pytest.approx(0.06)


def test_the_size_of_every_database_and_its_log_is_there(asked):
    assert value(asked, "everindex_database_bytes", file="state.db") > 0
    assert value(asked, "everindex_wal_bytes", file="state.db") >= 0
    assert value(asked, "everindex_database_bytes", file="cache-vault.1.db") > 0


def test_every_metric_is_documented(asked):
    documented = set(re.findall(r"`(everindex_\w+)`", (DOCS / "operating.md").read_text(encoding="utf-8")))
    assert documented == set(re.findall(r"# TYPE (\S+) ", asked.get("/metrics").text))


def test_what_was_compared_of_what_is_in_memory_is_counted(resources, asked):
    resources.state().put(MEMORY, {"vault": (40, 2)})
    found = families(asked)
    samples = [s for n in ("checked", "differing") for s in found[f"everindex_memory_{n}"].samples]
    assert [(s.labels, s.value) for s in samples] == [({"domain": "vault"}, 40), ({"domain": "vault"}, 2)]
