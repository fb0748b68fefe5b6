"""What keeps a vault from being watched, read from the system itself."""

from __future__ import annotations

import ctypes
import os
import sys
from types import SimpleNamespace

import pytest

from service.runtime import watch_limits
from service.runtime.watch_limits import count_folders, inotify_in_use, network_file_system, why_poll


@pytest.fixture
def limit(tmp_path, monkeypatch):
    """Set one of inotify's limits."""
    folder = tmp_path / "inotify"
    folder.mkdir()
    monkeypatch.setattr(watch_limits, "LIMITS", folder)
    return lambda name, value: (folder / name).write_text(f"{value}\n")


def test_more_folders_than_watches_are_polled(vault, limit):
    (vault / "a/b").mkdir(parents=True)
    limit("max_user_watches", 2)
    assert "3 folders, more than fs.inotify.max_user_watches = 2" in why_poll(vault)
    limit("max_user_watches", 3)
    assert why_poll(vault) is None


def test_a_system_without_limits_is_watched(vault, monkeypatch, tmp_path):
    monkeypatch.setattr(watch_limits, "LIMITS", tmp_path / "nowhere")
    assert why_poll(vault) is None


def mount(folder, kind):
    return SimpleNamespace(mountpoint=str(folder), fstype=kind)


def test_a_vault_on_a_network_file_system_is_polled(vault, monkeypatch):
    mounts = [mount("/", "ext4"), mount(vault.parent, "nfs4")]
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: mounts)
    assert network_file_system(vault) == "nfs4"
    assert why_poll(vault) == "it lies on a network file system (nfs4)"
    mounts.append(mount(vault, "ext4"))
    assert network_file_system(vault) is None


def test_every_folder_is_counted_and_no_link_is_followed(vault):
    (vault / "a/b").mkdir(parents=True)
    (vault / "loop").symlink_to(vault)
    assert count_folders(vault) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_the_instances_and_watches_of_a_process_are_counted(vault, tmp_path, monkeypatch):
    processes = tmp_path / "processes"
    processes.mkdir()
    (processes / "1").symlink_to(f"/proc/{os.getpid()}")
    (processes / "2").symlink_to("/proc/nowhere")
    monkeypatch.setattr(watch_limits, "_PROCESSES", processes)
    before = inotify_in_use()
    libc = ctypes.CDLL(None)
    made = libc.inotify_init()
    try:
        assert libc.inotify_add_watch(made, os.fsencode(vault), 0x100) > 0
        assert inotify_in_use() == (before[0] + 1, before[1] + 1)
    finally:
        os.close(made)
