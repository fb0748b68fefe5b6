"""What operators see, and what they can do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from pipelines.model import LOW_PRIORITY, EndpointUse, FoundFile, Suggestion, now_iso
from pipelines.state.endpoints import EndpointUses
from pipelines.state.health import Process, Processes
from pipelines.state.jobs import History, Result
from pipelines.state.note_log import NoteEvent, NoteLog
from pipelines.state.state import (
    EMBEDDER,
    EMBEDDING_SPEED,
    WATCHER,
    EmbedderFacts,
    EmbeddingSpeed,
    WatcherFacts,
)
from pipelines.state.tags import Proposals
from queue_config.settings import Settings
from service.http.errors import add_problems
from service.http.routes_ops import add_operations
from service.usecases.maintenance import index_once
from service.usecases.operations import BOUNDS, Operations, percentile
from service.usecases.search import View
from service.usecases.status import find_problems
from tests.consumer import work
from workers.heartbeat import process_name
from workers.resources import Resources
from workers.tasks import make_tasks, sweep


@pytest.fixture(params=["embedded", "redis"])
def resources(request, vault, tmp_path, tiny_model):
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    made = Resources(
        Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), redis_url=url)
    )
    made.caches()
    return made


@pytest.fixture
def queue(resources):
    """A worker's queue, with the tasks on it."""
    opened = resources.queue()
    opened.tasks = make_tasks(opened, resources)
    return opened


@pytest.fixture
def operator(resources):
    app = FastAPI()
    add_operations(app, Operations(resources, resources.queue()))
    add_problems(app)
    return TestClient(app)


@pytest.fixture
def history(resources):
    resources.state()
    opened = History(resources.place.state)
    yield opened
    opened.close()


def job(history, *paths, state="done", task="index_notes", **fields):
    number = history.start("id", task, "vault", worker=process_name(), paths=paths)
    history.finish(number, Result(state=state, ran_ms=40.0, **fields))
    return number


def park(resources, *paths, kind="too-large"):
    """Park notes, as a worker does that cannot index them."""
    (domain,) = resources.domains()
    cache = resources.cache(domain)
    seen = [(FoundFile(path, path, 1, 1, n), f"hash of {path}") for n, path in enumerate(paths)]
    cache.ledger.record(domain.slug, seen, [], priority=LOW_PRIORITY)
    for row in cache.leases.take("words", 100, "worker"):
        cache.park(row, kind, f"{row.path} is wrong")


# The overview


def test_the_overview_tells_of_every_domain(resources, operator, history):
    (resources.root / "a.md").write_text("[[b]]")
    (resources.root / "b.md").write_text("b")
    worker = resources.queue()
    tasks = make_tasks(worker, resources)
    tasks.reconcile_vault("request", False)  # noqa: FBT003 - a task's argument
    work(worker)
    park(resources, "parked.md")
    job(history, "a.md", saved_ms={"vault": [400.0, 600.0, 9000.0]})
    proposals = Proposals(resources.place.state)
    proposals.add(
        "vault", "a.md", [(Suggestion("soil", 0.9), "topic")], proposer="p", note_hash="h", at="now"
    )
    proposals.close()
    (domain,) = operator.get("/ops/overview.json").json()["domains"]
    assert (domain["domain"], domain["notes"], domain["edges"], domain["parked"]) == ("vault", 2, 1, 1)
    assert (domain["review_waiting"], domain["pending"], domain["paused"]) == (1, 0, False)
    assert (domain["saves"], domain["saved_median_s"], domain["saved_p95_s"]) == (3, 0.6, 9.0)
    assert (domain["device"], domain["texts_per_s"]) == (None, None)


