"""What is owed, who works on it, and for how long."""

from __future__ import annotations

import pytest

from pipelines.errors import StaleWorkError
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, FoundFile
from pipelines.store.cache import Cache, CacheMeta
from pipelines.store.ledger import LEASE_SECONDS, Ledger


class Clock:
    now = 500.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(tmp_path, clock):
    cache = Cache.create(tmp_path / "cache.db", CacheMeta("m", 4, "p"), clock=clock)
    yield cache.ledger
    cache.close()


def file(path: str, size: int = 1, mtime: int = 1) -> FoundFile:
    return FoundFile(path, path, size, mtime, 1)


def record(ledger: Ledger, *paths: str, sha: str = "h1", priority: int = LOW_PRIORITY):
    return ledger.record("d", [(file(path), sha) for path in paths], [], priority=priority)


def test_the_same_content_seen_twice_is_one_event(ledger):
    assert [e.kind for e in record(ledger, "a.md")] == ["created"]
    assert record(ledger, "a.md") == []


def test_a_touched_file_updates_its_stat_and_owes_nothing_new(ledger):
    record(ledger, "a.md")
    ledger.record("d", [(file("a.md", mtime=9), "h1")], [], priority=LOW_PRIORITY)
    assert ledger.diff([file("a.md", mtime=9)]).changed == []


def test_events_carry_both_hashes_and_a_growing_generation(ledger):
    record(ledger, "a.md")
    (modified,) = record(ledger, "a.md", sha="h2")
    (deleted,) = ledger.record("d", [], ["a.md"], priority=LOW_PRIORITY)
    assert (modified.kind, modified.old_hash, modified.new_hash, modified.generation) == (
        "modified",
        "h1",
        "h2",
        2,
    )
    assert (deleted.kind, deleted.old_hash, deleted.new_hash, deleted.generation) == (
        "deleted",
        "h2",
        None,
        3,
    )
    assert ledger.record("d", [], ["a.md", "unknown.md"], priority=LOW_PRIORITY) == []


def test_a_scan_sees_what_differs_and_what_is_gone(ledger):
    record(ledger, "a.md", "b.md", "c.md")
    difference = ledger.diff([file("a.md"), file("b.md", size=2), file("new.md")])
    assert sorted(f.path for f in difference.changed) == ["b.md", "new.md"]
    assert (difference.gone, difference.unchanged) == (["c.md"], 1)


def test_a_scan_of_a_folder_says_nothing_of_other_folders(ledger):
    record(ledger, "x/a.md", "xy/b.md", "x.md", "x/y/c.md")
    assert ledger.diff([], "x").gone == ["x/a.md", "x/y/c.md"]


def test_saves_are_leased_before_a_scans_rows(ledger):
    record(ledger, "scanned.md")
    record(ledger, "saved.md", priority=HIGH_PRIORITY)
    assert [row.path for row in ledger.lease("words", 10, "me")] == ["saved.md", "scanned.md"]


def test_a_leased_row_is_nobody_elses_until_the_lease_runs_out(ledger, clock):
    record(ledger, "a.md")
    assert len(ledger.lease("words", 10, "me")) == 1
    assert (ledger.lease("words", 10, "you"), ledger.owes("words")) == ([], False)
    clock.now += LEASE_SECONDS + 1
    assert ledger.owes("words")
    assert len(ledger.lease("words", 10, "you")) == 1


def test_a_clock_that_starts_again_after_a_reboot_leaves_no_lease_stuck(ledger, clock):
    clock.now = 1_000_000.0
    record(ledger, "leased.md")
    ledger.lease("words", 10, "me")
    record(ledger, "postponed.md")
    ledger.postpone(ledger.lease("words", 10, "me")[0], "unreadable", "why")
    clock.now = 5.0
    assert {row.path for row in ledger.lease("words", 10, "you")} | {
        row.path for row in ledger.lease("words", 10, "you")
    } == {"leased.md", "postponed.md"}


def test_a_lost_lease_cannot_be_claimed(ledger, clock):
    record(ledger, "a.md")
    (mine,) = ledger.lease("words", 10, "me")
    clock.now += LEASE_SECONDS + 1
    ledger.lease("words", 10, "you")
    with pytest.raises(StaleWorkError):
        ledger.claim(mine, "h1")


def test_an_expired_lease_that_nobody_took_can_still_be_claimed(ledger, clock):
    record(ledger, "a.md")
    (mine,) = ledger.lease("words", 10, "me")
    clock.now += LEASE_SECONDS + 1
    assert ledger.claim(mine, "h1") == 1


def test_newer_content_makes_older_work_stale_but_not_work_on_that_content(ledger):
    record(ledger, "a.md")
    (row,) = ledger.lease("words", 10, "me")
    record(ledger, "a.md", sha="h2")
    with pytest.raises(StaleWorkError):
        ledger.claim(row, "h1")
    assert ledger.claim(row, "h2") == 2


def test_postponed_rows_wait_longer_each_time_and_released_ones_do_not(ledger, clock):
    record(ledger, "a.md")
    waits = []
    for _ in range(3):
        (row,) = ledger.lease("words", 10, "me")
        ledger.postpone(row, "unreadable", "why")
        start = clock.now
        while not ledger.owes("words"):
            clock.now += 0.5
        waits.append(clock.now - start)
    assert waits == sorted(set(waits))
    (row,) = ledger.lease("words", 10, "me")
    ledger.release([row])
    (again,) = ledger.lease("words", 10, "me")
    assert again.attempts == row.attempts


def test_pending_counts_dirty_rows_and_the_age_of_the_oldest(ledger, clock):
    record(ledger, "a.md")
    clock.now += 7
    record(ledger, "b.md")
    assert ledger.pending() == (2, 7.0)


def test_a_second_change_does_not_make_a_waiting_note_look_younger(ledger, clock):
    record(ledger, "a.md")
    clock.now += 7
    record(ledger, "a.md", sha="h2")
    assert ledger.pending() == (1, 7.0)


def test_a_parked_row_is_owed_again_on_request_only(ledger):
    record(ledger, "a.md")
    (row,) = ledger.lease("words", 10, "me")
    ledger.parked(row, "too-large", "why", indexed=False)
    assert (ledger.owes("words"), ledger.pending()[0]) == (False, 0)
    assert ledger.retry("a.md")
    assert ledger.owes("words")
    assert not ledger.retry("a.md")
