"""What the model reads before a passage: its note's title and headings, never the file's name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipelines.documents.document import Builder
from pipelines.documents.read import note_of
from pipelines.documents.readers.records import read
from pipelines.domains import load
from pipelines.maintenance.verify import repair, verify
from pipelines.model import ChunkSettings
from pipelines.notes.chunk import chunk_note, embedded_text, hash_of
from pipelines.notes.markdown import parse_note

ROOT = Path(__file__).parents[3]
TYPES = yaml.safe_load((ROOT / "examples/record-types.yaml").read_text(encoding="utf-8"))["documents"]["yaml"]
MOST = 128
NOTE = """\
---
title: Sourdough
---
Flour and water.

# Leaven

## Feeding

Feed it twice a day.

### In winter

Feed it once.
"""


def cut(context, words=200):
    return ChunkSettings(words, 30 * words // 200, 6_000, context)


def contexts(text, context, path="a.md", words=200):
    return [chunk.context for chunk in chunk_note(parse_note(path, text), cut(context, words))]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("off", ["", ""]),
        ("title", ["Sourdough", "Sourdough"]),
        ("breadcrumb", ["Sourdough", "Sourdough > Leaven"]),
    ],
)
def test_a_passage_is_below_its_title_and_the_headings_above_it(context, expected):
    assert contexts(NOTE, context) == expected


def test_a_later_part_of_a_long_section_is_below_its_own_headings_too():
    text = f"# Bread\n\n## Dough\n\n### Rye\n\n{'word ' * 300}"
    assert contexts(text, "breadcrumb") == ["", "Bread", "Bread > Dough > Rye"]
    assert contexts(text, "title") == ["", "Bread", "Bread"]


def test_a_title_that_repeats_as_the_first_heading_is_included_once():
    text = "---\ntitle: Bread!\n---\nIntro.\n# *Bread*\nText.\n## Dough\nMore."
    assert contexts(text, "breadcrumb") == ["Bread!", "Bread"]


@pytest.mark.parametrize("text", ["Words alone.", "## A section\n\nWords.", "---\nkind: x\n---\nWords."])
@pytest.mark.parametrize("context", ["title", "breadcrumb"])
def test_the_name_of_a_file_is_never_in_a_context(context, text):
    assert contexts(text, context, "Folder/Named after a river.md") == [""]


def test_a_document_is_below_its_own_title():
    builder = Builder()
    builder.add("Margins grow.", "Costs", ("Costs",))
    builder.add("Costs\nRent and wages.", "Costs", ("Costs",))
    document = builder.document(title="Plan for 2027")
    found = chunk_note(note_of("plan.canvas", document), cut("breadcrumb"))
    assert [chunk.context for chunk in found] == ["Plan for 2027 > Costs", "Plan for 2027"]
    unnamed = chunk_note(note_of("plan.canvas", builder.document()), cut("breadcrumb"))
    assert [chunk.context for chunk in unnamed] == ["Costs", ""]


RECORD = """
_meta: {id: EA-NVDA-Q4-2024, type: earnings-analysis, date: 2024-11-20}
ticker: NVDA
phase2_fundamentals:
  competitive_context:
    summary: >-
      Compare ABSOLUTE DOLLARS, not percentages. NVDA adding $17B vs AMD adding $1B - 17x more absolute growth.
