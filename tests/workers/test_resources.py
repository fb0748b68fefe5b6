"""Where a process finds what it works with."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime

import psutil
import pytest

from pipelines.heartbeat import process_name
from pipelines.store.processes import Process
from queue_config.settings import Settings
from workers.place import VAULT_FILE, open_place
from workers.resources import LAST_QUERY_FILE, Resources


def test_a_second_start_writes_nothing_so_that_it_works_on_a_full_disk(vault, tmp_path):
    state = tmp_path / "state"
    written = (open_place(vault, state).state / VAULT_FILE).stat()
    again = (open_place(vault, state).state / VAULT_FILE).stat()
    assert (again.st_ino, again.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_vault_that_was_moved_is_written_down_anew(vault, tmp_path):
    open_place(vault, tmp_path / "state")
    vault.rename(tmp_path / "moved")
    open_place(tmp_path / "moved", tmp_path / "state")
    assert str(tmp_path / "moved") in (tmp_path / "state" / VAULT_FILE).read_text()


# Threads


@pytest.fixture
def resources(vault, tmp_path, monkeypatch):
    """What a process works with on a machine of four cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    return Resources(Settings(vault=vault, state=tmp_path / "state"))


def say(resources, *names, role="worker"):
    for name in names:
        resources.processes().say(Process(name, role, "1", datetime.now(UTC).isoformat(), 1000))


def parent_name():
    parent = psutil.Process(os.getppid())
    return f"{socket.gethostname()}:{parent.pid}/{parent.create_time():.2f}"


def test_bulk_work_has_all_cores_and_leaves_one_while_questions_come(resources):
    assert resources.threads() == 4
    asked = resources.place.state / LAST_QUERY_FILE
    asked.touch()
    assert resources.threads() == 3
    os.utime(asked, (0, 0))
    assert resources.threads() == 4


def test_workers_of_one_machine_share_its_cores(resources):
    say(resources, process_name(), parent_name())
    assert resources.threads() == 2
    (resources.place.state / LAST_QUERY_FILE).touch()
    assert resources.threads() == 1


def test_who_is_dead_or_elsewhere_or_no_worker_takes_no_core(resources):
    say(resources, process_name(), f"{socket.gethostname()}:{os.getpid()}/1.0", "elsewhere:1/1.0")
    say(resources, parent_name(), role="query")
    assert resources.threads() == 4