def test_what_is_above_its_bound_is_worth_a_look_and_what_is_not_is_not(resources, monkeypatch):
    operations = Operations(resources, resources.queue())
    log, day = resources.stores.of(NoteLog), now_iso()[:10]
    events = [NoteEvent("slow.md", "indexed", ms=3_000, texts_embedded=1)] * 18
    events += [NoteEvent("bad.md", "parked", ms=1)] * 2
    log.add("vault", "a model", "1:a", events)
    resources.stores.of(Proposals).spending.add(day, "claude", 1.2)
    operations.search_p95 = lambda: 0.25
    assert operations.overview().unusual == [
        "vault: embedding took 3.0 s a note in the last 24 hours, more than 2 s",
        "vault: 2 of 20 notes could not be indexed in the last 24 hours, more than 5%; /ops/parked says why",
        "one search of 20 took longer than 250 ms; the bound is 200 ms",
        "proposals have cost 1.20 dollars today, more than 1",
    ]
    higher = replace(BOUNDS, embedding_s=3, parked_share=0.1, search_p95_s=0.25, dollars_a_day=1.2)
    monkeypatch.setattr("service.usecases.operations.BOUNDS", higher)
    assert operations.overview().unusual == []
    resources.root.joinpath("a.md").write_text("# Bread\n\nYeast.\n\n# Boat\n\nA river.")
    index_once(resources, lambda *_: None)
    lower = replace(higher, passages_per_note=0.5, notes=1, index_bytes=1)
    monkeypatch.setattr("service.usecases.operations.BOUNDS", lower)
    assert [line.partition(",")[0] for line in operations.overview().unusual] == [
        "vault: a note has 1 passages on average",
        "vault: its index has 0.0 GB",
    ]


def test_the_overview_tells_of_watcher_embedder_and_processes(resources, operator):
    state = resources.state()
    overview = operator.get("/ops/overview.json").json()
    assert (overview["watcher"], overview["processes"], overview["failed"]) == (None, [], {})
    state.put(WATCHER, WatcherFacts("polling", "a network disk", None, None, overflows=2, process=1))
    (domain,) = resources.domains()
    state.put(EMBEDDER, EmbedderFacts("cpu", "bfloat16"), resources.reader(domain).meta.model)
    state.put(EMBEDDING_SPEED, EmbeddingSpeed(12.5), "vault")
    processes = Processes(resources.place.state)
    now = datetime.now(UTC).isoformat()
    processes.put(Process(process_name(), "worker", "1", now, 1000))
    processes.put(Process(f"{process_name().partition('/')[0]}/1.0", "query", "1", now, 1000))
    processes.close()
    overview = operator.get("/ops/overview.json").json()
    assert (overview["watcher"]["mode"], overview["watcher"]["overflows"]) == ("polling", 2)
    assert {(one["role"], one["alive"]) for one in overview["processes"]} == {
        ("worker", True),
        ("query", False),
    }
    (domain,) = overview["domains"]
    assert (domain["device"], domain["precision"], domain["texts_per_s"]) == ("cpu", "bfloat16", 12.5)


def test_a_damaged_cache_is_named_and_silences_nothing(resources, operator):
    path = resources.state().cache_path("vault")
    resources.cache(resources.domains()[0]).close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(b"no database" * 1000)
    response = operator.get("/ops/overview.json")
    assert (response.status_code, list(response.json()["failed"])) == (200, ["vault"])
    assert operator.get("/ops/parked.json").status_code == 200


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values, share):
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values)


# The queue


def test_the_queue_tells_what_waits_runs_and_is_paused(operator, queue, history):
    queue.tasks.drain("vault")
    queue.tasks.drain("other")
    queue.tasks.retry_parked(None)
    number = history.start("id", "drain", "vault", worker=process_name())
    found = operator.get("/ops/queue.json").json()
    assert [(line["task"], line["waiting"]) for line in found["by_task"]] == [
        ("retry_parked", 1),
        ("drain", 2),
    ]
    assert all(line["oldest_s"] >= 0 for line in found["by_task"])
    assert (found["waiting"], found["scheduled"], found["paused"], found["error"]) == (3, 0, [], None)
    (running,) = found["running"]
    assert (running["id"], running["task"], running["worker"]) == (number, "drain", process_name())


