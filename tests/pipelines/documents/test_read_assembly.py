"""A document becomes a note: its parts, headings, links and properties, at the right places."""

from pipelines.documents.document import Builder, DocumentLink
from pipelines.documents.read import note_of
from pipelines.model import Locator
from pipelines.notes.chunk import chunk_note, chunk_settings

SETTINGS = chunk_settings(512, None, None)


def report(**given):
    builder = Builder()
    for number, text in enumerate(("The harvest was late. " * 6, "The frost came early. " * 6), 1):
        builder.add(text, place=Locator("page", "", number, number))
    return builder.document(**given)


def test_each_part_is_a_passage_with_its_place():
    chunks = chunk_note(note_of("a/report.pdf", report()), SETTINGS)
    assert [(chunk.place.shown(), chunk.section) for chunk in chunks] == [("p. 1", "p. 1"), ("p. 2", "p. 2")]


def test_a_passage_is_the_text_between_its_offsets_on_its_lines():
    note = note_of("report.pdf", report())
    for chunk in chunk_note(note, SETTINGS):
        assert note.text[chunk.start : chunk.end] == chunk.text
        assert note.text[: chunk.start].count("\n") + 1 == chunk.first_line


def test_a_long_part_gives_several_passages_of_the_same_place_and_none_spans_two_parts():
    builder = Builder()
    builder.add("first " * 900, place=Locator("slide", "", 1, 1))
    builder.add("second " * 10, place=Locator("slide", "", 2, 2))
    chunks = chunk_note(note_of("deck.pptx", builder.document()), SETTINGS)
    assert [chunk.place.first for chunk in chunks] == [1, 1, 2]
    assert "first" not in chunks[-1].text


def test_a_part_with_too_little_text_for_its_format_is_no_passage():
    builder = Builder()
    builder.add("Page 1 of 9", place=Locator("page", "", 1, 1))
    builder.add("The harvest was late. " * 6, place=Locator("page", "", 2, 2))
    chunks = chunk_note(note_of("report.pdf", builder.document()), SETTINGS)
    assert [chunk.place.first for chunk in chunks] == [2]


def test_a_note_says_which_pages_are_left_out():
    builder = Builder()
    builder.add("Boarding pass: seat 14C", place=Locator("page", "", 1, 1))
    builder.add("The harvest was late. " * 6, place=Locator("page", "", 2, 2))
    builder.add("Gate B7", place=Locator("page", "", 3, 3))
    (warning,) = note_of("ticket.pdf", builder.document()).warnings
    assert warning == "left out, because they have less than 100 characters: p. 1, p. 3"
    assert note_of("report.pdf", report()).warnings == ()


def test_a_short_section_about_frontmatter_makes_no_document_private():
    builder = Builder()
    builder.add("It is YAML.", "What frontmatter is", ("What frontmatter is",))
    builder.add("The harvest was late. " * 6, "Harvest", ("Harvest",))
    note = note_of("guide.docx", builder.document())
    assert note.warnings == ("left out, because they have less than 100 characters: What frontmatter is",)
    assert not note.privacy.private


def test_a_document_with_nothing_but_short_parts_keeps_them():
    builder = Builder()
    builder.add("Invoice 4711", place=Locator("page", "", 1, 1))
    assert [chunk.text for chunk in chunk_note(note_of("a.pdf", builder.document()), SETTINGS)] == [
        "Invoice 4711"
    ]


def test_a_document_without_text_is_found_by_its_name():
    document = Builder().document(warnings=("no text (scanned)",))
    note = note_of("Scans/Lease 2019.pdf", document)
    assert [chunk.text for chunk in chunk_note(note, SETTINGS)] == ["Lease 2019"]
    assert note.warnings == ("no text (scanned)",)


def test_metadata_is_read_like_frontmatter():
    metadata = {"title": "Annual report", "tags": ["finance", "2 bad"], "author": "Ann", "date": "2025-02-03"}
    note = note_of("r.pdf", report(metadata=metadata))
    assert (note.title, note.tags, note.author, note.published_at) == (
        "Annual report",
        ("finance",),
        "Ann",
        "2025-02-03",
    )


def test_what_a_document_says_of_its_privacy_holds():
    assert note_of("r.yaml", report(metadata={"private": True})).privacy.private
    assert not note_of("r.yaml", report()).privacy.private


def test_a_program_is_not_private_because_it_says_the_word():
    builder = Builder()
    builder.add("class A {\n  private: yes;\n};")
    assert not note_of("a.cpp", builder.document()).privacy.private
    assert note_of("private/a.cpp", builder.document()).privacy.private


def test_a_link_knows_its_line_and_part():
    builder = Builder()
    builder.add("Plan", "Plan", ("Plan",))
    at = builder.add("See Costs.xlsx", "Costs", ("Plan", "Costs"))
    builder.link(DocumentLink("Costs.xlsx", at + 4, fragment="B2", embed=True))
    note = note_of("board.canvas", builder.document())
    (link,) = note.links
    assert (link.kind, link.target, link.fragment, link.line, link.section) == (
        "embed",
        "Costs.xlsx",
        "B2",
        3,
        "Costs",
    )


def test_headings_are_listed_once_where_they_begin():
    builder = Builder()
    builder.add("one", "A", ("Top", "A"))
    builder.add("two", "B", ("Top", "B"))
    note = note_of("x.docx", builder.document())
    assert [(heading.level, heading.text) for heading in note.headings] == [(1, "Top"), (2, "A"), (2, "B")]
