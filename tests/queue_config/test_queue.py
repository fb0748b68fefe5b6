"""Every test runs over the embedded queue and over a real Redis."""

import os
import pickle
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_config.inspect import QueuedTask, waiting
from queue_config.queue import (
    QUEUE_ERRORS,
    QUEUE_FILE,
    EmbeddedQueue,
    ForeignMessageError,
    RedisQueue,
    open_queue,
)
from tests.consumer import work

STRANGER = b"0" * 32
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
# The queue is the same for all examples of a test, and every example leaves it empty.
shared_queue = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Opened:
    """Queues that are opened in a test and closed after it."""

    def __init__(self, state, url):
        self.state = state
        self.url = url
        self._open = []

    def __call__(self, state=None, name="vault"):
        huey = open_queue(state or self.state, self.url, name)
        self._open.append(huey)
        return huey

    def close(self):
        for huey in self._open:
            if isinstance(huey, EmbeddedQueue):
                huey.storage.close()


@pytest.fixture(params=["embedded", "redis"])
def opened(request, tmp_path):
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    state = tmp_path / "state"
    state.mkdir()
    queues = Opened(state, url)
    yield queues
    queues.close()


@pytest.fixture
def queue(opened):
    return opened()


@pytest.fixture
def run(queue):
    """A task that records its arguments."""
    calls = []

    @queue.task(name="keep", context=False)
    def keep(*args, **kwargs):
        calls.append((args, kwargs))

    keep.calls = calls
    return keep


def work_off(queue):
    while queue.storage.queue_size():
        queue.execute(queue.dequeue())


def refused(queue, data):
    """Put raw bytes on the queue and dequeue them as a consumer does."""
    before = queue.refused["foreign"]
    queue.storage.enqueue(data)
    assert queue.dequeue() is None
    assert queue.refused == {"foreign": before + 1, "unknown": 0, "replayed": 0}
    assert queue.storage.queue_size() == 0
    with pytest.raises(ForeignMessageError, match="was not signed with this vault's key"):
        queue.serializer.deserialize(data)


def signed(queue, run, *args):
    """Return the bytes of a message as it lies on the queue."""
    run(*args)
    return queue.storage.dequeue()


# Messages


# Arguments that huey takes for itself; no task of ours has an argument of such a name.
HUEYS_OWN = [
    "eta",
    "delay",
    "id",
    "retries",
    "retry_delay",
    "retry_backoff",
    "priority",
    "expires",
    "timeout",
]
NAMES = st.from_regex(r"[a-z]{1,5}", fullmatch=True).filter(lambda name: name not in HUEYS_OWN)


@given(args=st.lists(JSON, max_size=3), kwargs=st.dictionaries(NAMES, JSON))
@shared_queue
def test_what_a_task_is_called_with_comes_back_unchanged(queue, run, args, kwargs):
    run(*args, **kwargs)
    run.calls.clear()
    work_off(queue)
    ((got, named),) = run.calls
    assert (list(got), named) == (args, kwargs)


@given(priorities=st.lists(st.sampled_from([None, 0, 1, 10, 100]), max_size=8))
@shared_queue
def test_higher_priorities_come_first_and_equal_ones_in_order(queue, run, priorities):
    for number, priority in enumerate(priorities):
        queue.enqueue(run.s(number, priority=priority))
    order = sorted(range(len(priorities)), key=lambda number: -(priorities[number] or 0))
    assert [task.args[0] for task in waiting(queue)] == order
    run.calls.clear()
    work_off(queue)
    assert [args[0] for args, _ in run.calls] == order


def test_a_message_is_readable_json_behind_its_signature(queue, run):
    data = signed(queue, run, "日记/🌱.md")
    assert data[32:].startswith(b'{"message":{')
    assert "日记/🌱.md".encode() in data


@pytest.mark.parametrize("value", [b"bytes", {1}, object(), Path("a.md")])
def test_what_is_not_json_is_refused_when_it_is_sent(queue, run, value):
    with pytest.raises(TypeError, match="not JSON serializable"):
        run(value)
    assert queue.storage.queue_size() == 0


def test_another_process_with_the_same_state_folder_reads_the_messages(opened, run):
    run("a.md")
    other = opened()
    assert waiting(other) == [QueuedTask("keep", ("a.md",), 0)]


def test_queues_of_two_vaults_do_not_mix(opened, run):
    run("a.md")
    assert waiting(opened(name="another")) == []


# Foreign messages


