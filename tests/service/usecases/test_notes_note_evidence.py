"""What a note's page shows of the records that name the note."""

from __future__ import annotations

from contextlib import closing

import pytest

from pipelines.search import quotes as citations
from pipelines.state.evidence import Citation, Evidence, EvidenceRecord
from service.usecases.notes import NoteQuote, evidence_of_note

TEXTS = {"one": "The soil of the garden holds water.", "two": "Compost warms the beds in spring."}


@pytest.fixture
def store(tmp_path):
    with closing(Evidence(tmp_path)) as opened:
        yield opened


def add(store, *cited: Citation) -> None:
    asked_at = "2026-03-01T10:00:00+00:00"
    store.add(EvidenceRecord("5f0c1e9a77b2", "what?", None, None, asked_at, (), TEXTS, citations=cited))


def test_a_quote_is_verified_against_the_passages_that_it_was_compared_with(store):
    add(
        store,
        Citation("Soil.md", "the garden holds water", ("one",), None),
        Citation("Other.md", "of another note", ("one",), None),
        Citation("Soil.md", "the garden holds water", ("two",), None),
        Citation("Soil.md", None, ("one", "two"), None),
        Citation("Soil.md", "warms the beds", ("one", "two"), None),
    )
    (found,) = evidence_of_note(store, "Soil.md", 5)
    assert found.quotes == (
        NoteQuote("the garden holds water", verified=True),
        NoteQuote("the garden holds water", verified=False),
        NoteQuote("warms the beds", verified=True),
    )


def test_only_the_quotes_that_are_shown_are_verified_and_each_passage_is_read_once(store, monkeypatch):
    read = []
    monkeypatch.setattr(citations, "_read", lambda passage: read.append(passage) or passage)
    quotes = [f"a sentence that no note contains, {n}" for n in range(30)]
    add(store, *(Citation("Soil.md", text, tuple(TEXTS), None) for text in quotes))
    (found,) = evidence_of_note(store, "Soil.md", 5)
    assert [quote.text for quote in found.quotes] == quotes[:20]
    assert sorted(read) == sorted(TEXTS.values())
