"""The answer of a process without rights counts as a document only if every value in it is valid."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from pipelines.documents import wire
from pipelines.documents.document import Builder, Document, DocumentLink
from pipelines.errors import DocumentError, ParserDiedError, ParserMemoryError
from pipelines.model import Block, Locator

TEXT = "Overview ä 🙂\n\nCosts"
BLOCK = [0, 12, "Overview", ["Plan", "Overview"], ["page", "", 3, 0]]
LINK = ["Soil.md", 3, "", "the soil", False, "feeds"]
TRUE = {
    "title": "Plan",
    "metadata": {"author": "Ada"},
    "blocks": [BLOCK],
    "links": [LINK],
    "warnings": ["cut"],
    "pictures": True,
}


def received(head, text=TEXT):
    data = head if isinstance(head, bytes) else json.dumps(head).encode()
    return wire.document_of("a.pdf", data, text if isinstance(text, bytes) else text.encode())


def sent(document):
    """Return a document as the parent gets it."""
    framed, body = wire.packed(document)
    head, size = wire.sizes("a.pdf", framed)
    assert (len(framed), len(body)) == (wire.PREFIX.size + head, size)
    return wire.document_of("a.pdf", memoryview(framed)[wire.PREFIX.size :], memoryview(body))


def test_a_document_arrives_as_it_was_sent():
    document = Document(
        text=TEXT,
        blocks=(
            Block(0, 12, "Overview", ("Plan", "Overview"), Locator("page", "", 3)),
            Block(14, 19, "Costs", (), Locator("rows", "Costs 🙂", 21, 40)),
            Block(19, 19),
        ),
        title="Plan",
        metadata={"author": "Ada", "tags": ["a", "b"], "deep": {"x": [1, 2.5, None, True]}},
        links=(DocumentLink("Soil.md", 3, "Compost", "the soil", embed=True, type="feeds"),),
        warnings=("only the first 2,000 of 3,100 pages were read",),
    )
    assert sent(document) == document


@pytest.mark.parametrize(
    "changed",
    [
        {"title": None},
        {"title": "x" * 1_001},
        {"title": "\ud800"},
        {"extra": 1},
        {"metadata": []},
        {"metadata": {"x": float("nan")}},
        {"metadata": {"x": "y" * 65_536}},
        {"metadata": {"x": "\ud800"}},
        {"metadata": {"x": json.loads("[" * 101 + "]" * 101)}},
        {"pictures": 1},
        {"warnings": "cut"},
        {"warnings": [1]},
        {"warnings": ["cut"] * 101},
        {"blocks": {}},
        {"blocks": ["[0,1]"]},
        {"blocks": [BLOCK[:4]]},
        {"blocks": [[-1, *BLOCK[1:]]]},
        {"blocks": [[0.0, *BLOCK[1:]]]},
        {"blocks": [[False, *BLOCK[1:]]]},
        {"blocks": [[13, *BLOCK[1:]]]},
        {"blocks": [[0, 20, *BLOCK[2:]]]},
        {"blocks": [BLOCK, BLOCK]},
        {"blocks": [[*BLOCK[:2], "x" * 201, *BLOCK[3:]]]},
        {"blocks": [[*BLOCK[:3], "Plan", None]]},
        {"blocks": [[*BLOCK[:3], ["Plan"] * 101, None]]},
        {"blocks": [[*BLOCK[:4], ["line", "", 3, 0]]]},
        {"blocks": [[*BLOCK[:4], [["page"], "", 3, 0]]]},
        {"blocks": [[*BLOCK[:4], ["page", "", 3, 2]]]},
        {"blocks": [[*BLOCK[:4], ["page", "", -1, 0]]]},
        {"blocks": [[*BLOCK[:4], ["page", "x" * 4_097, 1, 1]]]},
        {"blocks": [[0, 0, "", [], None]] * 50_001},
        {"links": [["Soil.md", 20, "", "", False, ""]]},
        {"links": [["Soil.md", 3, "", "", 1, ""]]},
        {"links": [[None, 3, "", "", False, ""]]},
        {"links": [["Soil.md", 3, "", "", False, "x" * 101]]},
        {"links": [LINK] * 20_001},
    ],
    ids=lambda changed: json.dumps(changed)[:60],
)
def test_an_answer_with_a_value_that_is_none_of_a_document_is_refused(changed):
    assert received({"document": TRUE}).title == "Plan"
    with pytest.raises(ParserDiedError, match=r"'a\.pdf' could not be read: .* not valid"):
        received({"document": TRUE | changed})


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"", TEXT),
        (b"words", TEXT),
        (b"\xff", TEXT),
        (b"[]", TEXT),
        (b"{}", TEXT),
        (b"[" * 100_000, TEXT),
        (b"1" * 5_000, TEXT),
        ({"document": None}, TEXT),
        ({"document": {k: v for k, v in TRUE.items() if k != "links"}}, TEXT),
        ({"document": TRUE}, b"\xff" * 30),
        ({"document": TRUE}, b"\xed\xa0\x80" * 30),
        ({"error": 1}, ""),
        ({"error": "\ud800"}, ""),
    ],
    ids=range(13),
)
def test_an_answer_that_is_no_answer_is_refused(head, text):
    with pytest.raises(ParserDiedError, match=r"'a\.pdf' could not be read: .* not valid"):
        received(head, text)


def test_the_reason_of_a_reader_is_one_line_about_the_file_that_was_asked_for():
    for said, expected in {
        "'a.pdf' is encrypted; save a copy without a password": "'a.pdf' is encrypted; save a copy without a password",
        "'a.pdf', line 2: it ends": "'a.pdf', line 2: it ends",
        "'a.pdf': it ends": "'a.pdf': it ends",
        "'b.pdf' is\n encrypted": "'a.pdf' cannot be read: 'b.pdf' is encrypted",
        "x" * 2_000: f"'a.pdf' cannot be read: {'x' * 1_000}",
    }.items():
        with pytest.raises(DocumentError) as raised:
            received({"error": said})
        assert str(raised.value) == expected


def test_too_little_memory_is_an_error_of_its_own():
    with pytest.raises(ParserMemoryError, match=r"'a\.pdf' needs too much memory"):
        received({"memory": True})


@pytest.mark.parametrize("sizes", [(wire.MOST_HEAD + 1, 0), (0, wire.MOST_TEXT + 1), (2**32 - 1, 2**64 - 1)])
def test_an_answer_that_is_too_large_is_refused_before_it_comes(sizes):
    assert wire.sizes("a.pdf", wire.PREFIX.pack(wire.MOST_HEAD, wire.MOST_TEXT)) == (
        wire.MOST_HEAD,
        wire.MOST_TEXT,
    )
    with pytest.raises(DocumentError, match=r"'a\.pdf' has more parts or text than can be indexed"):
        wire.sizes("a.pdf", wire.PREFIX.pack(*sizes))


def test_an_answer_of_countless_small_values_takes_little_memory():
    head = b'{"document":[' + b"{}," * 2_600_000 + b"{}]}"
    assert len(head) < wire.MOST_HEAD
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match="more parts than can be indexed"):
            received(head)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_document_longer_than_an_answer_is_cut_with_a_warning():
    builder = Builder()
    for number in range(wire.MOST_BLOCKS + 5):
        builder.add(str(number), label="a label", headings=("a heading",) * 3)
    for _ in range(wire.MOST_LINKS + 1):
        builder.link(DocumentLink("Soil.md", 0))
    document = sent(
        builder.document(title="t" * 2_000, metadata={"x": "y" * 70_000}, warnings=("own",) * 200)
    )
    assert (len(document.blocks), len(document.links)) == (wire.MOST_BLOCKS, wire.MOST_LINKS)
    assert document.metadata == {"private": True}
    assert len(document.warnings) == 100
    assert document.warnings[:4] == (
        "only the first 50,000 of 50,005 parts were read",
        "only the first 20,000 of 20,001 links were read",
        "its metadata has more than 65,536 bytes and was left out, so it counts as private",
        "own",
    )


def test_text_that_is_not_unicode_keeps_its_length():
    document = sent(Document("a\ud800b", (Block(0, 3, "\udcff"),), metadata={"x": "\ud800"}))
    assert (document.text, document.blocks[0].label, document.metadata) == ("a?b", "?", {"x": "?"})