def test_an_unavailable_queue_is_reported(operator, monkeypatch):
    from queue_config.queue import EmbeddedQueue, QueueUnavailableError, RedisQueue

    def away(*_):
        raise QueueUnavailableError("the file is gone")

    for kind in (EmbeddedQueue, RedisQueue):
        monkeypatch.setattr(kind, "count_by_priority", away)
    found = operator.get("/ops/queue.json").json()
    assert (found["waiting"], found["error"]) == (0, "the file is gone")


def test_an_emptied_queue_loses_no_note(resources, operator, queue):
    (resources.root / "a.md").write_text("note")
    queue.tasks.reconcile_vault("request", False)  # noqa: FBT003 - a task's argument
    queue.execute(queue.dequeue())
    assert operator.post("/ops/queue/empty", json={"confirm": True}).json() == {"removed": 1}
    assert queue.pending_count() == 0
    sweep(queue, queue.tasks, resources)
    work(queue)
    (domain,) = resources.domains()
    assert resources.cache(domain).counts().notes == 1


@pytest.mark.parametrize("body", [{}, {"confirm": False}, {"confirm": True, "more": 1}, [], None])
def test_nothing_is_emptied_without_a_confirmation(operator, queue, body):
    queue.tasks.drain("vault")
    assert operator.post("/ops/queue/empty", json=body).status_code == 422
    assert queue.pending_count() == 1


def test_a_paused_domain_is_reported_until_it_is_resumed(resources, operator, queue):
    assert operator.post("/ops/queue/pause", params={"domain": "vault"}).json() == {"paused": ["vault"]}
    assert operator.get("/ops/queue.json").json()["paused"] == ["vault"]
    assert operator.get("/ops/overview.json").json()["domains"][0]["paused"] is True
    (problem,) = [one for one in find_problems(resources, queue) if "vault is paused since" in one]
    assert problem.endswith("when an operator resumes it (`/ops/queue`)")
    assert operator.post("/ops/queue/resume", params={"domain": "vault"}).json() == {"paused": []}
    assert not any("paused" in problem for problem in find_problems(resources, queue))
    assert operator.post("/ops/queue/resume", params={"domain": "vault"}).status_code == 200


def test_why_says_of_a_note_that_waits_that_its_domain_is_paused(resources, operator):
    (domain,) = resources.domains()
    seen = [(FoundFile("a.md", "a.md", 1, 1, 1), "hash")]
    resources.cache(domain).ledger.record(domain.slug, seen, [], priority=LOW_PRIORITY)
    questions = View(resources)
    operator.post("/ops/queue/pause", params={"domain": "vault"})
    known = questions.why("a.md")
    assert (known["state"], known["reason"][:22]) == ("pending", "vault is paused since ")
    assert known["reason"].endswith("when an operator resumes vault (`/ops/queue`)")
    operator.post("/ops/queue/resume", params={"domain": "vault"})
    assert questions.why("a.md")["reason"] == "a worker indexes it next; `everindex status` says if none runs"


def test_why_says_of_a_note_whose_file_vanished_that_no_answer_has_it_and_what_holds_it(resources, vault):
    for number in range(25):
        (vault / f"{number}.md").write_text(f"# Note {number}\n\nText.\n")
    index_once(resources, lambda *_: None)
    questions = View(resources)
    assert questions.why("3.md")["reason"] is None
    (domain,) = resources.domains()
    resources.vanished().add(domain.slug, ["3.md"])
    known = questions.why("3.md")
    assert (known["state"], known["reason"][:20]) == ("pending", "its file is gone, so")
    assert questions.why("4.md")["reason"] is None
    for number in range(25):
        (vault / f"{number}.md").unlink()
    index_once(resources, lambda *_: None)
    assert "`everindex index --confirm-deletions`" in questions.why("4.md")["reason"]


def test_a_worker_that_was_killed_is_a_problem_until_another_one_runs(resources, queue):
    def say(name):
        resources.processes().put(Process(name, "worker", "1", datetime.now(UTC).isoformat(), 1000))
        return [problem for problem in find_problems(resources, queue) if "exited unexpectedly" in problem]

    assert say(f"{process_name().partition('/')[0]}/1.0")
    assert not say(process_name())


