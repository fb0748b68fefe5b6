"""A living process reports itself, and no other process is mistaken for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from pipelines.state.health import SILENT_SECONDS, Process, Processes
from pipelines.state.state import Clocks
from workers.heartbeat import heartbeat, host, lives, process_name


class Times:
    """The monotonic and the wall clock of a machine."""

    def __init__(self):
        self.up, self.wall = 1000.0, 1_700_000_000.0

    def pass_by(self, seconds):
        self.up += seconds
        self.wall += seconds


@pytest.fixture
def clocks():
    return Times()


@pytest.fixture
def processes(tmp_path, clocks):
    opened = Processes(tmp_path, Clocks(lambda: clocks.up, lambda: clocks.wall))
    yield opened
    opened.close()


def process(name="h:1/5", started="2026-05-04T12:00:00+00:00"):
    return Process(name, "worker", "1.0", started, 1000)


def test_this_process_lives():
    assert lives(process_name(), None)


def test_a_process_that_ended_does_not_live():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        began = psutil.Process(child.pid).create_time()
        name = f"{host()}:{child.pid}/{began:.2f}"
        assert lives(name, None)
        child.kill()
    assert not lives(name, 0.0)


def test_a_process_that_was_killed_does_not_live_though_its_parent_has_not_looked():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = f"{host()}:{child.pid}/{psutil.Process(child.pid).create_time():.2f}"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not lives(name, 0.0)


def test_another_process_of_the_same_id_is_not_taken_for_a_dead_one():
    place = process_name().partition("/")[0]
    assert not lives(f"{place}/1.00", 0.0)
    parent = os.getppid()
    assert not lives(f"{host()}:{parent}/1.00", 0.0)


def test_a_process_on_another_machine_is_believed_while_it_speaks():
    assert lives("elsewhere:1/5", SILENT_SECONDS - 1)
    assert not lives("elsewhere:1/5", SILENT_SECONDS)
    assert not lives("elsewhere:1/5", None)


def test_who_spoke_is_heard_with_how_long_ago(processes, clocks):
    processes.put(process("b", "2026-05-04T13:00:00+00:00"))
    clocks.pass_by(5)
    processes.put(process("a"))
    clocks.pass_by(2)
    assert [(one.name, age) for one, age in processes.recent()] == [("a", 2.0), ("b", 7.0)]


def test_who_speaks_again_is_one(processes, clocks):
    processes.put(process())
    clocks.pass_by(5)
    processes.put(process())
    assert processes.recent() == [(process(), 0.0)]


def test_who_says_that_he_ends_is_forgotten_and_who_is_silent_for_an_hour_too(processes, clocks):
    processes.put(process("silent"))
    processes.put(process("ends"))
    processes.delete("ends")
    assert [one.name for one, _ in processes.recent()] == ["silent"]
    clocks.pass_by(3601)
    processes.put(process("new"))
    assert [one.name for one, _ in processes.recent()] == ["new"]


def test_a_fact_from_before_a_reboot_is_as_old_as_the_wall_clock_says(processes, clocks):
    processes.put(process())
    clocks.up, clocks.wall = 10.0, clocks.wall + 120
    assert processes.recent() == [(process(), 120.0)]


def test_a_process_says_that_it_lives_until_it_ends(tmp_path):
    with heartbeat(tmp_path, "query", "1.0"):
        for _ in range(500):
            if (tmp_path / "state.db").exists() and (heard := said(tmp_path)):
                break
            time.sleep(0.01)
        ((one, _),) = heard
        assert (one.name, one.role, one.version) == (process_name(), "query", "1.0")
        assert one.rss_bytes > 1_000_000
    assert said(tmp_path) == []


def test_a_process_that_ends_normally_forgets_those_of_its_role_that_died_before(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        dead = f"{host()}:{child.pid}/{psutil.Process(child.pid).create_time():.2f}"
        child.kill()
    processes = Processes(tmp_path)
    for role, name in (("worker", dead), ("watcher", f"{dead}0"), ("worker", "elsewhere:1/5")):
        processes.put(Process(name, role, "1.0", "2026-05-04T12:00:00+00:00", 1000))
    processes.close()
    with heartbeat(tmp_path, "worker", "1.0"):
        for _ in range(500):
            if process_name() in {one.name for one, _ in said(tmp_path)}:
                break
            time.sleep(0.01)
    assert {one.name for one, _ in said(tmp_path)} == {f"{dead}0", "elsewhere:1/5"}


def said(folder):
    processes = Processes(folder)
    heard = processes.recent()
    processes.close()
    return heard
