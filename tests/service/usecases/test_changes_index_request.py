"""A note that is indexed on request: findable when the answer says so, and never by a path that is not a note's."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipelines.errors import NoteNotFoundError, VaultNotFoundError
from pipelines.model import REQUEST_PRIORITY
from pipelines.question import read_question
from pipelines.sqlite import select
from pipelines.state.note_log import NoteLog
from queue_config import inspect as queue_inspect
from service.usecases.audience import Audience
from service.usecases.changes import IndexRequests
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.canaries import HIDDEN, NOTES, leaks
from tests.working import idle_worker, indexed, worker
from workers.resources import Resources
from workers.tasks import compare, make_request_task, make_tasks


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return indexed(vault, tmp_path / "state", tiny_model)


@pytest.fixture
def questions(settings):
    return View(Resources(settings))


@pytest.fixture
def requests(questions):
    return IndexRequests(questions)


def found(questions, words):
    return [hit.path for hit in questions.search(read_question(words), 10).results]


def test_a_new_note_is_findable_when_the_answer_says_so(settings, vault, questions, requests):
    (vault / "Boat.md").write_text("a wherry on the river")
    with worker(settings):
        answer = requests.index("Boat.md", wait=True)
    assert (answer.path, answer.domain, answer.state, answer.findable) == (
        "Boat.md",
        questions.resources.domains()[0].slug,
        "indexed",
        True,
    )
    assert found(questions, '"wherry"') == ["Boat.md"]


def test_a_change_that_is_only_recorded_is_not_findable_yet(
    settings, vault, questions, requests, monkeypatch
):
    worker_of = Resources(settings)
    queue = worker_of.queue()
    make_request_task(queue, worker_of, make_tasks(queue, worker_of).index_notes)
    here, rest = threading.current_thread(), time.sleep

    def work_once(seconds):
        if threading.current_thread() is not here:
            rest(seconds)
        elif (task := queue.dequeue()) is not None:
            queue.execute(task)

    (vault / "Boat.md").write_text("a wherry")
    with idle_worker(settings):
        monkeypatch.setattr("time.sleep", work_once)  # a step of the worker each time that the request waits
        answer = requests.index("Boat.md", wait=True)
        monkeypatch.undo()
    assert answer.findable
    assert found(questions, '"wherry"') == ["Boat.md"]


def test_each_of_many_changes_is_findable_at_once(settings, vault, questions, requests):
    with worker(settings):
        for number in range(5):
            (vault / "Soil.md").write_text(f"# Soil\n\nlayer{number}\n")
            assert requests.index("Soil.md", wait=True).findable
            assert found(questions, f'"layer{number}"') == ["Soil.md"]


def test_a_note_that_did_not_change_is_findable_at_once(settings, requests):
    with worker(settings):
        assert requests.index("Soil.md", wait=True).findable


def test_only_a_forced_note_is_indexed_again_unchanged_and_its_passages_are_told(
    settings, questions, requests
):
    def logged():
        return [one.action for one in questions.resources.stores.of(NoteLog).of_note("Soil.md", 50)]

    before = logged()
    with worker(settings):
        assert requests.index("Soil.md", wait=True).passages == 1
        assert logged() == before
        answer = requests.index("Soil.md", wait=True, force=True)
    assert (answer.findable, answer.passages) == (True, 1)
    assert logged() == ["indexed", *before]


def test_a_request_that_waits_already_does_not_swallow_a_forced_one(settings, questions, requests):
    requests.index("Soil.md", wait=False)
    requests.index("Soil.md", wait=False, force=True)
    with worker(settings):
        assert requests.index("Soil.md", wait=True).findable
    entries = questions.resources.stores.of(NoteLog).of_note("Soil.md", 50)
    assert [one.action for one in entries].count("indexed") == 2


def test_a_request_of_an_earlier_version_is_carried_out(settings, vault, questions):
    (vault / "Boat.md").write_text("a wherry")

    def message(path, request, task):
        """Have no `force`."""

    message.__module__ = "workers.tasks"
    queue = Resources(settings).queue()
    queue.task(name="index_note", priority=REQUEST_PRIORITY, context=True)(message)("Boat.md", None)
    with worker(settings):
        assert IndexRequests(questions).index("Soil.md", wait=True).findable
    assert found(questions, '"wherry"') == ["Boat.md"]


def test_a_pending_note_of_a_scan_overtakes_the_others(settings, vault, questions, requests):
    for number in range(40):
        (vault / f"n{number}.md").write_text(f"word{number}")
    compare(questions.resources)
    with worker(settings):
        assert requests.index("n7.md", wait=True).findable
        row = questions.resources.reader(questions.resources.domains()[0]).ledger.row("n7.md")
    assert not row.pending


def test_without_a_wait_it_is_queued_and_a_worker_takes_it_later(settings, vault, questions, requests):
    (vault / "Boat.md").write_text("a wherry")
    answer = requests.index("Boat.md", wait=False)
    assert (answer.state, answer.findable) == ("queued", False)
    with worker(settings):
        assert requests.index("Soil.md", wait=True).findable  # its turn comes after
    assert found(questions, '"wherry"') == ["Boat.md"]


def test_without_a_worker_it_says_so_instead_of_waiting(vault, questions):
    (vault / "Boat.md").write_text("a wherry")
    answer = IndexRequests(questions, patience=3600.0).index("Boat.md", wait=True)
    assert (answer.state, answer.findable) == ("queued", False)
    assert "no worker runs" in answer.reason


def test_a_worker_that_does_not_come_to_it_ends_the_wait(settings, vault, questions):
    (vault / "Boat.md").write_text("a wherry")
    with idle_worker(settings):
        answer = IndexRequests(questions, patience=0.2).index("Boat.md", wait=True)
    assert (answer.state, answer.findable) == ("queued", False)
    assert "not finished" in answer.reason


def test_a_paused_domain_says_so_instead_of_waiting(settings, vault, questions):
    (vault / "Boat.md").write_text("a wherry")
    slug = questions.resources.domains()[0].slug
    questions.resources.state().decisions.pause(slug, "2026-11-22T10:00:00+00:00")
    with worker(settings):
        answer = IndexRequests(questions, patience=3600.0).index("Boat.md", wait=True)
    assert answer.state == "queued"
    assert "is paused" in answer.reason


def test_a_note_that_cannot_be_indexed_is_parked_with_its_reason_and_tried_again(settings, vault, requests):
    with (vault / "Large.md").open("wb") as file:
        file.truncate(settings.max_note_bytes + 1)
    with worker(settings):
        answer = requests.index("Large.md", wait=True)
        assert (answer.state, answer.findable) == ("parked", False)
        assert answer.reason.startswith("it has 10.0 MB, more than max_note_mb")
        (vault / "Large.md").write_text("small")
        assert requests.index("Large.md", wait=True).findable


def test_a_vocabulary_is_indexed_and_no_result(settings, vault, requests):
    (vault / "_taxonomy.md").write_text("# Tags\n\n- `soil`\n")
    with worker(settings):
        answer = requests.index("_taxonomy.md", wait=True)
    assert (answer.state, answer.findable) == ("indexed", False)


def test_a_note_of_an_unavailable_vault_is_not_missing(vault, requests):
    vault.rename(vault.with_name("away"))
    with pytest.raises(VaultNotFoundError):
        requests.index("Soil.md", wait=True)


STRANGE = {
    "": "a folder",
    ".": "a folder",
    "/etc/hostname.md": "outside",
    "../Secret.md": "outside",
    "a/../Soil.md": "outside",
    "./Soil.md": "dot-folder",
    "Folder//Soil.md": "",
    "Soil.md\0.md": "",
    "Missing.md": "no such file",
    "Folder": "a folder",
    "Folder.md": "",
    "Link.md": "symlink",
    "Linked/Secret.md": "symlink",
    ".hidden/Soil.md": "dot-folder",
    "picture.png": "not of a format that is indexed",
    "_domains.yaml": "configures Everindex",
    "Ignored.md": ".everindexignore:1: /Ignored.md",
    "x" * 5000 + ".md": "",
}


@pytest.mark.parametrize("path", STRANGE, ids=lambda path: ascii(path[:30]))
def test_a_path_that_is_no_notes_is_refused_and_nothing_is_queued(vault, tmp_path, questions, requests, path):
    (tmp_path / "Secret.md").write_text("secret")
    for folder in ("Folder", "Folder.md", ".hidden"):
        (vault / folder).mkdir()
    for file in ("Folder/Soil.md", ".hidden/Soil.md", "picture.png", "Ignored.md"):
        (vault / file).write_text("")
    (vault / "Link.md").symlink_to("Soil.md")
    (vault / "Linked").symlink_to(tmp_path)
    (vault / "_domains.yaml").write_text("notes: {legacy: true}\n")
    (vault / ".everindexignore").write_text("/Ignored.md\n")
    with pytest.raises(NoteNotFoundError) as refused:
        requests.index(path, wait=True)
    assert STRANGE[path] in str(refused.value)
    assert questions.resources.queue().storage.queue_size() == 0


def test_a_note_that_an_agent_must_not_see_is_one_that_does_not_exist(vault, settings, questions):
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    requests = IndexRequests(questions.seen_by(Audience(questions.resources)))
    with worker(settings):
        for indexed in (False, True):
            for path in HIDDEN:
                with pytest.raises(NoteNotFoundError) as refused:
                    requests.index(path, wait=True)
                with pytest.raises(NoteNotFoundError):
                    requests.index(path, wait=False)
                missing = path.removesuffix(".md") + "x.md"
                with pytest.raises(NoteNotFoundError) as absent:
                    requests.index(missing, wait=True)
                assert str(refused.value) == str(absent.value).replace(missing, path)
                assert refused.value.why == {**absent.value.why, "path": path}
                assert leaks(str(refused.value), path) == []
            assert requests.index("Worms.md", wait=True).findable, indexed
            index_once(Resources(settings), lambda *_: None)
    assert leaks(requests.index("Soil.md", wait=False).model_dump_json()) == []


def test_names_of_bytes_that_are_no_text_are_indexed_by_their_key(settings, vault, questions, requests):
    raw = os.fsdecode(b"\xff.md")
    (vault / raw).write_text("wherry")
    with worker(settings):
        assert requests.index("\\xff.md", wait=True).findable
    assert found(questions, '"wherry"') == ["\\xff.md"]


def test_two_requests_wait_and_a_third_is_answered_at_once(settings, questions):
    waiting = [IndexRequests(questions, patience=120.0) for _ in range(2)]  # as those of HTTP and of agents
    with idle_worker(settings), ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(one.index, "Soil.md", wait=True) for one in waiting]
        queue = questions.resources.queue()
        while queue.storage.queue_size() < len(waiting):
            time.sleep(0.01)
        third = IndexRequests(questions, patience=0.2).index("Soil.md", wait=True)
        assert (third.state, third.findable) == ("queued", False)
        assert "this one does not" in third.reason
        with worker(settings):
            assert [one.result().state for one in answers] == ["indexed", "indexed"]
            assert waiting[0].index("Soil.md", wait=True).findable


def test_requests_wait_behind_saves_and_once_for_each_note(vault, questions, requests):
    (vault / "Boat.md").write_text("a wherry")
    for _ in range(3):
        requests.index("Soil.md", wait=False)
        requests.index("Boat.md", wait=False)
    queue, domain = questions.resources.queue(), questions.resources.domains()[0]
    assert [one.args[0] for one in queue_inspect.waiting(queue)] == ["Soil.md", "Boat.md"]
    make_tasks(queue, questions.resources).index_notes(domain.slug, [])
    assert [one.task for one in queue_inspect.waiting(queue)] == ["index_notes", "index_note", "index_note"]


def test_beyond_the_messages_that_are_read_a_request_is_enqueued_and_not_lost(
    vault, questions, requests, monkeypatch
):
    monkeypatch.setattr(queue_inspect, "PEEKED", 2)
    names = [f"n{number}.md" for number in range(4)]
    for name in names:
        (vault / name).write_text("")
        requests.index(name, wait=False)
    assert [one.args[0] for one in queue_inspect.waiting(questions.resources.queue())] == names


def test_a_request_without_a_waiting_caller_leaves_no_reply(settings, questions, requests):
    requests.index("Soil.md", wait=False)
    with worker(settings):
        assert requests.index("Soil.md", wait=True).findable
    assert select(questions.resources.state()._con, "SELECT key FROM fact WHERE key LIKE 'looked-at%'") == []


def test_a_request_that_waited_for_a_day_is_carried_out(settings, vault, questions, requests, monkeypatch):
    (vault / "Boat.md").write_text("a wherry")
    requests.index("Boat.md", wait=False)
    now = time.time
    monkeypatch.setattr("queue_config.queue.time.time", lambda: now() + 24 * 3600)
    with worker(settings):
        assert requests.index("Soil.md", wait=True).findable
    assert found(questions, '"wherry"') == ["Boat.md"]


@pytest.mark.parametrize("change", ["ignored", "parked"])
def test_an_agent_that_waits_for_a_note_learns_only_what_it_may_know(settings, vault, questions, change):
    (vault / "Boat.md").write_text("a wherry")
    agents_view = questions.seen_by(Audience(questions.resources))
    with idle_worker(settings), ThreadPoolExecutor(1) as threads:
        answer = threads.submit(IndexRequests(agents_view, patience=120.0).index, "Boat.md", wait=True)
        while not questions.resources.queue().storage.queue_size():
            time.sleep(0.01)
        if change == "ignored":
            (vault / ".everindexignore").write_text("/Boat.md\n")
        else:
            with (vault / "Boat.md").open("wb") as file:
                file.write(b"---\nprivate: true\n---\n")
                file.truncate(settings.max_note_bytes + 1)
        with worker(settings), pytest.raises(NoteNotFoundError) as refused:
            answer.result()
    assert refused.value.why == agents_view.why("Boat.md")
    assert not any(word in str(refused.value) for word in ("too-large", ".everindexignore"))