def test_a_worker_that_ended_as_it_should_is_no_problem(resources, queue):
    ended = f"{process_name().partition('/')[0]}/1.0"
    resources.processes().put(Process(ended, "worker", "1", datetime.now(UTC).isoformat(), 1000))
    resources.processes().delete(ended)
    assert find_problems(resources, queue) == []


def test_an_unknown_domain_cannot_be_paused(operator):
    response = operator.post("/ops/queue/pause", params={"domain": "none"})
    assert (response.status_code, "vault" in response.json()["detail"]) == (404, True)


# Jobs


def test_jobs_are_listed_page_by_page_and_counted(operator, history):
    numbers = [job(history, f"{n}.md") for n in range(5)]
    job(history, state="failed", task="drain", error="broken")
    first = operator.get("/ops/jobs.json", params={"task": "index_notes", "limit": 3}).json()
    assert [one["id"] for one in first["jobs"]] == numbers[:1:-1]
    assert first["counts"] == {"index_notes": {"done": 5}, "drain": {"failed": 1}}
    second = operator.get(
        "/ops/jobs.json", params={"task": "index_notes", "limit": 3, "before": first["before"]}
    ).json()
    assert ([one["id"] for one in second["jobs"]], second["before"]) == (numbers[1::-1], None)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [({"path": "SOIL"}, 1), ({"error": "brok"}, 1), ({"state": "put off"}, 0), ({"domain": "x"}, 0), ({}, 2)],
)
def test_jobs_are_found_by_what_they_are(operator, history, wanted, count):
    job(history, "Garden/Soil.md")
    job(history, "b.md", state="failed", error="it broke: broken")
    assert len(operator.get("/ops/jobs.json", params=wanted).json()["jobs"]) == count


def test_one_job_is_shown_with_its_log(operator, history):
    number = job(history, "a.md", log=["one", "two"], saved_ms={"vault": [640.0]})
    found = operator.get(f"/ops/jobs/{number}.json").json()
    assert (found["log"], found["saved_ms"], found["state"]) == (["one", "two"], [640.0], "done")
    assert operator.get(f"/ops/jobs/{number + 1}.json").status_code == 404


