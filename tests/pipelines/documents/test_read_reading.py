"""Documents are indexed like notes: ledger, passages, vectors, links; and no document holds up a note."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pipelines.cache.passages import document_text
from pipelines.cache.verify import chunks_of
from pipelines.domains import load
from pipelines.indexing.ingest import index_apart, index_saved
from pipelines.indexing.parse import ApartParser
from pipelines.indexing.reconcile import reconcile

CANVAS = json.dumps(
    {
        "nodes": [
            {
                "id": "a",
                "type": "text",
                "text": "The harvest was late this year.",
                "x": 0,
                "y": 0,
                "width": 9,
                "height": 9,
            },
            {"id": "b", "type": "file", "file": "Soil.md", "x": 0, "y": 50, "width": 9, "height": 9},
        ],
        "edges": [],
    }
)


@pytest.fixture
def apart(house):
    """Index one document as the worker's thread for documents does; return the outcome."""
    parser = ApartParser()

    def work():
        return index_apart(house.cache, replace(house.ingest, apart=True), parser)

    return work


def test_a_text_file_is_a_note_with_the_lines_of_the_file(house):
    house.save("list.txt", "\n\nBuy milk.\nAnd bread.\n")
    (chunk,) = chunks_of(house.cache, "list.txt")
    assert (chunk.text, chunk.first_line, chunk.last_line, chunk.place) == (
        "Buy milk.\nAnd bread.",
        3,
        4,
        None,
    )


def test_a_one_line_text_file_is_a_note(house):
    house.save("a.txt", "milk")
    assert [chunk.text for chunk in chunks_of(house.cache, "a.txt")] == ["milk"]


def test_a_document_is_set_apart_so_that_no_save_waits_for_its_reader(house, apart):
    house.write("board.canvas", CANVAS)
    house.write("a.md", "A note.")
    house.notice("board.canvas", "a.md")
    first = index_saved(house.cache, replace(house.ingest, apart=True))
    assert (first.paths, first.postponed) == (["a.md"], 1)
    assert apart().paths == ["board.canvas"]
    chunk, *_ = chunks_of(house.cache, "board.canvas")
    assert "harvest" in chunk.text
    assert chunk.place.kind == "card"


def test_the_links_of_a_document_lead_to_notes(house):
    house.save("Soil.md", "Soil.")
    house.save("board.canvas", CANVAS)
    edges = house.cache.con.execute("SELECT path, target FROM vault_edge").fetchall()
    assert ("board.canvas", "Soil.md") in edges


def test_a_link_to_a_document_leads_to_it(house):
    house.save("board.canvas", CANVAS)
    house.save("a.md", "See [[board.canvas]].")
    assert house.cache.con.execute("SELECT path, target FROM vault_edge WHERE path = 'a.md'").fetchall() == [
        ("a.md", "board.canvas")
    ]


def test_a_renamed_document_embeds_nothing(house):
    house.save("board.canvas", CANVAS)
    before = len(house.embedder.texts)
    (house.root / "board.canvas").rename(house.root / "plan.canvas")
    house.notice("board.canvas", "plan.canvas")
    house.drain()
    assert house.embedder.texts[before:] == []
    assert chunks_of(house.cache, "plan.canvas") != ()


def test_a_damaged_document_is_parked_with_its_reason_and_the_others_are_indexed(house):
    house.write("broken.canvas", '{"nodes": [')
    house.write("a.md", "A note.")
    house.index()
    row = house.cache.ledger.row("broken.canvas")
    assert row.parked
    assert row.error.startswith("it is not valid JSON")
    assert chunks_of(house.cache, "a.md") != ()


def test_a_mended_document_is_indexed(house):
    house.save("board.canvas", '{"nodes": [')
    house.save("board.canvas", CANVAS)
    assert chunks_of(house.cache, "board.canvas") != ()


def test_the_index_of_documents_equals_one_built_from_scratch(house):
    house.save("board.canvas", CANVAS)
    house.save("list.txt", "one\n\ntwo")
    house.save("list.txt", "one\n\ntwo\n\nthree")
    house.save("old.canvas", CANVAS)
    (house.root / "old.canvas").unlink()
    house.notice("old.canvas")
    house.drain()
    grown = house.picture()
    house.cache = house.open("cache-vault.2.db")
    house.index()
    assert house.picture() == grown


def test_the_text_of_a_document_is_put_together_from_its_passages(house):
    text = "\n".join(f"Line {number} says something of its own." for number in range(300))
    house.save("long.txt", text)
    chunks = house.cache.passages.chunks_of("long.txt")
    assert len(chunks) > 1
    assert document_text(chunks) == text


def test_a_format_that_a_domain_does_not_want_is_counted_but_not_indexed(house):
    house.write("report.pdf", b"%PDF-1.7")
    house.write("a.md", "A note.")
    report = house.reconcile()
    assert (report.others, report.ignored, report.new) == ({"pdf": 1}, 0, 1)


def test_a_format_that_is_no_longer_wanted_is_forgotten(house):
    house.save("list.txt", "Buy milk.")
    house.write("_domains.yaml", "vault:\n  legacy: true\n  formats: [md]\n")
    found = reconcile(house.root, load(house.root), {"vault": house.cache}, max_bytes=1_000_000)
    assert found["vault"].removed == 1
    assert found["vault"].others == {"txt": 1}


def test_the_settings_of_a_vault_are_not_its_records(house):
    house.write("_domains.yaml", "vault:\n  legacy: true\n  formats: [md, yaml]\n")
    house.write("_scopes.yaml", "mine:\n  path: [a.md]\n")
    report = house.reconcile()
    assert (report.new, report.ignored, report.others) == (0, 0, {})
