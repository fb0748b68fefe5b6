import io
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from reportlab.lib import pdfencrypt
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

from pipelines.documents.read import note_of
from pipelines.documents.readers.pdf import read, tidy
from pipelines.errors import DocumentError
from pipelines.notes.chunk import chunk_note, chunk_settings
from tests.pipelines.documents.blocks import blocks_of, links_of
from tests.pipelines.documents.pdf_files import FONT, page_with, words, written
from tests.pipelines.documents.scans import Scan, pdf_of

STYLES = getSampleStyleSheet()
CABBAGE = "Cabbage came first, because “Größe” counts."


def drawn(*pages, **options):
    """Return a PDF whose pages are functions that draw on a canvas, or lines."""
    file = io.BytesIO()
    canvas = Canvas(file, invariant=1, **options)
    for page in pages:
        if callable(page):
            page(canvas)
        else:
            lines(canvas, *page)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def lines(canvas, *texts):
    for row, text in enumerate(texts):
        canvas.drawString(72, 780 - 14 * row, text)


def flowing(*parts, **properties):
    file = io.BytesIO()
    SimpleDocTemplate(file, invariant=1, **properties).build(list(parts))
    return file.getvalue()


# Documents


def chapter(canvas):
    canvas.setTitle("Soil and water")
    canvas.setAuthor("Ana Lima")
    for key, title, level in [("one", "Chapter 1", 0), ("rain", "Rain", 1), ("wind", "Wind", 1)]:
        canvas.bookmarkPage(key)
        canvas.addOutlineEntry(title, key, level)
    lines(
        canvas, "Rain carries the informa-", "tion that E-", "Mail did not, of 1990-", "95.", "", "It fell."
    )
    canvas.linkURL("Field%20notes.pdf?view=1#page=2", (72, 700, 200, 720))
    canvas.linkURL("https://example.org/a.pdf", (72, 700, 200, 720))
    canvas.linkAbsolute("within", "one", (72, 700, 200, 720))


def last_chapter(canvas):
    canvas.bookmarkPage("three")
    canvas.addOutlineEntry("Chapter 2", "three", 0)
    lines(canvas, "The river takes what the field gave.")


def test_a_page_is_a_block_under_the_headings_of_the_outline():
    document = read("Soil.pdf", drawn(chapter, ["Wind carries the seeds away."], last_chapter), {})
    assert blocks_of(document) == [
        (
            "Rain carries the information that E-Mail did not, of 1990-\n95.\nIt fell.",
            ("Chapter 1", "Rain"),
            "p. 1",
        ),
        ("Wind carries the seeds away.", ("Chapter 1", "Wind"), "p. 2"),
        ("The river takes what the field gave.", ("Chapter 2",), "p. 3"),
    ]
    assert (document.title, document.warnings) == ("Soil and water", ())
    assert document.metadata == {"author": "Ana Lima", "date": "2000-01-01"}
    assert [link[:4] for link in links_of(document)] == [("Field notes.pdf", "page=2", "", False)]


def test_flowing_text_and_tables_come_in_reading_order():
    data = flowing(
        Paragraph("Harvest", STYLES["Heading1"]),
        Paragraph(f"{CABBAGE} " * 3, STYLES["Normal"]),
        Table([["Crop", "Weight"], ["Cabbage", "12 kg"]]),
        PageBreak(),
        Paragraph("Beans came later than the year before.", STYLES["Normal"]),
        title="harvest.docx",
        author="anonymous",
    )
    document = read("Harvest.pdf", data, {})
    assert blocks_of(document) == [
        (
            f"Harvest\n{CABBAGE} {CABBAGE}\n{CABBAGE}\nCrop Weight\nCabbage 12 kg",
            (),
            "p. 1",
        ),
        ("Beans came later than the year before.", (), "p. 2"),
    ]
    assert document.title == ""
    assert document.metadata == {"date": "2000-01-01"}


def test_a_note_of_it_has_the_page_of_each_passage():
    note = note_of("a/Soil.pdf", read("a/Soil.pdf", drawn(chapter, ["Wind carries the seeds away."] * 4), {}))
    assert (note.title, note.author, note.published_at) == ("Soil and water", "Ana Lima", "2000-01-01")
    (chunk,) = chunk_note(note, chunk_settings(256, None, None))
    assert (chunk.section, chunk.heading_path, chunk.place.shown()) == ("Wind", ("Chapter 1", "Wind"), "p. 2")


@pytest.mark.parametrize(
    ("stated", "title"),
    [
        ("Soil and water", "Soil and water"),
        ("  A   title\nof two lines ", "A title of two lines"),
        ("Version 2.0 of the plan", "Version 2.0 of the plan"),
        ("report_final.docx", ""),
        ("Microsoft Word - Plan for May", ""),
        ("untitled", ""),
        ("(anonymous)", ""),
        (" - ", ""),
    ],
)
def test_a_stated_title_counts_unless_it_is_a_file_name_or_a_placeholder(stated, title):
    def page(canvas):
        canvas.setTitle(stated)
        lines(canvas, "Words on a page that can be read.")

    assert read("a.pdf", drawn(page), {}).title == title


# Scans


def test_pages_without_text_are_named():
    text = ["A page with enough text on it."]
    document = read("Scan.pdf", drawn(text, [], text, [], [], [], text, []), {})
    assert [place for _, _, place in blocks_of(document)] == ["p. 1", "p. 3", "p. 7"]
    assert document.warnings == ("no text on pages 2, 4-6, 8",)
    typed, scan = tuple(text), Scan(tuple(text))
    both = read("Scan.pdf", pdf_of(typed, scan, (), scan), {})
    assert [warning.partition(";")[0] for warning in both.warnings] == [
        "no text (scanned) on pages 2, 4",
        "no text on page 3",
    ]


