"""The ledger of pending work: disk against index."""

from __future__ import annotations

from pipelines.model import LOW_PRIORITY

from .conftest import file, record


def test_the_same_content_seen_twice_is_one_event(ledger):
    assert [e.kind for e in record(ledger, "a.md")] == ["created"]
    assert record(ledger, "a.md") == []


def test_a_touched_file_updates_its_stat_and_owes_nothing_new(ledger, cache):
    record(ledger, "a.md")
    ledger.record("d", [(file("a.md", mtime=9), "h1")], [], priority=LOW_PRIORITY)
    assert cache.ledger.compare_scan([file("a.md", mtime=9)]).changed == []


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
