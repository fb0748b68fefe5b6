"""Differences are recorded as read from the disk, also if it changes meanwhile."""

from __future__ import annotations

import os

import pytest

from pipelines.indexing.deletions import AT_ONCE, CheckedPaths
from pipelines.indexing.reconcile import _BATCH, LedgerWriter, Report
from pipelines.model import LOW_PRIORITY
from pipelines.notes.markdown import read_note
from pipelines.vault import files
from tests.pipelines.conftest import MAX_BYTES


@pytest.fixture
def writer(house):
    return LedgerWriter(house.root, "vault", house.cache, Report(), MAX_BYTES, AT_ONCE, LOW_PRIORITY)


def on_disk(house, *paths):
    return [files.look(house.root, path) for path in paths]


def write(writer, changed):
    writer.write(changed, [], CheckedPaths(frozenset()), moved=set())
    return writer.report


def test_a_file_that_is_written_to_while_it_is_read_is_read_again_later(house, monkeypatch):
    file = house.write("a.md", "Half of it")
    real = os.fstat

    def write_meanwhile(fd):
        before = real(fd)
        if os.path.samestat(before, file.stat()):
            with file.open("a") as more:
                more.write(" and more")
        return before

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", write_meanwhile)
        report = house.notice("a.md")
    assert (report.unsettled, report.events) == (["a.md"], [])
    assert house.notice("a.md").new == 1


def test_a_note_that_vanishes_between_the_scan_and_its_reading_is_forgotten(house, writer):
    house.write("a.md", "Once.")
    house.reconcile()
    house.write("a.md", "Changed.")
    seen = on_disk(house, "a.md")
    (house.root / "a.md").unlink()
    report = write(writer, seen)
    assert (report.updated, report.removed) == (0, 1)
    assert house.cache.ledger.known() == 0


def test_notes_that_vanish_in_a_mass_while_they_are_read_are_held(house, writer):
    paths = [f"{n}.md" for n in range(25)]
    for path in paths:
        house.write(path, "Once.")
    house.reconcile()
    seen = on_disk(house, *paths)
    for path in paths:
        (house.root / path).unlink()
    report = write(writer, seen)
    assert (report.removed, report.held) == (0, 25)
    assert house.cache.ledger.known() == 25


def test_what_is_more_than_a_batch_is_recorded_whole_and_each_deletion_once(house, writer):
    house.write("gone.md", "Once.")
    house.reconcile()
    (house.root / "gone.md").unlink()
    paths = [f"{n}.md" for n in range(_BATCH + 1)]
    for path in paths:
        house.write(path, path)
    assert writer.record(on_disk(house, *paths), ["gone.md"]) == []
    assert writer.report.plain() == {
        "new": _BATCH + 1,
        "updated": 0,
        "removed": 1,
        "unchanged": 0,
        "ignored": 0,
        "held": 0,
    }
    assert house.cache.ledger.known() == _BATCH + 1


def test_a_commit_of_bytes_read_before_the_last_look_leaves_the_ledger_as_of_that_look(house):
    """A note was changed and changed back while a worker, perhaps on another host, had its bytes."""
    file = house.write("a.md", "# Bread")
    os.utime(file, ns=(1, 1))
    house.notice("a.md")
    (row,) = house.cache.leases.take("words", 1, "worker")
    content = files.read(house.root, "a.md", MAX_BYTES)
    os.utime(file, ns=(2, 2))
    house.notice("a.md")
    house.cache.commit_note(row, content, read_note("a.md", content.data), (), {})
    (_, _, mtime_ns, _) = house.cache.ledger.stat_of(["a.md"])["a.md"]
    assert mtime_ns == 2
    assert house.reconcile().events == []
