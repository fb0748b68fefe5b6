"""Scanned pages are read by OCR, as the pages that they are."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from reportlab.lib.utils import ImageReader

from pipelines.documents.readers.pdf import read as read_without_ocr
from pipelines.errors import DocumentError
from tests.pipelines.documents.blocks import blocks_of
from tests.pipelines.documents.scans import Scan, pdf_of

scanned_pdf = pytest.importorskip(
    "pipelines.documents.readers.scanned_pdf", reason="everindex[ocr] is not installed", exc_type=ImportError
)

TYPED = ("The river carries what the rain has washed away.",)
HARVEST = (
    "The harvest was late in the northern valleys,",
    "because frost came in April and the rain did",
    "not stop before the middle of June.",
)
NOTICE = (
    "Größere Änderungen müssen schriftlich vereinbart",
    "werden; mündliche Absprachen genügen nicht.",
)


def read(data):
    return scanned_pdf.read("Scan.pdf", data, {})


def texts(data):
    return [(text, place) for text, _, place in blocks_of(read(data))]


def blank(_canvas):
    pass


def picture(*size):
    """Return what draws a picture without text, in points."""

    def draw(canvas):
        canvas.setPageSize(size)
        noise = Image.effect_noise((400, 400), 90)
        canvas.drawImage(ImageReader(noise), 0, 0, *size)

    return draw


def test_scanned_pages_keep_their_place_among_others():
    data = pdf_of(TYPED, Scan(HARVEST), TYPED, blank, Scan(NOTICE))
    assert texts(data) == [
        (TYPED[0], "p. 1"),
        ("\n".join(HARVEST), "p. 2"),
        (TYPED[0], "p. 3"),
        ("\n".join(NOTICE), "p. 5"),
    ]
    assert read(data).warnings == ("no text on page 4",)
    assert [place for _, _, place in blocks_of(read_without_ocr("Scan.pdf", data, {}))] == ["p. 1", "p. 3"]


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_page_that_was_put_on_the_scanner_the_wrong_way_round_is_read(turned):
    lines = HARVEST * 8  # of few lines it does not see the direction
    ((text, place),) = texts(pdf_of(Scan(lines, turned)))
    assert (text.split(), place) == (" ".join(lines).split(), "p. 1")


def test_columns_are_read_one_after_the_other():
    left = ("Frost came in April, and the", "harvest was late this year.") * 6
    right = ("Prices rose by a third, which", "nobody had expected so soon.") * 6
    ((text, _),) = texts(pdf_of(Scan(left, beside=right)))
    assert text.split() == " ".join(left + right).split()


def test_words_that_are_divided_at_the_end_of_a_line_are_rejoined():
    ((text, _),) = texts(pdf_of(Scan(("This page carries the infor-", "mation that the other one lacks."))))
    assert text.startswith("This page carries the information")


def test_pictures_without_text_give_none():
    document = read(pdf_of(picture(400, 600), picture(2, 14_000), TYPED))
    assert [place for _, _, place in blocks_of(document)] == ["p. 3"]
    assert document.warnings == ("no text (scanned) on pages 1-2",)


def test_the_first_pages_are_read_and_the_others_are_named(monkeypatch):
    monkeypatch.setattr(scanned_pdf, "MOST_SCANNED_PAGES", 2)
    document = read(pdf_of(*[Scan(HARVEST)] * 4, TYPED))
    assert [place for _, _, place in blocks_of(document)] == ["p. 1", "p. 2", "p. 5"]
    assert document.warnings == (
        "only the first 2 of 4 scanned pages were read",
        "no text (scanned) on pages 3-4",
    )


def test_no_page_is_begun_when_the_time_is_over(monkeypatch):
    monkeypatch.setattr(scanned_pdf, "MOST_SCANNING_SECONDS", 0.0)
    document = read(pdf_of(Scan(HARVEST), TYPED))
    assert [place for _, _, place in blocks_of(document)] == ["p. 2"]
    assert document.warnings[0] == "only the first 0 of 1 scanned pages were read"


def test_a_truncated_file_is_refused():
    with pytest.raises(DocumentError, match=r"^'Scan.pdf' is damaged or not a PDF"):
        read(pdf_of(Scan(HARVEST))[:2_000])


VALID = pdf_of(Scan(NOTICE[:1]), TYPED)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_a_scan_with_any_damage_gives_a_document_or_a_reason(data):
    damaged = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 20), label="flips")):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DocumentError):
        read(bytes(damaged)).text.encode()