@given(
    params=st.fixed_dictionaries(
        {},
        optional={
            "task": st.text(max_size=10),
            "domain": st.text(max_size=10),
            "state": st.text(max_size=10) | st.sampled_from(["done", "lost"]),
            "path": st.text(max_size=20),
            "error": st.text(max_size=20),
            "before": st.integers() | st.text(max_size=5),
            "limit": st.integers() | st.text(max_size=5),
        },
    )
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_asked_for_is_answered_or_refused(operator, params):
    assert operator.get("/ops/jobs.json", params=params).status_code in (200, 422)


@pytest.mark.parametrize("number", ["0", "-1", "x", str(2**63), "9" * 40])
def test_what_is_no_job_is_refused(operator, number):
    assert operator.get(f"/ops/jobs/{number}.json").status_code == 422


@pytest.mark.parametrize(("hours", "points"), [("1", 61), ("24", 97)])
def test_the_series_covers_its_hours(operator, history, hours, points):
    job(history, "a.md")
    found = operator.get("/ops/series.json", params={"hours": hours}).json()
    assert (found["hours"], len(found["points"])) == (int(hours), points)
    assert sum(point["done"] for point in found["points"]) == 1
    assert operator.get("/ops/series.json", params={"hours": "2"}).status_code == 422


# Parked notes


def test_parked_notes_are_listed_with_their_reasons(resources, operator):
    park(resources, "a.md", "b.md")
    park(resources, "c.md", kind="unreadable")
    found = operator.get("/ops/parked.json").json()
    assert found["kinds"] == {"too-large": 2, "unreadable": 1}
    assert (found["notes"][0]["path"], found["notes"][0]["reason"]) == ("a.md", "a.md is wrong")
    assert all(note["since_s"] >= 0 and note["attempts"] == 1 for note in found["notes"])


def test_parked_notes_of_one_reason_are_retried_together(resources, operator, queue):
    park(resources, "a.md", "b.md")
    park(resources, "c.md", kind="unreadable")
    for name in "abc":
        (resources.root / f"{name}.md").write_text("good now")
    assert operator.post("/ops/parked/retry", json={"kind": "too-large"}).json() == {
        "paths": ["a.md", "b.md"]
    }
    work(queue)
    assert [note["path"] for note in operator.get("/ops/parked.json").json()["notes"]] == ["c.md"]
    (domain,) = resources.domains()
    assert resources.cache(domain).counts().notes == 2


def test_only_the_notes_that_were_chosen_are_retried(resources, operator, queue):
    park(resources, "a.md", "b.md")
    assert operator.post("/ops/parked/retry", json={"paths": ["b.md", "x.md"]}).json() == {"paths": ["b.md"]}
    assert queue.pending_count() == 1


def test_choosing_nothing_does_nothing(resources, operator, queue):
    park(resources, "a.md")
    for what in ("retry", "forget"):
        assert operator.post(f"/ops/parked/{what}", json={}).json() == {"paths": []}
    assert queue.pending_count() == 0
    assert len(operator.get("/ops/parked.json").json()["notes"]) == 1


def test_a_forgotten_note_is_shown_no_more_until_it_changes_and_fails_again(resources, operator):
    park(resources, "a.md", "b.md", "c.md")
    for path in ("a.md", "b.md"):
        assert operator.post("/ops/parked/forget", json={"paths": [path]}).json() == {"paths": [path]}
    found = operator.get("/ops/parked.json").json()
    assert ([note["path"] for note in found["notes"]], found["forgotten"]) == (["c.md"], 2)
    assert operator.get("/ops/overview.json").json()["domains"][0]["parked"] == 1
    (domain,) = resources.domains()
    assert View(resources).health(resources.queue()).domains[domain.slug].parked == 1
    cache = resources.cache(domain)
    changed = [(FoundFile("a.md", "a.md", 2, 2, 0), "another hash")]
    cache.ledger.record(domain.slug, changed, [], priority=LOW_PRIORITY)
    (row,) = cache.leases.take("words", 1, "worker")
    cache.park(row, "too-large", "still wrong")
    found = operator.get("/ops/parked.json").json()
    assert ([note["path"] for note in found["notes"]], found["forgotten"]) == (["a.md", "c.md"], 1)
    assert operator.post("/ops/parked/forget", json={"kind": "too-large"}).json() == {
        "paths": ["a.md", "c.md"]
    }
    found = operator.get("/ops/parked.json").json()
    assert (found["notes"], found["kinds"], found["forgotten"]) == ([], {}, 3)


def test_endpoints_that_cost_much_or_stand_in_for_the_first_are_worth_a_look(vault, tmp_path):
    named = [
        {"name": name, "url": "http://127.0.0.1:9/v1", "model": "m", "dimension": 4} for name in ("a", "b")
    ]
    made = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model="m", endpoints=named))
    operations = Operations(made, made.queue())
    uses, day = made.stores.of(EndpointUses), now_iso()[:10]
    uses.add(day, EndpointUse("a", 20, 1, 80, 800, 0.0))
    uses.add(day, EndpointUse("b", 5, 0, 20, 200, 1.0))
    assert operations.overview().unusual == []
    uses.add(day, EndpointUse("b", 1, 0, 1, 10, 0.2))
    uses.add("2020-01-01", EndpointUse("b", 1, 0, 1000, 10, 20.0))
    assert operations.overview().unusual == [
        "m: 21 of 101 texts were embedded by another endpoint than the first today, more than 20%",
        "endpoints and conversations have cost 1.20 dollars today, more than 1",
    ]
    assert [(one.model, one.is_first, one.use.failures) for one in operations.endpoints_today()] == [
        ("m", True, 1),
        ("m", False, 0),
    ]
