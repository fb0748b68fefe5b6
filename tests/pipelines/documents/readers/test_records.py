"""Records in YAML and JSON become blocks by key, with properties, links and privacy."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipelines.documents.document import DocumentLink
from pipelines.documents.read import note_of
from pipelines.documents.readers.records import read
from pipelines.errors import DocumentError
from pipelines.model import Locator
from pipelines.notes.chunk import chunk_note, chunk_settings

ROOT = Path(__file__).parents[4]
TYPES = yaml.safe_load((ROOT / "examples/record-types.yaml").read_text(encoding="utf-8"))["documents"]["yaml"]
RECORD = """
_meta: {id: EA-NVDA-Q4-2024, type: earnings-analysis, date: 2024-11-20, version: 2.3, tags: [earnings, semis]}
ticker: NVDA
earnings_date: 2024-11-21
phase2_fundamentals:
  business_performance:
    revenue_trend_8q:
      - {quarter: Q4-FY24, revenue_b: 22.1, yoy_pct: 265}
      - {quarter: Q1-FY25, revenue_b: 26.0, yoy_pct: 262}
    margin_trend: {gross_margin_current: 75.0, trend: expanding}
  competitive_context: {summary: "Compare absolute dollars; see [[AMD.yaml#thesis|the rival]]."}
thesis: {statement: Data centres keep growing., conviction: 8}
working_notes: Never indexed with types, but [[Linked]] all the same.
_graph: {peers: [AMD, AVGO], sources: [reports/q3.pdf]}
_links: {previous: EA-NVDA-Q3.yaml, site: "https://example.com/a.html"}
"""


def document_of(text, path="NVDA.yaml", options=None):
    return read(path, text if isinstance(text, bytes) else text.encode(), options or {})


def blocks(document):
    return [
        (block.label, block.place.name, document.text[block.start : block.end]) for block in document.blocks
    ]


SHORT = """\
Ticker: NVDA
Earnings date: 2024-11-21
Working notes: Never indexed with types, but [[Linked]] all the same."""
WHOLE_PHASE = """\
Phase 2 Fundamentals — Business Performance:
Revenue trend 8Q:
Q4-FY24: revenue b 22.1, YoY pct 265
Q1-FY25: revenue b 26.0, YoY pct 262
Margin trend.gross margin current: 75.0
Margin trend.trend: expanding

