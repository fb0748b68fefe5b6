"""What a supervisor reports of processes that die, and which processes it waits for."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import closing

import psutil
import pytest

from pipelines.state.health import Problems
from service.runtime.client import Service
from service.runtime.supervisor import Supervisor, last_words
from tests.whole.conftest import free_port


def line(level, event, **more):
    return json.dumps({"level": level, "event": event, **more})


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("Error: the queue key is damaged; remove it\n", "Error: the queue key is damaged; remove it"),
        ("Traceback (most recent call last):\n  File x\nOSError: no space\n\n", "OSError: no space"),
        (line("error", "job failed", reason="no space"), "job failed no space"),
        (line("error", "failed", exception="Traceback\nKeyError: 'a'"), "failed: KeyError: 'a'"),
        (line("error", "the first") + "\n" + line("info", "worker stopped"), "the first"),
        (line("info", "worker started"), ""),
        (line("info", "a line that is cut in the middle, " * 1_000), ""),
    ],
)
def test_the_last_words_of_a_process_are_its_last_error(tmp_path, log, words):
    path = tmp_path / "worker.log"
    path.write_text(log)
    assert last_words(path, 0) == words


def test_a_process_without_a_log_has_no_last_words(tmp_path):
    assert last_words(tmp_path / "worker.log", 0) == ""


def test_a_log_that_was_emptied_has_the_words_of_what_was_logged_since(tmp_path):
    path = tmp_path / "worker.log"
    path.write_text("Error: no space\n")
    assert last_words(path, 1_000) == "Error: no space"


def test_a_process_that_dies_three_times_in_a_row_is_a_problem_and_one_that_lives_is_none(tmp_path, capfd):
    # A vault that is not there: every process ends with a message.
    supervisor = Supervisor(tmp_path / "state", ["--vault", str(tmp_path / "nowhere")])
    (tmp_path / "state").mkdir()
    supervisor.start("worker")
    try:
        for _ in range(3):
            child = supervisor._children["worker"]
            child.process.wait()
            supervisor.check()
            child.restart_at = 0.0
            supervisor.check()
        problems = Problems(tmp_path / "state")
        (problem,) = problems.reported()
        assert "the worker died 3 times in a row" in problem.message
        assert "nowhere" in problem.message
        problems.close()
        assert "nowhere" in capfd.readouterr().out
    finally:
        supervisor.stop()


def test_a_process_that_dies_without_a_word_is_not_given_the_words_of_an_earlier_one(tmp_path, capfd):
    state = tmp_path / "state"
    supervisor = Supervisor(state, ["--vault", str(tmp_path / "nowhere")])
    supervisor.log_path("worker").parent.mkdir(parents=True)
    supervisor.log_path("worker").write_text("Error: a crash of last week\n")
    supervisor.start("worker")
    try:
        for _ in range(3):
            child = supervisor._children["worker"]
            child.process.kill()  # long before it could have said anything
            child.process.wait()
            supervisor.check()
            child.restart_at = 0.0
            supervisor.check()
        with closing(Problems(state)) as problems:
            (problem,) = problems.reported()
        assert "(it logged no reason; its log: " in problem.message
        told = capfd.readouterr().out
        assert "ended by signal 9" in told
        assert "last week" not in problem.message + told
    finally:
        supervisor.stop()


def test_restarts_leave_no_log_open(tmp_path):
    (tmp_path / "state").mkdir()
    supervisor = Supervisor(tmp_path / "state", ["--vault", str(tmp_path / "nowhere")])
    supervisor.start("worker")
    try:
        supervisor._children["worker"].process.wait()
        ours = [one.path for one in psutil.Process().open_files()]
        assert str(supervisor.log_path("worker")) not in ours
    finally:
        supervisor.stop()


def test_a_process_that_cannot_be_started_is_started_once_it_can_be(tmp_path, capfd):
    state = tmp_path / "state"
    state.mkdir()
    supervisor = Supervisor(state, ["--vault", str(tmp_path / "nowhere")])
    supervisor.start("worker")
    try:
        first = supervisor._children["worker"]
        first.process.wait()
        supervisor.check()
        shutil.rmtree(state)
        state.write_text("A file in the folder's place.")
        first.restart_at = 0.0
        supervisor.check()
        assert "cannot be started" in capfd.readouterr().out
        assert supervisor._children["worker"] is first
        state.unlink()
        first.restart_at = 0.0
        supervisor.check()
        assert supervisor._children["worker"].process.pid != first.process.pid
    finally:
        supervisor.stop()


@pytest.mark.parametrize("state_is", ["empty", "deleted", "a file"])
def test_the_first_index_is_followed_on_while_the_service_or_the_state_is_unavailable(tmp_path, state_is):
    state = tmp_path / "state"
    if state_is == "empty":
        state.mkdir()
    elif state_is == "a file":
        state.write_text("")
    stop = threading.Event()
    absent = Service(tmp_path, state, free_port(), os.getpid())
    threading.Timer(1.5, stop.set).start()
    assert Supervisor(state, []).follow(absent, stop, lambda _: None) is None


def test_nothing_in_the_current_folder_is_run(tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    for name in ("everindex/__init__.py", "everindex/__main__.py", "service/__init__.py", "yaml.py"):
        file = tmp_path / "vault" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"from pathlib import Path\nPath({str(ran)!r}).touch()\n")
    monkeypatch.chdir(tmp_path / "vault")
    (tmp_path / "state").mkdir()
    supervisor = Supervisor(tmp_path / "state", ["--vault", str(tmp_path / "nowhere")])
    supervisor.start("worker")
    for child in supervisor._children.values():
        child.process.wait(60)
    supervisor.stop()
    assert not ran.exists()
    assert "nowhere" in supervisor.log_path("worker").read_text()