"""


@pytest.mark.parametrize("context", ["title", "breadcrumb"])
def test_a_section_of_a_record_is_below_its_kind_ticker_and_label(context):
    note = note_of("NVDA.yaml", read("NVDA.yaml", RECORD.encode(), TYPES))
    (chunk,) = chunk_note(note, cut(context))
    first, rest = embedded_text(chunk.text, chunk.context).split("\n", 1)
    assert first == "[earnings-analysis] [NVDA] [Phase 2 Fundamentals — Competitive Context]"
    assert rest == chunk.text


def test_a_sub_section_of_a_record_keeps_its_parent_in_its_label_and_in_what_is_embedded():
    record = {"_meta": {"type": "stock-analysis"}, "ticker": "NVDA"}
    record["bear_case_analysis"] = dict.fromkeys(("summary", "arguments"), "why it falls " * 400)
    note = note_of("NVDA.json", read("NVDA.json", json.dumps(record).encode(), {}))
    found = chunk_note(note, cut("breadcrumb"))
    assert {(chunk.section, chunk.context) for chunk in found if chunk.place.name != ""} == {
        ("Bear Case Analysis — Summary", "[stock-analysis] [NVDA] [Bear Case Analysis — Summary]"),
        ("Bear Case Analysis — Arguments", "[stock-analysis] [NVDA] [Bear Case Analysis — Arguments]"),
    }


def test_of_headings_too_long_for_a_record_the_innermost_stays():
    builder = Builder()
    builder.add("Some text of the block.", "", ("Long " * 40, "Short"))
    note = note_of("a.yaml", builder.document(metadata={"kind": "memo"}))
    assert [chunk.context for chunk in chunk_note(note, cut("title"))] == ["[memo] [Short]"]


def test_a_record_without_a_ticker_is_named_by_its_id_and_what_is_missing_is_left_out():
    text = (
        "_meta: {id: L-7, type: learning}\npattern:\n  summary: Selling winners early, and keeping losers.\n"
    )
    note = note_of("a.yaml", read("a.yaml", text.encode(), {}))
    assert [chunk.context for chunk in chunk_note(note, cut("title"))] == ["[learning] [L-7] [Pattern]"]
    rows = note_of("rows.json", read("rows.json", b'[{"name": "first row", "n": 1}]', {}))
    assert [chunk.context for chunk in chunk_note(rows, cut("title"))] == [""]


# Bounds


def test_long_headings_are_cut_so_that_most_of_the_window_is_left_for_the_text():
    deep = [f"{'#' * n} Level {n} {'long ' * 20}" for n in range(1, 7)]
    text = "\n\nWords.\n\n".join([*deep, "word " * 400])
    *_, last = contexts(text, "breadcrumb")
    assert last.startswith("Level 1 long long")
    assert "> Level 6 long" in last
    assert len(last.encode()) <= MOST
    assert len(contexts(text, "breadcrumb", words=600)[-1].encode()) <= 3 * MOST


@given(
    title=st.text(max_size=300),
    headings=st.lists(st.text(min_size=1, max_size=300), max_size=6),
    context=st.sampled_from(["title", "breadcrumb"]),
    path=st.sampled_from(["a.md", "a.docx", "a.yaml"]),
)
def test_any_title_and_headings_give_one_short_line(title, headings, context, path):
    builder = Builder()
    builder.add("Some text of the block.", "", tuple(headings))
    document = builder.document(title=title, metadata={"kind": title, "id": "".join(headings)})
    for chunk in chunk_note(note_of(path, document), cut(context)):
        assert chunk.context == "" or chunk.context.isprintable()
        assert chunk.context == chunk.context.strip()
        assert len(chunk.context.encode()) <= MOST


def test_control_characters_and_line_breaks_of_a_title_do_not_reach_the_model():
    text = '---\ntitle: "Bread\\nand \\u202Ebutter\\0!"\n---\nText.'
    assert contexts(text, "title") == ["Bread and butter !"]


# Hashes


def test_the_hash_tells_a_context_from_the_first_line_of_a_text():
    assert embedded_text("B", "A") == embedded_text("A\nB", "")
    assert len({hash_of("B", "A"), hash_of("A\nB"), hash_of("B"), hash_of("A")}) == 4


def test_equal_texts_below_equal_contexts_have_equal_hashes():
    one, other = (chunk_note(parse_note(path, NOTE), cut("breadcrumb")) for path in ("a.md", "b/c.md"))
    assert [chunk.text_hash for chunk in one] == [chunk.text_hash for chunk in other]
    assert {c.text_hash for c in one}.isdisjoint(
        c.text_hash for c in chunk_note(parse_note("a.md", NOTE), cut("off"))
    )


# In an index


@pytest.fixture(params=["off", "title", "breadcrumb"])
def housed(house, request):
    """Return a house whose index has a context."""
    return with_context(house, request.param)


def with_context(house, context):
    house.cache.close()
    house.chunking = replace(house.chunking, context=context)
    house.cache = house.open("cache-vault.1.db")
    return house


def test_a_renamed_note_embeds_nothing(housed):
    file = housed.write("Old name.md", NOTE)
    assert housed.index()
    (housed.root / "Deep").mkdir()
    file.rename(housed.root / "Deep/New name.md")
    assert housed.index() == []
    assert housed.picture() == housed.scratch_picture()


def test_another_title_embeds_the_passages_of_its_note_alone(housed):
    housed.write("a.md", NOTE)
    housed.write("b.md", NOTE.replace("flour", "wheat"))
    housed.index()
    housed.write("a.md", NOTE.replace("title: Sourdough", "title: Rye"))
    texts = housed.index()
    expected = {
        "off": [],
        "title": ["Rye", "Rye"],
        "breadcrumb": ["Rye", "Rye > Leaven"],
    }[housed.chunking.context]
    assert sorted(text.partition("\n")[0] for text in texts) == expected
    assert housed.picture() == housed.scratch_picture()


def test_another_heading_above_embeds_only_the_passages_below_it(housed):
    housed.write("a.md", NOTE)
    housed.index()
    housed.write("a.md", NOTE.replace("# Leaven", "# Starter"))
    texts = housed.index()
    below = ["Sourdough > Starter"] if housed.chunking.context == "breadcrumb" else []
    assert [text.partition("\n")[0] for text in texts if "Starter" not in text.partition("\n")[2]] == below
    assert housed.picture() == housed.scratch_picture()


@pytest.mark.parametrize("save", [True, False])
def test_what_is_embedded_is_the_text_below_its_context(house, save):
    with_context(house, "breadcrumb")
    if save:
        house.save("a.md", NOTE)
    else:
        house.write("a.md", NOTE)
        house.index()
    stored = house.cache.con.execute("SELECT text FROM vault_chunk ORDER BY position").fetchall()
    expected = [
        embedded_text(text, context)
        for (text,), context in zip(stored, ["Sourdough", "Sourdough > Leaven"], strict=True)
    ]
    assert sorted(house.embedder.texts) == sorted(expected)


def test_verify_finds_a_context_that_is_not_what_the_file_gives(house):
    with_context(house, "breadcrumb")
    house.write("a.md", NOTE)
    house.index()
    registry = load(house.root)
    assert verify(house.cache, house.ingest, registry).differences == ()
    house.cache.con.execute("UPDATE vault_chunk SET context = 'Elsewhere' WHERE context = 'Sourdough'")
    verdict = verify(house.cache, house.ingest, registry)
    assert [(d.kind, d.path) for d in verdict.differences] == [("chunk", "a.md")]
    repair(house.cache, verdict)
    house.drain()
    assert verify(house.cache, house.ingest, registry).differences == ()
    assert house.picture() == house.scratch_picture()