def test_a_page_of_a_few_characters_is_no_scan():
    document = read("Part.pdf", drawn(["Chapter 1"]), {})
    assert (blocks_of(document), document.warnings) == ([("Chapter 1", (), "p. 1")], ())
    (chunk,) = chunk_note(note_of("Part.pdf", document), chunk_settings(256, None, None))
    assert chunk.text == "Chapter 1"


def test_a_scan_with_a_page_number_typed_on_it_is_a_scan():
    def page(canvas):
        canvas.drawImage(ImageReader(Image.new("L", (8, 8))), 0, 0, 560, 560)
        lines(canvas, "12")

    document = read("Scan.pdf", drawn(page, ["A page with enough text on it."]), {})
    assert [place for _, _, place in blocks_of(document)] == ["p. 2"]
    assert document.warnings[0].startswith("no text (scanned) on page 1")


def test_a_file_without_any_text_says_so_once():
    document = read("Scan.pdf", drawn([], [], []), {})
    assert (document.blocks, document.warnings) == ((), ("no text",))


@pytest.mark.parametrize("extra", [None, "ocr"])
def test_a_page_that_is_a_picture_names_the_extra_that_reads_it(monkeypatch, extra):
    monkeypatch.setattr("pipelines.documents.readers.pdf._EXTRA", extra)
    typed = ("A page with enough text on it.",)
    document = read("Scan.pdf", pdf_of(typed, Scan(typed)), {})
    hint = f"; everindex[{extra}] reads such pages" if extra else ""
    assert (document.has_pictures, document.warnings) == (True, (f"no text (scanned) on page 2{hint}",))
    blank = read("Scan.pdf", pdf_of(typed, ()), {})
    assert (blank.has_pictures, blank.warnings) == (False, ("no text on page 2",))


# Words at the ends of lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("informa-\r\ntion", "information"),
        ("informa\x02tion and E\x02Mail", "information and E-Mail"),
        ("infor\ufffemation\x02", "information-"),
        ("soft\u00ad\nhyphen", "softhyphen"),
        ("EU-\nweit, 1990-\n95, x -\ny", "EU-\nweit, 1990-\n95, x -\ny"),
        ("one  \r\n\r\n\r\n\r\ntwo\rthree\x00\x07", "one\n\ntwo\nthree"),
    ],
)
def test_words_are_rejoined_where_both_parts_are_lower_case(text, expected):
    assert tidy(text) == expected


# Files that cannot be read


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is damaged or not a PDF"),
        (b"%PDF-1.7\n", "is damaged or not a PDF"),
        (b"PK\x03\x04 a document by another name", "is damaged or not a PDF"),
        (b"\0" * 2_000, "is damaged or not a PDF"),
        (drawn(["Half of this is lost."] * 5)[:900], "is damaged or not a PDF"),
        (drawn(["Secret."], encrypt="secret"), "is encrypted; save a copy without a password"),
        (
            written(b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>"),
            "has no pages",
        ),
    ],
)
def test_a_damaged_or_encrypted_file_is_refused_with_its_reason(data, reason):
    with pytest.raises(DocumentError, match=rf"^'a\.pdf' {reason}"):
        read("a.pdf", data, {})


def test_a_file_that_only_its_owner_may_change_is_read():
    protection = pdfencrypt.StandardEncryption("", ownerPassword="owner")
    data = drawn(["Anybody may read this line."], encrypt=protection)
    assert [text for text, _, _ in blocks_of(read("a.pdf", data, {}))] == ["Anybody may read this line."]


def test_an_outline_that_runs_in_a_circle_and_a_page_that_is_missing_do_no_harm():
    data = written(
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 3 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R 99 0 R] /Count 2 >>",
        b"<< /First 5 0 R /Last 5 0 R /Count 1 >>",
        page_with(6, 7),
        b"<< /Title (Round) /Parent 5 0 R /First 5 0 R /Next 5 0 R /Dest [4 0 R /Fit] >>",
        words(b"A page that is in its place."),
        FONT,
    )
    document = read("a.pdf", data, {})
    assert blocks_of(document) == [("A page that is in its place.", ("Round",), "p. 1")]
    assert document.warnings == ("damaged and left out: page 2",)


# Ceilings


def test_a_file_of_3000_pages_is_cut_at_2000():
    document = read("Long.pdf", drawn(*[["This is one of very many pages."]] * 3_000), {})
    assert len(document.blocks) == 2_000
    assert document.warnings == ("only the first 2,000 of 3,000 pages were read",)


def test_text_is_cut_at_its_ceiling(monkeypatch):
    monkeypatch.setattr("pipelines.documents.readers.pdf.MOST_CHARACTERS", 50)
    document = read("Long.pdf", drawn(*[["This is one of very many pages."]] * 3), {})
    assert [len(text) for text, _, _ in blocks_of(document)] == [31, 19]
    assert document.warnings == ("only the first 50 characters were read, up to page 2",)


VALID = drawn(chapter, ["Wind carries the seeds away."], last_chapter)


@settings(max_examples=40)
@given(st.data())
def test_a_file_with_any_damage_gives_a_document_or_a_reason(data):
    damaged = bytearray(VALID)
    for _ in range(data.draw(st.integers(0, 20), label="flips")):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    length = data.draw(st.sampled_from([len(damaged), len(damaged) - 200, len(damaged) // 2]), label="length")
    with suppress(DocumentError):
        read("a.pdf", bytes(damaged[:length]), {}).text.encode()
