"""Pending work gets one hint, however much it is, and whatever happens to the queue."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from pipelines.child import LastingChild
from pipelines.indexing.parse import ROWS_PER_SLICE
from pipelines.model import HIGH_PRIORITY
from pipelines.state.state import RELOADED, Clocks
from queue_config.queue import ONCE_SECONDS
from tests.consumer import work
from workers.tag_context import TaggingContext
from workers.tagging import make_tag_tasks
from workers.tasks import make_tasks, reconcile_now


@pytest.mark.parametrize("age", [0.0, ONCE_SECONDS / 2])
def test_a_request_whose_message_is_put_on_the_queue_again_is_not_executed_again(
    resources, queue, monkeypatch, age
):
    tasks = make_tasks(queue, resources)
    began = time.time()
    tasks.reconcile_vault("first", True)  # noqa: FBT003 - a task's argument
    (message,) = queue.storage.enqueued_items()
    work(queue)
    assert resources.state().get(RELOADED, "first")
    resources.state().delete(RELOADED, "first")
    monkeypatch.setattr("time.time", lambda: began + age)
    queue.storage.enqueue(bytes(message), HIGH_PRIORITY)
    replayed = resources.queue()  # as after a restart of the worker
    make_tasks(replayed, resources)
    work(replayed)
    assert resources.state().get(RELOADED, "first") is None
    assert replayed.refused["replayed"] == 1


@pytest.mark.parametrize("age", [-2 * ONCE_SECONDS, 2 * ONCE_SECONDS])
def test_a_request_that_waited_for_long_is_not_executed(resources, queue, monkeypatch, age):
    tasks = make_tasks(queue, resources)
    began = time.time()
    tasks.reconcile_vault("late", True)  # noqa: FBT003 - a task's argument
    monkeypatch.setattr("time.time", lambda: began + age)
    work(queue)
    assert resources.state().get(RELOADED, "late") is None
    assert queue.refused["replayed"] == 1


def test_a_request_whose_start_cannot_be_recorded_is_dropped_with_a_warning_and_the_next_is_executed(
    resources, queue, capsys
):
    tasks = make_tasks(queue, resources)
    state = resources.state()
    tasks.reconcile_vault("dropped", True)  # noqa: FBT003 - a task's argument
    state._con.execute("PRAGMA query_only = 1")  # what a disk that became read-only does to writes
    work(queue)
    warned = capsys.readouterr().out
    assert "a request was dropped" in warned
    assert "send it again" in warned
    assert "readonly" in warned
    state._con.execute("PRAGMA query_only = 0")
    assert state.get(RELOADED, "dropped") is None
    tasks.reconcile_vault("sent again", True)  # noqa: FBT003 - likewise
    work(queue)
    assert state.get(RELOADED, "sent again")


def test_another_process_parses_ahead_while_there_are_many_notes_and_ends_with_them(
    resources, queue, monkeypatch
):
    for number in range(3 * ROWS_PER_SLICE):
        (resources.root / f"{number}.md").write_text(f"Note {number} about compost.")
    pids = set()
    read = LastingChild.call
    monkeypatch.setattr(
        LastingChild, "call", lambda child, *given: pids.add(read(child, os.getpid)) or read(child, *given)
    )
    tasks = make_tasks(queue, resources)
    reconcile_now(queue, tasks, resources)
    work(queue)
    (domain,) = resources.domains()
    assert resources.cache(domain).counts().pending == 0
    assert len(pids) == 1
    assert not psutil.pid_exists(*pids)


def test_every_task_that_a_person_asks_for_is_done_once_a_message(resources, queue):
    make_tasks(queue, resources)
    make_tag_tasks(queue, TaggingContext(resources))
    hints = {"index_notes", "drain", "index_apart", "embed_remotely", "propose_tags"}
    kinds = {name.rpartition(".")[2]: kind for name, kind in queue._registry._registry.items()}
    assert {name for name, kind in kinds.items() if getattr(kind, "once", False)} == set(kinds) - hints


def test_what_began_is_forgotten_in_time_and_not_before(resources):
    state, now = resources.state(), [1000.0]
    state._clocks = Clocks(wall=lambda: now[0])
    assert [state.is_first("a", 10.0), state.is_first("a", 10.0), state.is_first("b", 10.0)] == [
        True,
        False,
        True,
    ]
    now[0] += 9
    assert not state.is_first("a", 10.0)
    now[0] += 2
    assert state.is_first("a", 10.0)
