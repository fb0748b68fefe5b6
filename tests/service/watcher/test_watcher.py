"""The watcher over real folders: which events it gets, and what it does without them."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import threading
import time
from typing import Any

import pytest
from watchdog.events import FileSystemEventHandler

from pipelines.indexing.deletions import SETTLE_SECONDS
from pipelines.indexing.reconcile import last_comparison
from pipelines.state.state import WATCHER
from queue_config.settings import Settings
from service.runtime.watch_limits import why_poll
from service.watcher import observer as observe
from service.watcher import watcher as watching_module
from service.watcher.observer import Observation
from service.watcher.watcher import Watcher
from workers.resources import Resources


def wait_for(condition, what, patience=30.0):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {patience} s: {what}")


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return Settings(
        vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), settle_seconds=0.05
    )


@pytest.fixture
def watching(settings):
    """A running watcher, whose ledger shows which events it got."""
    stop = threading.Event()
    watcher = Watcher(settings, stop)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    resources = Resources(settings)
    wait_for(lambda: last_comparison(resources.state()), "the first comparison")
    yield resources
    stop.set()
    thread.join(20)
    assert not thread.is_alive()


def wanted(resources) -> list[str]:
    cache = resources.caches()["vault"]
    return sorted(
        path
        for (path,) in cache.con.execute(
            "SELECT path FROM vault_file WHERE wanted_hash IS NOT NULL"
        ).fetchall()
    )


def test_saves_moves_and_deletions_reach_the_ledger(watching, vault):
    (vault / "a.md").write_text("One.")
    wait_for(lambda: wanted(watching) == ["a.md"], "a save")
    (vault / "b.tmp").write_text("Two.")
    (vault / "b.tmp").rename(vault / "b.md")
    wait_for(lambda: wanted(watching) == ["a.md", "b.md"], "an atomic save")
    (vault / "deep").mkdir()
    (vault / "a.md").rename(vault / "deep/a.md")
    wait_for(lambda: wanted(watching) == ["b.md", "deep/a.md"], "a move")
    shutil.rmtree(vault / "deep")
    wait_for(lambda: wanted(watching) == ["b.md"], "a folder's deletion")


def test_a_folder_moved_in_and_out_is_heard_whole(watching, vault, tmp_path):
    (tmp_path / "box/deep").mkdir(parents=True)
    (tmp_path / "box/deep/a.md").write_text("One.")
    (tmp_path / "box/b.md").write_text("Two.")
    (tmp_path / "box").rename(vault / "box")
    wait_for(lambda: wanted(watching) == ["box/b.md", "box/deep/a.md"], "a folder moved in")
    (vault / "box").rename(tmp_path / "box")
    wait_for(lambda: wanted(watching) == [], "a folder moved out")


def test_a_new_file_of_a_format_that_is_not_asked_for_is_counted_soon(monkeypatch, request, vault):
    monkeypatch.setattr(watching_module, "_SOON_SECONDS", 0.2)  # but every five minutes without such a file
    state = request.getfixturevalue("watching").state()
    (vault / "report.pdf").write_bytes(b"%PDF-1.4")
    wait_for(lambda: last_comparison(state).others == {"vault": {"pdf": 1}}, "a new PDF")
    (vault / "report.pdf").unlink()
    wait_for(lambda: last_comparison(state).others == {"vault": {}}, "its deletion")


def held(resources) -> bool:
    return resources.brake().is_holding("vault")


def test_of_many_notes_that_vanish_one_by_one_none_is_forgotten_and_their_return_is_seen_at_once(
    watching, vault, tmp_path
):
    for n in range(60):
        (vault / f"{n}.md").write_text(f"note {n}")
    everything = sorted(f"{n}.md" for n in range(60))
    wait_for(lambda: wanted(watching) == everything, "the notes")
    for n in range(55):
        (vault / f"{n}.md").rename(tmp_path / f"{n}.md")
        time.sleep(0.03)  # many batches of events
    wait_for(lambda: held(watching), "the hold")
    time.sleep(SETTLE_SECONDS + 2)
    assert wanted(watching) == everything
    for n in range(55):
        (tmp_path / f"{n}.md").rename(vault / f"{n}.md")
    wait_for(lambda: not held(watching), "the end of the hold", patience=20)
    assert wanted(watching) == everything


# watchdog forgets no folder that was moved away, and warns when it is there again.
@pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")
def test_a_folder_that_is_back_is_missed_no_more(watching, vault, tmp_path):
    (vault / "box").mkdir()
    for n in range(30):
        (vault / "box" / f"{n}.md").write_text(f"note {n}")
    wait_for(lambda: len(wanted(watching)) == 30, "the notes")
    (vault / "box").rename(tmp_path / "box")
    wait_for(lambda: held(watching), "the hold")
    (tmp_path / "box").rename(vault / "box")
    wait_for(lambda: not held(watching), "the end of the hold", patience=20)
    assert len(wanted(watching)) == 30


def test_a_note_that_vanished_and_is_back_within_a_moment_was_never_gone(
    watching, vault, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "pipelines.indexing.deletions.SETTLE_SECONDS", 600.0
    )  # else a slow machine may miss the moment
    (vault / "a.md").write_text("One.")
    wait_for(lambda: wanted(watching) == ["a.md"], "a save")
    (vault / "a.md").rename(tmp_path / "a.md")
    wait_for(lambda: watching.vanished().waiting("vault"), "the note is missed")
    (tmp_path / "a.md").rename(vault / "a.md")
    wait_for(lambda: not watching.vanished().waiting("vault"), "the note is back")
    assert watching.caches()["vault"].ledger.row("a.md").indexed_hash is None
    assert watching.caches()["vault"].ledger.stat_of(["a.md"])["a.md"][3]
    generations = watching.caches()["vault"].con.execute("SELECT generation FROM vault_file").fetchall()
    assert generations == [(1,)]


def test_a_change_without_an_event_is_found_by_the_next_comparison(settings, vault):
    (vault / "a.md").write_text("One.")
    stop = threading.Event()
    quick = settings.model_copy(update={"reconcile_seconds": 1.0})
    thread = threading.Thread(target=Watcher(quick, stop).run)
    # What is written through memory is not told of, and the file stays open: its end would be.
    with (vault / "a.md").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        thread.start()
        resources = Resources(quick)
        try:
            for text in (b"Two.", b"Six."):
                before = wait_for(lambda: dict(wanted_hashes(resources)), "a comparison")
                time.sleep(1.5)
                memory[:] = text
                memory.flush()
                wait_for(
                    lambda before=before: dict(wanted_hashes(resources)) != before,
                    "a comparison that nothing but the time asked for",
                )
        finally:
            stop.set()
            thread.join(20)


def wanted_hashes(resources):
    return resources.caches()["vault"].con.execute("SELECT path, wanted_hash FROM vault_file").fetchall()


def test_a_folder_moved_on_while_its_first_move_settles_is_no_mass_deletion(watching, vault):
    (vault / "0").mkdir()
    for n in range(30):
        (vault / "0" / f"{n}.md").write_text(f"note {n}")
    wait_for(lambda: len(wanted(watching)) == 30, "the notes")
    for number, pause in enumerate((0.02, 0.05, 0.1, 0.15)):
        (vault / f"{2 * number}").rename(vault / f"{2 * number + 1}")
        time.sleep(pause)
        (vault / f"{2 * number + 1}").rename(vault / f"{2 * number + 2}")
        moved = sorted(f"{2 * number + 2}/{n}.md" for n in range(30))
        wait_for(lambda moved=moved: wanted(watching) == moved, "the second move")


def test_rule_files_are_obeyed_as_soon_as_they_change(watching, vault):
    (vault / "drafts").mkdir()
    (vault / "drafts/a.md").write_text("Draft.")
    wait_for(lambda: wanted(watching) == ["drafts/a.md"], "a save")
    (vault / ".gitignore").write_text("drafts/\n")
    wait_for(lambda: wanted(watching) == [], "the rule")


def test_a_replaced_root_is_watched_again_and_compared(watching, vault, tmp_path):
    (vault / "a.md").write_text("One.")
    wait_for(lambda: wanted(watching) == ["a.md"], "a save")
    shutil.copytree(vault, tmp_path / "copy")
    (tmp_path / "copy/b.md").write_text("Two.")
    vault.rename(tmp_path / "old")
    (tmp_path / "copy").rename(vault)
    wait_for(lambda: wanted(watching) == ["a.md", "b.md"], "what is in the new root")
    (vault / "c.md").write_text("Three.")
    wait_for(lambda: wanted(watching) == ["a.md", "b.md", "c.md"], "a save in the new root")


def test_a_vanished_root_deletes_nothing_and_goes_on_when_it_is_back(watching, vault, tmp_path):
    (vault / "a.md").write_text("One.")
    wait_for(lambda: wanted(watching) == ["a.md"], "a save")
    vault.rename(tmp_path / "away")
    vault.mkdir()  # an empty mount point
    time.sleep(1.0)
    assert wanted(watching) == ["a.md"]
    (tmp_path / "away/b.md").write_text("Two.")
    vault.rmdir()
    (tmp_path / "away").rename(vault)
    wait_for(lambda: wanted(watching) == ["a.md", "b.md"], "what was written while it was away")
    (vault / "c.md").write_text("Three.")
    wait_for(lambda: "c.md" in wanted(watching), "a save after it is back")


def test_status_shows_the_mode(watching):
    said = wait_for(lambda: watching.state().get(WATCHER), "the watcher's word").value
    assert (said.mode, said.overflows, said.process) == ("events", 0, os.getpid())


def test_a_vault_that_cannot_be_observed_is_polled(settings, vault, monkeypatch):
    monkeypatch.setattr(
        "service.watcher.watcher.why_poll", lambda _: "it lies on a network file system (nfs)"
    )
    monkeypatch.setattr("service.watcher.watcher._POLL_SECONDS", 0.1)
    stop = threading.Event()
    thread = threading.Thread(target=Watcher(settings, stop).run)
    thread.start()
    resources = Resources(settings)
    try:
        (vault / "a.md").write_text("One.")
        wait_for(lambda: wanted(resources) == ["a.md"], "a polled save")
        said = wait_for(lambda: resources.state().get(WATCHER), "the watcher's word").value
        assert said.mode == "polling"
    finally:
        stop.set()
        thread.join(20)


@pytest.fixture
def observation(vault):
    lost = threading.Event()
    heard = []

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event):
            heard.append(event.src_path)

    made: Any = Observation(vault, Handler(), lost)
    made.start()
    made.heard, made.lost = heard, lost
    yield made
    made.stop()


def test_a_probe_is_heard_and_writes_nothing(observation, vault):
    observation.probe(100.0)
    wait_for(lambda: str(vault) in observation.heard, "the probe")
    assert list(vault.iterdir()) == []
    observation.answer(101.0)
    assert observation.complaint(200.0) is None


def test_a_probe_that_is_not_heard_is_a_complaint(observation):
    observation.probe(100.0)
    assert observation.complaint(104.0) is None
    assert "probe" in observation.complaint(106.0)


def test_a_dead_thread_is_a_complaint(observation):
    (emitter,) = observation._observer.emitters
    emitter.stop()
    emitter.join()
    assert "died" in observation.complaint(0.0)


def test_an_overflow_asks_for_a_comparison(observation):
    import logging

    logging.getLogger("watchdog.observers.inotify_c").warning(
        "Inotify queue overflowed; filesystem events were lost"
    )
    assert observation.lost.is_set()
    assert observation.overflows == 1


def test_folders_that_are_nested_without_end_hold_no_save_up_and_are_reported(watching, vault):
    (vault / "a.md").write_text("Before.")
    wait_for(lambda: wanted(watching) == ["a.md"], "a save before")
    at = os.open(vault, os.O_RDONLY)
    for _ in range(10_000):
        os.mkdir("d", dir_fd=at)
        above, at = at, os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(above)
    os.close(at)
    try:
        (vault / "b.md").write_text("Beside them.")
        wait_for(lambda: wanted(watching) == ["a.md", "b.md"], "a save beside them")
        (vault / "d/d/c.md").write_text("In them.")
        wait_for(lambda: wanted(watching) == ["a.md", "b.md", "d/d/c.md"], "a save in them")
        wait_for(
            lambda: any("deeper than" in problem.message for problem in watching.problems().reported()),
            "a problem",
        )
        assert why_poll(vault) is None
        (vault / "d").rename(vault / "e")
        wait_for(lambda: wanted(watching) == ["a.md", "b.md", "e/d/c.md"], "a move of them")
        (vault / "e/d/c.md").rename(vault / "c.md")
    finally:
        subprocess.run(["rm", "-rf", vault / "d", vault / "e"], check=True)
    wait_for(lambda: wanted(watching) == ["a.md", "b.md", "c.md"], "their end")


def test_a_mount_in_the_vault_is_noticed(tmp_path, monkeypatch):
    root = tmp_path / "a vault"
    root.mkdir()
    mounts = tmp_path / "mountinfo"
    other = f"21 1 8:1 / {tmp_path}/a\\040vault-other rw - ext4 /dev/sda rw\n"
    inside = f"22 1 0:35 / {tmp_path}/a\\040vault/sub rw - tmpfs tmpfs rw\n"
    mounts.write_text("20 1 8:0 / / rw - ext4 /dev/sda rw\n")
    monkeypatch.setattr(observe, "_MOUNTS", mounts)
    observation = Observation(root, FileSystemEventHandler(), threading.Event())
    observation.start()
    try:
        assert observation.complaint(0.0) is None
        mounts.write_text(mounts.read_text() + other)
        assert observation.complaint(10.0) is None
        mounts.write_text(mounts.read_text() + inside)
        assert observation.complaint(10.1) is None, "it is not read at every turn"
        assert "mounted" in observation.complaint(20.0)
    finally:
        observation.stop()
