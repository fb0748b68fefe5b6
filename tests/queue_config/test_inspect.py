"""Waiting tasks are listed with their ages and stay on the queue, the embedded one and a real Redis."""

from __future__ import annotations

import json
import time

import pytest

from queue_config.inspect import WaitingTasks, empty, kind, scheduled, waiting, waiting_by_task
from queue_config.queue import EmbeddedQueue, RedisQueue, open_queue


@pytest.fixture(params=["embedded", "redis"])
def queue(request, tmp_path):
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    huey = open_queue(tmp_path, url, "vault")
    yield huey
    if isinstance(huey, EmbeddedQueue):
        huey.storage.close()


@pytest.fixture
def tasks(queue):
    """Two tasks that do nothing: an urgent one and one that can wait."""
    urgent = queue.task(name="index_notes", priority=100)(lambda *_: None)
    patient = queue.task(name="drain", priority=1)(lambda *_: None)
    return urgent, patient


def test_what_waits_is_counted_by_priority_and_task_the_most_urgent_first(queue, tasks):
    urgent, patient = tasks
    patient("a")
    urgent("b")
    patient("c")
    found = waiting_by_task(queue, time.time())
    assert [(one.priority, one.task, one.count) for one in found] == [
        (100, "index_notes", 1),
        (1, "drain", 2),
    ]
    assert len(waiting(queue)) == 3


def test_the_age_is_that_of_the_oldest(queue, tasks):
    before = time.time()
    tasks[1]("a")
    first = waiting(queue)[0].enqueued_at
    assert before <= first <= time.time()
    tasks[1]("b")
    assert waiting_by_task(queue, first + 60) == [WaitingTasks(1, "drain", 2, 60.0)]


def test_a_clock_that_was_set_back_makes_no_age_negative(queue, tasks):
    tasks[0]("a")
    (found,) = waiting_by_task(queue, time.time() - 3600)
    assert found.oldest_s == 0.0


def test_a_worker_learns_when_its_task_was_enqueued(queue, tasks):
    tasks[0]("a")
    enqueued_at = waiting(queue)[0].enqueued_at
    assert queue.dequeue().enqueued_at == enqueued_at


def test_a_message_of_an_older_version_runs_and_has_no_age(queue, tasks):
    tasks[0]("a")
    plain = json.loads(queue.storage.dequeue()[32:])
    del plain["at"]
    body = json.dumps(plain).encode()
    queue.storage.enqueue(queue.serializer._sign(body) + body, 100)
    (found,) = waiting_by_task(queue, time.time())
    assert (found.count, found.oldest_s) == (1, None)
    task = queue.dequeue()
    assert (task.args, task.enqueued_at) == (["a"], None)


def test_an_unsigned_time_is_no_message(queue, tasks):
    tasks[0]("a")
    data = queue.storage.dequeue()
    queue.storage.enqueue(data.replace(b'"at":1', b'"at":9'), 100)
    assert waiting(queue) == []
    assert queue.dequeue() is None


def test_nothing_is_ever_scheduled(queue, tasks):
    tasks[0]("a")
    assert scheduled(queue) == 0


def test_an_emptied_queue_holds_nothing_and_goes_on(queue, tasks):
    for name in "abc":
        tasks[0](name)
    assert empty(queue) == 3
    assert (waiting(queue), empty(queue)) == ([], 0)
    tasks[1]("d")
    assert [one.args for one in waiting(queue)] == [("d",)]


def test_a_queue_says_what_it_is(queue):
    assert kind(queue) == ("redis" if isinstance(queue, RedisQueue) else "embedded")
