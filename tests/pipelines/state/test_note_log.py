"""The log by note: what it keeps, how it recognises a renamed file, and how it is bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.state.note_log import KEPT_PER_NOTE, NoteEvent, NoteLog, file_key

ON_BOTH_STORES = True

MODEL, PIPELINE = "m", "5:200/40/1200"


class Clock:
    now = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **time: float) -> None:
        self.now += timedelta(**time)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(place, clock):
    opened = NoteLog(place, clock)
    yield opened
    opened.close()


def add(log, *events, model=MODEL, pipeline=PIPELINE, domain="vault"):
    log.add(domain, model, pipeline, events)


def indexed(path, key=None, **more):
    return NoteEvent(path, "indexed", 12.34, passages=3, file_key=key, **more)


def removed(path, key=None):
    return NoteEvent(path, "removed", 1.0, file_key=key)


def told(log, path):
    return [(entry.action, entry.other_path) for entry in log.of_note(path, 100)]


def test_an_entry_has_everything_that_was_recorded(log):
    add(log, indexed("a.md", texts_embedded=2, vectors_pending=True), domain="garden")
    (entry,) = log.of_note("a.md", 5)
    assert (entry.at, entry.domain, entry.action) == ("2026-11-21T12:00:00.000+00:00", "garden", "indexed")
    assert (entry.passages, entry.texts_embedded, entry.vectors_pending, entry.ms) == (3, 2, True, 12.3)
    assert (entry.model, entry.pipeline, entry.error, entry.other_path) == (MODEL, PIPELINE, None, None)


def test_the_latest_entries_of_a_path_come_first(log):
    add(log, indexed("a.md"), indexed("b.md"), NoteEvent("a.md", "embedded", 1.0), removed("a.md"))
    assert told(log, "a.md") == [("removed", None), ("embedded", None), ("indexed", None)]
    assert [entry.action for entry in log.of_note("a.md", 2)] == ["removed", "embedded"]
    assert log.of_note("A.md", 5) == []


@pytest.mark.parametrize("reason", ["deleted", "ignored", None])
def test_a_removal_has_its_reason_which_is_no_error(log, reason):
    add(log, NoteEvent("a.md", "removed", 1.0, reason=reason))
    (entry,) = log.of_note("a.md", 5)
    assert (entry.reason, entry.error) == (reason, None)
    add(log, indexed("a.md"), NoteEvent("a.md", "parked", 1.0, error="it is damaged"), removed("a.md"))
    told_later = [(entry.action, entry.reason, entry.error) for entry in log.of_note("a.md", 5)]
    assert told_later == [
        ("removed", None, None),
        ("parked", None, None),
        ("indexed", None, None),
        ("removed", reason, None),
    ]


@pytest.mark.parametrize("removed_first", [True, False])
def test_a_renamed_note_was_not_deleted(log, removed_first):
    gone = NoteEvent("a.md", "removed", 1.0, file_key=7, reason="deleted")
    add(log, indexed("a.md", 7))
    add(log, *((gone, indexed("b.md", 7)) if removed_first else (indexed("b.md", 7), gone)))
    entry = log.of_note("a.md", 1)[0]
    assert (entry.action, entry.other_path, entry.reason, entry.error) == ("renamed", "b.md", None, None)


@pytest.mark.parametrize("other", [{"model": "n"}, {"pipeline": "6:200/40/1200"}])
def test_a_note_is_re_embedded_if_its_last_vectors_were_of_another_model_or_pipeline(log, other):
    vectors = NoteEvent("a.md", "embedded", 5.0, texts_embedded=3)
    add(log, indexed("a.md", vectors_pending=True), vectors)
    add(log, indexed("a.md", vectors_pending=True), vectors, **other)
    add(log, indexed("a.md", vectors_pending=True), vectors, **other)
    assert [action for action, _ in told(log, "a.md") if action != "indexed"] == [
        "embedded",
        "re-embedded",
        "embedded",
    ]


@pytest.mark.parametrize("deleted_first", [True, False])
def test_a_renamed_note_says_so_at_both_paths(log, clock, deleted_first):
    key = file_key("hash", 7)
    add(log, indexed("a.md", key))
    clock.pass_by(hours=1)
    pair = [removed("a.md", key), indexed("b.md", key)]
    for event in pair if deleted_first else pair[::-1]:
        add(log, event)
    assert told(log, "a.md") == [("renamed", "b.md"), ("indexed", None)]
    assert told(log, "b.md") == [("renamed", "a.md")]


@pytest.mark.parametrize("deleted_first", [True, False])
def test_a_note_that_is_renamed_again_and_back_names_each_step(log, deleted_first):
    key = file_key("hash", 7)
    add(log, indexed("a.md", key))
    for old, new in (("a.md", "b.md"), ("b.md", "c.md"), ("c.md", "a.md")):
        pair = [removed(old, key), indexed(new, key)]
        add(log, *(pair if deleted_first else pair[::-1]))
    assert told(log, "a.md") == [("renamed", "c.md"), ("renamed", "b.md"), ("indexed", None)]
    assert told(log, "b.md") == [("renamed", "c.md"), ("renamed", "a.md")]
    assert told(log, "c.md") == [("renamed", "a.md"), ("renamed", "b.md")]


def test_a_deleted_note_is_not_renamed_to_another_of_the_same_text(log, clock):
    add(log, indexed("a.md", file_key("hash", 7)), indexed("copy.md", file_key("hash", 8)))
    add(log, removed("a.md", file_key("hash", 7)))
    clock.pass_by(hours=1)
    add(log, indexed("later.md", file_key("hash", 7)))
    assert told(log, "a.md")[0] == ("removed", None)
    assert told(log, "copy.md") == told(log, "later.md") == [("indexed", None)]


def test_a_removed_note_leaves_no_reason_that_may_quote_it(log):
    add(log, NoteEvent("a.md", "parked", 1.0, error="bad-frontmatter: 'secret' is no tag"))
    assert log.of_note("a.md", 1)[0].error == "bad-frontmatter: 'secret' is no tag"
    add(log, removed("a.md"))
    assert [entry.error for entry in log.of_note("a.md", 5)] == [None, None]


def test_a_reason_is_cut_and_always_storable(log):
    add(log, NoteEvent("a.md", "parked", 1.0, error="\udce9\0" + "x" * 5000))
    (entry,) = log.of_note("a.md", 1)
    assert entry.error == "?\N{SYMBOL FOR NULL}" + "x" * 398


def test_a_note_that_is_saved_all_the_time_does_not_push_out_the_others(log):
    add(log, indexed("quiet.md"))
    add(log, *[indexed("loud.md")] * (KEPT_PER_NOTE + 50))
    assert len(log.of_note("loud.md", 1_000)) == KEPT_PER_NOTE
    assert log.prune(days=1, most=KEPT_PER_NOTE + 51) == 0
    assert len(log.of_note("quiet.md", 5)) == 1


def test_the_log_is_bounded_by_age_and_by_number(log, clock):
    add(log, *(indexed(f"{n}.md") for n in range(5)))
    clock.pass_by(days=2)
    add(log, *(indexed(f"{n}.md") for n in range(5, 9)))
    assert log.prune(days=1, most=100) == 5
    assert log.prune(days=1, most=3) == 1
    assert [n for n in range(9) if log.of_note(f"{n}.md", 1)] == [6, 7, 8]
