"""A request waits for the worker's reply, but only until its deadline."""

from __future__ import annotations

import threading
import time

import pytest

from pipelines.errors import WorkerTimeoutError
from pipelines.state.state import RELOADED, State
from service.usecases.changes import wait_for_answer

REPLY = {"garden": {"new": 1}}
PATIENCE = 60.0


@pytest.fixture
def state(tmp_path):
    opened = State(tmp_path)
    yield opened
    opened.close()


def test_a_reply_that_comes_while_it_waits_is_returned_once(state, tmp_path):
    def reply():
        worker = State(tmp_path)
        worker.put(RELOADED, REPLY, "mine")
        worker.close()

    late = threading.Timer(0.2, reply)
    late.start()
    try:
        assert wait_for_answer(state, RELOADED, "mine", time.monotonic() + PATIENCE) == REPLY
    finally:
        late.join()
    assert state.get(RELOADED, "mine") is None


def test_another_requests_reply_is_left_to_it(state):
    state.put(RELOADED, REPLY, "another")
    with pytest.raises(WorkerTimeoutError, match="is a worker running"):
        wait_for_answer(state, RELOADED, "mine", time.monotonic() + 0.1)
    assert state.get(RELOADED, "another").value == REPLY
