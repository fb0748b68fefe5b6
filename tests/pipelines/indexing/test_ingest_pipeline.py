"""The events that indexing writes to the log by note: each once it is committed, with the work on that note alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.cache.leases import MAX_ATTEMPTS
from pipelines.errors import ModelUnavailableError
from pipelines.indexing.ingest import (
    TEXTS_AT_ONCE,
    embed_pending,
    index_apart,
    index_saved,
    index_words,
    reason_alone,
)
from pipelines.indexing.parse import ApartParser

ON_BOTH_STORES = True

TWO = "## Bread\n\nFlour and yeast in the oven.\n\n## River\n\nA boat with a sail."
LONG = "\n\n".join(f"## Part {n}\n\nThe river and the boat, part number {n}." for n in range(300))


@pytest.fixture
def parser():
    made = ApartParser()
    yield made
    made.stop()


def told(house):
    """Return the events since the last call, without times and keys."""
    found = [
        (e.path, e.action, e.passages, e.texts_embedded, e.vectors_pending)
        for e in sorted(house.events, key=lambda e: e.path)
    ]
    assert all(e.ms >= 0 for e in house.events)
    house.events.clear()
    return found


def test_a_save_is_logged_with_its_passages_and_the_texts_that_were_embedded(house):
    house.save("a.md", TWO)
    assert told(house) == [("a.md", "indexed", 2, 2, False)]
    house.save("a.md", TWO.replace("oven", "stove"))
    assert told(house) == [("a.md", "indexed", 2, 1, False)]


def test_words_are_logged_before_the_vectors_that_follow(house):
    house.write("a.md", TWO)
    house.write("b.md", "Ink and paper.")
    house.reconcile()
    index_words(house.cache, house.ingest)
    assert told(house) == [("a.md", "indexed", 2, 0, True), ("b.md", "indexed", 1, 0, True)]
    embed_pending(house.cache, house.ingest)
    assert told(house) == [("a.md", "embedded", None, 2, False), ("b.md", "embedded", None, 1, False)]


def test_a_long_note_is_logged_slice_by_slice(house):
    house.write("a.md", LONG)
    house.reconcile()
    house.drain()
    first, *parts = told(house)
    assert first == ("a.md", "indexed", 300, 0, True)
    assert len(parts) > 1
    assert sum(texts for _, _, _, texts, _ in parts) == 300
    assert [pending for *_, pending in parts] == [True] * (len(parts) - 1) + [False]


def test_a_save_with_more_texts_than_a_slice_is_logged_without_them(house):
    house.save("a.md", "\n\n".join(f"## {n}\n\nPart {n}." for n in range(TEXTS_AT_ONCE + 1)))
    assert told(house) == [("a.md", "indexed", TEXTS_AT_ONCE + 1, 0, True)]


def test_a_renamed_note_has_the_key_of_its_old_path_and_a_copy_another(house):
    house.save("a.md", TWO)
    house.write("copy.md", TWO)
    (house.root / "a.md").rename(house.root / "b.md")
    house.notice("a.md", "b.md", "copy.md")
    house.drain()
    keys = {(event.path, event.action): event.file_key for event in house.events}
    assert keys["a.md", "indexed"] == keys["a.md", "removed"] == keys["b.md", "indexed"]
    assert keys["copy.md", "indexed"] != keys["b.md", "indexed"]


def test_the_log_knows_a_deleted_note_from_one_that_a_rule_ignores(house):
    for path in ("Soil.md", "drafts/a.md", "drafts/b.md"):
        house.save(path, TWO)
    house.write(".everindexignore", "drafts/\n")
    (house.root / "Soil.md").unlink()
    house.reconcile()
    house.drain()
    reasons = {event.path: event.reason for event in house.events if event.action == "removed"}
    assert reasons == {"Soil.md": "deleted", "drafts/a.md": "ignored", "drafts/b.md": "ignored"}


def test_a_removed_note_whose_file_is_there_and_that_no_rule_ignores_has_no_reason(house):
    house.save("a.md", TWO)
    house.cache.ledger.record("vault", [], ["a.md"], priority=0)
    index_words(house.cache, house.ingest)
    assert (house.events[-1].action, house.events[-1].reason) == ("removed", None)


def test_a_note_that_cannot_be_read_is_logged_as_parked_with_the_reason(house):
    house.save("a.md", b"x" * 2_000_000)
    (event,) = house.events
    assert (event.path, event.action, event.passages) == ("a.md", "parked", None)
    assert event.error.startswith("too-large: it has 2.0 MB")


def test_a_note_that_ends_its_worker_is_logged_as_parked_once(house):
    house.write("a.md", TWO)
    house.reconcile()
    house.cache.con.execute("UPDATE vault_file SET attempts = ?", (MAX_ATTEMPTS,))
    index_words(house.cache, house.ingest)
    (event,) = house.events
    assert (event.action, event.error) == ("parked", f"crash: {house.cache.ledger.row('a.md').error}")


def test_a_note_that_is_parsed_apart_is_logged(house, parser):
    house.write("a.md", TWO)
    house.reconcile()
    (row,) = house.cache.leases.take("words", 1, "test")
    house.cache.leases.set_apart(row, "it takes long")
    index_apart(house.cache, replace(house.ingest, apart=True), parser)
    assert told(house) == [("a.md", "indexed", 2, 0, True)]


def test_what_was_not_committed_is_not_logged(house):
    house.write("a.md", TWO)
    house.notice("a.md")
    encode = house.embedder.encode_documents

    def meanwhile(texts):
        house.write("a.md", TWO + " And a new end.")
        house.notice("a.md")
        return encode(texts)

    house.embedder.encode_documents = meanwhile
    index_saved(house.cache, house.ingest)
    assert told(house) == []


def test_texts_of_a_model_that_fails_are_not_logged(house):
    def fail(_texts):
        raise ModelUnavailableError("no model")

    house.embedder.encode_documents = fail
    house.save("a.md", TWO)
    assert told(house) == [("a.md", "indexed", 2, 0, True)]


@pytest.mark.parametrize(
    ("reason", "alone"),
    [
        ("'a.md' is encrypted; save a copy", "it is encrypted; save a copy"),
        ("'a.md', line 2: the key is written twice", "line 2: the key is written twice"),
        ("'a.md': the key is written twice", "the key is written twice"),
        ("the model is sick", "the model is sick"),
    ],
)
def test_a_reason_for_parking_does_not_repeat_the_path(house, reason, alone):
    house.write("a.md", TWO)
    house.reconcile()
    (row,) = house.cache.leases.take("words", 1, "test")
    assert reason_alone(row, reason) == alone