Phase 2 Fundamentals — Competitive Context:
Summary: Compare absolute dollars; see [[AMD.yaml#thesis|the rival]]."""
BUSINESS = """\
Business Performance — Revenue Trend (8Q):
Q4-FY24: revenue $22.1B, YoY +265%
Q1-FY25: revenue $26.0B, YoY +262%

Business Performance — Margin Trend:
Gross margin current: 75.0%
Trend: expanding"""
CONTEXT = """\
Competitive Context:
Summary: Compare absolute dollars; see [[AMD.yaml#thesis|the rival]]."""
THESIS = ("Thesis", "thesis", "Thesis:\nStatement: Data centres keep growing.\nConviction: 8")


def test_each_key_is_a_block_and_short_ones_share_the_first():
    assert blocks(document_of(RECORD)) == [
        ("", "", SHORT),
        ("Phase 2 Fundamentals", "phase2_fundamentals", WHOLE_PHASE),
        THESIS,
    ]


def test_a_type_has_its_sections_and_units():
    document = document_of(RECORD, options=TYPES)
    above = "Phase 2 Fundamentals"
    assert blocks(document) == [
        (f"{above} — Business Performance", "phase2_fundamentals.business_performance", BUSINESS),
        (f"{above} — Competitive Context", "phase2_fundamentals.competitive_context", CONTEXT),
        THESIS,
    ]
    assert document.blocks[0].headings == (above, "Business Performance")
    assert document.blocks[0].place == Locator("key", "phase2_fundamentals.business_performance", 6, 6)


def test_meta_and_short_values_are_properties():
    document = document_of(RECORD, options=TYPES)
    assert dict(document.metadata) == {
        "id": "EA-NVDA-Q4-2024",
        "kind": "earnings-analysis",
        "date": "2024-11-20",
        "aliases": ["EA-NVDA-Q4-2024"],
        "ticker": "NVDA",
        "earnings_date": "2024-11-21",
        "working_notes": "Never indexed with types, but [[Linked]] all the same.",
        "_graph": {"peers": ["AMD", "AVGO"], "sources": ["reports/q3.pdf"]},
        "_links": {"previous": "EA-NVDA-Q3.yaml", "site": "https://example.com/a.html"},
        "type": "earnings-analysis",
        "version": 2.3,
        "tags": ["earnings", "semis"],
    }
    note = note_of("NVDA.yaml", document)
    assert (note.kind, note.published_at, note.tags) == (
        "earnings-analysis",
        "2024-11-20",
        ("earnings", "semis"),
    )
    assert (note.aliases, note.title) == (("EA-NVDA-Q4-2024",), "NVDA")
    assert not note.privacy.private


def test_options_name_the_keys_of_id_kind_and_date():
    options = {"id": "about.no", "kind": "about.sort", "date": "about.on", "skip": ["secret"]}
    document = document_of(
        "about: {no: 7, sort: memo, on: 2024-05-01}\nsecret: Nothing to see here, really.", options=options
    )
    assert [document.metadata[key] for key in ("id", "kind", "date", "aliases")] == [
        "7",
        "memo",
        "2024-05-01",
        ["7"],
    ]
    assert [block.place.name for block in document.blocks] == ["about"]


def test_links_have_the_positions_at_which_they_are_written():
    document = document_of(RECORD, options=TYPES)
    at = document.text.index("[[AMD")
    assert document.links == (
        DocumentLink("EA-NVDA-Q3.yaml", 0, type="previous"),
        DocumentLink("reports/q3.pdf", 0, type="sources"),
        DocumentLink("AMD.yaml", at, "thesis", "the rival", type="summary"),
        DocumentLink("Linked", 0, "", "Linked", type="working_notes"),
    )
    note = note_of("NVDA.yaml", document)
    assert note.links[2].section == "Phase 2 Fundamentals — Competitive Context"
    (shown,) = document_of("picture: 'See ![[chart.png]] for the course of the price.'").links
    assert shown.embed


@pytest.mark.parametrize("path", ["NVDA.yaml", "NVDA.json"])
def test_the_type_of_a_link_is_its_nearest_key_each_once(path):
    record = {
        "_graph": {
            "Competes With": ["[[AMD]]", "[[AMD]]"],
            "supplier": {"chips": "TSM.yaml"},
            "buys": "TSM.yaml",
        },
        "_links": ["Plain.md"],
        "thesis": "It takes share from [[AMD]], says [[AMD]].",
    }
    document = document_of(json.dumps(record), path)
    links = note_of(path, document).links
    assert {(link.target, link.type) for link in links} == {
        ("Plain.md", None),
        ("TSM.yaml", "chips"),
        ("TSM.yaml", "buys"),
        ("AMD", "thesis"),
        ("AMD", "competes_with"),
    }
    assert len(links) == 6, "the two of the text are where they are written"


def long_section(keys):
    return {"deep": {f"part_{n}": f"{n} " + "word " * 300 for n in range(keys)} | {"n": 1, "short": "brief"}}


def test_a_section_above_1500_tokens_has_a_block_for_each_key():
    text = yaml.safe_dump(long_section(3))
    assert [block.label for block in document_of(text).blocks] == ["Deep"]
    document = document_of(yaml.safe_dump(long_section(5), sort_keys=False))
    assert [(block.label, block.place.name, block.headings) for block in document.blocks] == [
        *((f"Deep — Part {n}", f"deep.part_{n}", ("Deep", f"Part {n}")) for n in range(5)),
        ("Deep", "deep", ("Deep",)),
    ]
    assert blocks(document)[-1][2] == "N: 1\nShort: brief"


def test_a_long_list_is_left_to_the_windows_of_the_chunker():
    document = document_of(
        json.dumps({"entries": [{"n": n, "text": "word " * 50} for n in range(100)]}), "a.json"
    )
    assert len(document.blocks) == 1
    chunks = chunk_note(note_of("a.json", document), chunk_settings(512, None, None))
    assert len(chunks) > 5
    assert {chunk.place for chunk in chunks} == {Locator("key", "entries")}


def test_a_list_at_the_top_has_a_block_for_each_20_entries():
    rows = [{"name": f"row {n}", "value": n} for n in range(45)]
    document = document_of(json.dumps(rows), "rows.json")
    assert [block.place for block in document.blocks] == [
        Locator("rows", "", 1, 20),
        Locator("rows", "", 21, 40),
        Locator("rows", "", 41, 45),
    ]
    assert blocks(document)[2][2].splitlines()[0] == "row 40: value 40"


def test_later_documents_of_a_file_are_under_their_number():
    text = "kind: Service\nspec: {a: The first specification}\n---\nkind: Pod\nspec: {b: The second specification}\n"
    document = document_of(text + "---\n- {name: one, n: 1}\n- {name: two, n: 2}\n", "k8s.yml")
    assert [(block.label, block.place.name) for block in document.blocks] == [
        ("", ""),
        ("Spec", "spec"),
        ("Document 2", "Document 2"),
        ("Document 2 — Spec", "Document 2: spec"),
        ("Document 3", "Document 3"),
    ]
    assert document.metadata["kind"] == "Service"
    assert [block.place.first for block in document.blocks[:4]] == [1, 2, 4, 5]


def test_values_at_the_top_belong_to_the_record_itself():
    text = "_meta: {id: 7}\nkind: memo\nstate: open\ntitle: The cooper's visit\nbody: {a: Staves of oak were chosen}\n"
    chunks = chunk_note(note_of("memo.yaml", document_of(text)), chunk_settings(512, None, None))
    assert [(chunk.section, chunk.heading_path) for chunk in chunks] == [
        ("The cooper's visit", ()),
        ("Body", ("Body",)),
    ]
    assert [chunk.place.shown() for chunk in chunks] == ["top level", "body"]


def test_each_section_of_yaml_knows_the_line_of_its_key():
    document = document_of(RECORD)
    assert [(block.place.first, block.place.last) for block in document.blocks] == [(3, 3), (5, 5), (12, 12)]
    assert [block.place.first for block in document_of(RECORD, options=TYPES).blocks] == [6, 11, 12]
    deep = "# a comment\n\n" + yaml.safe_dump(long_section(5), sort_keys=False, width=10_000)
    assert [block.place.first for block in document_of(deep).blocks] == [4, 5, 6, 7, 8, 9]


def test_below_the_fourth_level_a_section_has_the_line_of_the_key_above():
    options = {"types": {"x": {"sections": ["a.b.c.d.*"]}}}
    text = "kind: x\na:\n  b:\n    c:\n      d:\n        e: A text that is long enough\n"
    (block,) = document_of(text, options=options).blocks
    assert (block.place.name, block.place.first) == ("a.b.c.d.e", 5)


def test_sections_of_json_have_no_lines():
    document = document_of('{\n"n": 1,\n"a": {"b": "A text that is long enough"}}', "a.json")
    assert [block.place for block in document.blocks] == [Locator("key"), Locator("key", "a")]


@pytest.mark.parametrize(
    "text",
    [
        "private: true\na: A text that is long enough.",
        "_meta: {private: yes}\na: A text that is long enough.",
        "_links: {private: 1}\na: A text that is long enough.",
        "a: {b: [{c: {Private: 'yes'}}]}",
        "a: {__ｐｒｉｖａｔｅ__: on}",
        "a: A text that is long enough.\n---\n_meta: {private: true}\n",
        "a: {tags: [x, private/diary]}",
        "a: [{tag: 'one private'}]",
        "private: !secret it",
    ],
)
def test_what_says_private_anywhere_is_private(text):
    for options in ({}, {"skip": ["a"]}, {"types": {"": {"sections": []}}}):
        assert note_of("a.yaml", document_of(text, options=options)).privacy.private


@pytest.mark.parametrize("text", ["a: {private: false}", "privately: true", "a: {tags: [public]}"])
def test_what_does_not_say_private_is_not(text):
    assert not note_of("a.yaml", document_of(text)).privacy.private


def test_too_many_tags_in_sections_count_as_private():
    rows = [{"name": f"row {n}", "tags": [f"topic/{n}"]} for n in range(3_000)]
    note = note_of("a.json", document_of(json.dumps({"rows": rows}), "a.json"))
    assert note.privacy.private
    assert "counts as private" in note.warnings[0]
    assert len(json.dumps(note.frontmatter)) < 65_536


def test_too_large_properties_are_left_out_with_a_warning():
    document = document_of(json.dumps({f"key{n}": "x" * 900 for n in range(100)}), "a.json")
    assert len(json.dumps(document.metadata)) < 65_536
    assert document.warnings == ("57 properties are too large and were left out",)


def test_text_above_the_limit_is_cut_with_a_warning():
    document = document_of(json.dumps([[1] * 1_000] * 150), "a.json")
    assert document.blocks[-1].place == Locator("rows", "", 81, 100)
    assert document.warnings == ("only the first 100,000 values or 5,000,000 characters were read",)


@pytest.mark.parametrize("data", [b"", b"# only a comment\n", b"a: ~\n", b"{}", b"[]"])
def test_a_record_without_values_has_no_blocks(data):
    assert document_of(data).blocks == ()


def test_a_text_alone_is_a_block():
    assert document_of('"Nothing but a text."', "a.json").text == "Nothing but a text."


REAL = [
    *sorted(ROOT.glob(".github/workflows/*.yml")),
    *sorted((ROOT / "deploy").rglob("*.yml"))[:3],
    *sorted((ROOT / "deploy").rglob("*.json"))[:3],
    *sorted(path for path in Path(sys.prefix).glob("lib/python3*/site-packages/*/**/*.json"))[:6],
]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_files_are_read_or_refused(path):
    try:
        document = read(path.name, path.read_bytes(), {})
    except DocumentError as error:
        assert "written twice" in str(error) or "alias" in str(error)  # noqa: PT017
        return
    note = note_of(path.name, document)
    assert all(note.text[block.start : block.end].strip() for block in note.blocks)
    assert chunk_note(note, chunk_settings(512, None, None))


@given(st.data())
def test_a_truncated_record_is_read_or_refused(data):
    path = data.draw(st.sampled_from(["a.yaml", "a.json"]))
    content = RECORD if path == "a.yaml" else json.dumps(yaml.safe_load(RECORD), default=date.isoformat)
    raw = bytearray(content.encode())
    del raw[data.draw(st.integers(0, len(raw))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw))) : 0] = data.draw(st.binary(max_size=4))
    try:
        note_of(path, read(path, bytes(raw), TYPES))
    except DocumentError as error:
        assert str(error).startswith(repr(path))  # noqa: PT017


def with_sections(kind, sections):
    record = {"_meta": {"type": kind}, "unlisted": "A section that the type does not have."}
    for entry in sections:
        key, _, name = entry.partition(".")
        item = f"A text about {entry} that is long enough."
        if name:
            record.setdefault(key, {})[name] = item
        else:
            record[key] = item
    return yaml.safe_dump(record)


@pytest.mark.parametrize("kind", TYPES["types"])
def test_each_type_of_the_example_has_its_sections_as_text(kind):
    sections = TYPES["types"][kind]["sections"]
    document = document_of(with_sections(kind, sections), options=TYPES)
    assert [block.place.name for block in document.blocks] == sections


def test_the_example_has_nine_types():
    assert len(TYPES["types"]) == 9
