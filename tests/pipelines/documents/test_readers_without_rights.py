"""The readers of tables and of Office files need nothing that their process may not do."""

from __future__ import annotations

import io
import zipfile

import docx
import openpyxl
import pptx
import pytest

from pipelines.documents.readers import delimited, sheets, slides, word
from pipelines.documents.sandbox import Sandbox
from pipelines.errors import DocumentError, ParserDiedError


def saved(document):
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def workbook():
    book = openpyxl.Workbook()
    for number in range(30):
        book.active.append([f"row {number}", number / 4])
    return saved(book)


def presentation():
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = "Why now"
    return saved(deck)


def report():
    document = docx.Document()
    document.add_heading("Costs", 1)
    document.add_paragraph("They rose.")
    return saved(document)


FILES = {
    "a.csv": (delimited, "Ort;Größe\nKöln;1".encode("cp1252")),
    "c.csv": (delimited, "Город;Погода\nМосква;Сегодня хорошая погода".encode("cp1251")),
    "d.csv": (delimited, "場所;天気\n東京;今日は天気がいいので".encode("cp932")),
    "b.tsv": (delimited, "Ort\tGröße\nKöln\t1".encode("utf-16")),
    "a.xlsx": (sheets, workbook()),
    "a.pptx": (slides, presentation()),
    "a.docx": (word, report()),
}


@pytest.fixture(scope="module")
def sandbox():
    box = Sandbox()
    yield box
    box.stop()


@pytest.mark.parametrize("path", FILES)
def test_a_document_is_read_there_as_it_is_here(sandbox, path):
    reader, data = FILES[path]
    document = sandbox.read(path, data, {})
    assert document == reader.read(path, data, {})
    assert document.blocks


def test_a_part_that_takes_all_memory_ends_its_process_alone(sandbox):
    """A text of 190 MB in a cell is within the limits of the archive, and not within those of the process."""
    _, data = FILES["a.xlsx"]
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            content = old.read(part)
            if part == "xl/worksheets/sheet1.xml":
                content = content.replace(b"<t>row 3</t>", b"<t>" + b"x " * 95_000_000 + b"</t>")
            new.writestr(part, content)
    with pytest.raises((DocumentError, ParserDiedError)):
        sandbox.read("a.xlsx", out.getvalue(), {})
    assert sandbox.read("a.xlsx", data, {}).blocks