def test_a_message_signed_with_another_key_is_refused(queue, run):
    stranger = type(queue.serializer)(STRANGER)
    body = signed(queue, run, "x")[32:]
    refused(queue, stranger._sign(body) + body)
    assert run.calls == []


@given(at=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
@shared_queue
def test_a_message_altered_in_any_byte_is_refused(queue, run, at, change):
    data = bytearray(signed(queue, run, "a.md"))
    data[int(at * len(data))] ^= change
    refused(queue, bytes(data))


@given(kept=st.floats(0, 1, exclude_max=True))
@shared_queue
def test_a_message_that_is_cut_short_is_refused(queue, run, kept):
    data = signed(queue, run, "a.md")
    refused(queue, data[: int(kept * len(data))])


@given(data=st.binary(max_size=200))
@shared_queue
def test_bytes_of_another_program_are_refused(queue, data):
    refused(queue, data)


def test_a_message_for_an_unknown_task_is_refused(opened, run):
    run("a.md")
    other = opened()
    assert other.dequeue() is None
    assert other.refused == {"foreign": 0, "unknown": 1, "replayed": 0}
    assert other.storage.queue_size() == 0


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("prefix", [b"", b"\0" * 32])
def test_a_pickle_bomb_is_refused_and_does_not_go_off(queue, tmp_path, prefix):
    crater = tmp_path / "crater"
    bomb = pickle.dumps(Bomb(crater))
    refused(queue, prefix + bomb)
    assert waiting(queue) == []
    assert not crater.exists()
    pickle.loads(bomb)  # noqa: S301 - shows that the payload works
    assert crater.exists()


CONSUMER = """
import os, signal, sys, time
from pathlib import Path
from queue_config.queue import open_queue
state, url, done = sys.argv[1:]
huey = open_queue(Path(state), url or None, "vault")
@huey.task(name="keep")
def keep(text):
    Path(done).write_text(text)
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.01)  # the consumer takes tasks before it has set its handlers
    os.kill(os.getpid(), signal.SIGTERM)
keep("ours")
huey.create_consumer(workers=1, initial_delay=0.01, max_delay=0.05, periodic=False, graceful_signal="TERM").run()
"""


def test_a_consumer_survives_foreign_messages_and_runs_ours(opened, queue, tmp_path):
    crater, done = tmp_path / "crater", tmp_path / "done"
    queue.storage.enqueue(pickle.dumps(Bomb(crater)), 1000)
    queue.storage.enqueue(b"noise", 1000)
    command = [sys.executable, "-c", CONSUMER, str(opened.state), opened.url or "", str(done)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert done.read_text() == "ours"
    assert not crater.exists()
    assert queue.storage.queue_size() == 0


def test_what_is_done_aside_lets_no_other_wait(queue):
    done, go_on = [], threading.Event()

    @queue.task(name="long", aside=True)
    def long():
        go_on.wait(60)
        done.append("long")

    @queue.task(name="short")
    def short():
        done.append("short")

    long()
    short()
    with ThreadPoolExecutor() as queue.aside:
        work(queue)
        assert done == ["short"]
        go_on.set()
    assert done == ["short", "long"]


# Reading without removing


def test_waiting_tasks_are_read_and_stay(queue, run):
    queue.enqueue(run.s("low", priority=10))
    queue.enqueue(run.s("high", 1, priority=100))
    seen = [QueuedTask("keep", ("high", 1), 100), QueuedTask("keep", ("low",), 10)]
    assert waiting(queue) == seen
    assert waiting(queue) == seen
    assert queue.storage.queue_size() == 2
    assert waiting(queue, 1) == seen[:1]


def test_a_foreign_message_is_left_out_of_what_waits_and_left_on_the_queue(queue, run):
    queue.enqueue(run.s("first", priority=100))
    queue.storage.enqueue(b"foreign", 50)
    queue.enqueue(run.s("second", priority=10))
    assert [task.args for task in waiting(queue)] == [("first",), ("second",)]
    assert queue.storage.queue_size() == 3


def test_nothing_waits_on_an_empty_queue(queue):
    assert waiting(queue) == []


# What is left behind


def test_no_result_is_left_behind_by_a_task_that_returns_or_fails(queue):
    @queue.task(name="answer")
    def answer():
        return {"found": 1}

    @queue.task(name="fail")
    def fail():
        raise RuntimeError("broken")

    answer()
    fail()
    work_off(queue)
    assert queue.storage.result_store_size() == 0
    assert queue.storage.queue_size() == 0
    assert queue.storage.schedule_size() == 0
    if isinstance(queue, RedisQueue):
        assert queue.storage.conn.keys("*") == []


def test_messages_wait_through_a_restart_of_the_program(opened, run):
    run("a.md")
    opened.close()
    assert [task.args for task in waiting(opened())] == [("a.md",)]


def test_messages_reach_others_after_the_queue_was_lost(opened, queue, run):
    """The queue may be lost at any moment; messages that are enqueued afterwards must not be."""
    run("lost")
    if opened.url:
        queue.storage.conn.flushall()
    else:
        for path in opened.state.glob(f"{QUEUE_FILE}*"):
            path.unlink()
    run("kept")
    assert [task.args for task in waiting(opened())] == [("kept",)]
    queue.reopen_if_replaced()
    assert [task.args for task in waiting(queue)] == [("kept",)]


@pytest.fixture
def embedded(tmp_path):
    """Opens the embedded queue again at each call, as another process does."""
    queues = Opened(tmp_path, None)
    yield queues
    queues.close()


def damage(state):
    """Overwrite the queue's file, as a failing disk does."""
    with (state / QUEUE_FILE).open("r+b") as file:
        file.write(b"no database" * 10_000)


def test_a_queue_that_is_damaged_at_the_start_is_recreated(embedded):
    embedded()
    embedded.close()
    damage(embedded.state)
    assert waiting(embedded()) == []


def test_a_queue_that_is_damaged_while_it_is_open_takes_what_is_put_on_it(embedded):
    queue = embedded()
    keep = queue.task(name="keep")(lambda *_: None)
    for number in range(100):
        keep(str(number))
    queue.storage.close()
    damage(embedded.state)
    keep("kept")
    assert [task.args for task in waiting(embedded())] == [("kept",)]


def damage_what_no_message_needs(state):
    """Overwrite a page of the queue's file that taking and putting messages does not read."""
    queue = open_queue(state, None, "vault")
    queue.storage.sql("create table other (id integer primary key, data blob)", commit=True)
    queue.storage.sql("insert into other (data) values (zeroblob(20000))", commit=True)
    (page,) = queue.storage.sql("select rootpage from sqlite_master where name = 'other'", results=True)
    queue.storage.sql("pragma wal_checkpoint(truncate)", results=True)
    (size,) = queue.storage.sql("pragma page_size", results=True)
    queue.storage.close()
    with (state / QUEUE_FILE).open("r+b") as file:
        file.seek((page[0] - 1) * size[0])
        file.write(os.urandom(size[0]))


def test_a_queue_of_which_a_part_is_damaged_is_recreated_at_the_start(embedded):
    damage_what_no_message_needs(embedded.state)
    assert embedded().storage.sql("pragma quick_check", results=True) == [("ok",)]


def test_a_queue_of_which_a_part_is_damaged_while_it_is_open_is_recreated_within_a_minute(
    embedded, monkeypatch
):
    queue = embedded()
    damage_what_no_message_needs(embedded.state)
    queue.reopen_if_replaced()
    monkeypatch.setattr("queue_config.queue._CHECK_SECONDS", 0.0)
    queue.reopen_if_replaced()
    assert queue.storage.sql("pragma quick_check", results=True) == [("ok",)]


def test_a_queue_whose_file_alone_was_deleted_takes_what_is_put_on_it(embedded):
    queue = embedded()
    keep = queue.task(name="keep")(lambda *_: None)
    other = embedded()
    for number in range(100):
        keep(str(number))
    assert waiting(other, 1)
    (embedded.state / QUEUE_FILE).unlink()
    keep("kept")
    other.reopen_if_replaced()
    assert [task.args for task in waiting(other)] == [task.args for task in waiting(queue)] == [("kept",)]


def test_a_queue_that_cannot_be_reached_gives_no_task_and_says_so_once(embedded, unused_port, capsys):
    there = embedded()
    there.storage.close()
    for path in embedded.state.glob(f"{QUEUE_FILE}*"):
        path.unlink()
    (embedded.state / QUEUE_FILE).mkdir()
    away = open_queue(embedded.state, f"redis://127.0.0.1:{unused_port}", "vault")
    for queue in (there, away):
        for _ in range(3):
            assert queue.dequeue() is None
        assert capsys.readouterr().out.count("the queue cannot be read") == 1
        with pytest.raises(QUEUE_ERRORS):
            waiting(queue)
        with pytest.raises(QUEUE_ERRORS):
            queue.task(name="keep")(lambda: None)()


@pytest.fixture
def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_only_the_embedded_queue_makes_a_file(opened, run):
    run("a.md")
    assert (opened.state / QUEUE_FILE).exists() == (opened.url is None)
