"""A PDF with scanned pages is read twice: by the reader of every PDF, and by OCR in a process of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader

from pipelines.cache.verify import chunks_of
from pipelines.documents import sandbox as process
from pipelines.documents import sandbox as sandboxes
from pipelines.documents.read import options_of
from pipelines.documents.sandbox import Sandbox
from pipelines.domains import load
from pipelines.formats import SCANNED
from pipelines.indexing.ingest import index_apart
from pipelines.indexing.parse import ApartParser
from tests.pipelines.documents.scans import Scan, pdf_of

TYPED = ("The river carries what the rain has washed away.",)
PRINTED = ("The harvest was late in the northern valleys,", "because the frost came in April.")
MIXED = pdf_of(TYPED, Scan(PRINTED))
NOT_INSTALLED = replace(SCANNED, needs=("no_such_package",))
installed = pytest.mark.skipif(SCANNED.lacks is not None, reason="everindex[ocr] is not installed")


@pytest.fixture
def sandbox():
    one = Sandbox()
    yield one
    one.close()


def places(document):
    return [block.place.shown() for block in document.blocks]


@installed
def test_scanned_pages_are_read_without_rights_and_nothing_is_left_out(sandbox):
    document = sandbox.read("Report.pdf", MIXED, {})
    assert document.text == "\n\n".join([TYPED[0], "\n".join(PRINTED)])
    assert places(document) == ["p. 1", "p. 2"]
    assert document.warnings == ()


def draw_square(canvas):
    """Draw a picture without letters, of which Tesseract says that it has too few."""
    square = Image.new("L", (8, 8), 0)
    canvas.drawImage(ImageReader(square), 0, 0, 560, 560)


@installed
def test_a_picture_without_letters_keeps_no_other_scanned_page_from_being_read(sandbox):
    document = sandbox.read("Report.pdf", pdf_of(Scan(PRINTED), draw_square), {})
    assert document.text == "\n".join(PRINTED)
    assert document.warnings == ("no text (scanned) on page 2",)


@installed
def test_what_reads_scanned_pages_is_loaded_for_them_alone(sandbox, monkeypatch):
    started = []

    class Noted(process.ReaderProcess):
        def __init__(self, package, readers):
            super().__init__(package, readers)
            started.append(sorted(self.readers))

    monkeypatch.setattr(sandboxes, "ReaderProcess", Noted)
    for data in (pdf_of(TYPED), pdf_of(TYPED), MIXED, pdf_of(TYPED)):
        sandbox.read("Report.pdf", data, {})
    assert started == [["pdf"], ["scanned_pdf"], ["pdf"]]


@installed
def test_pages_with_text_are_kept_when_scanned_ones_take_too_long(sandbox, monkeypatch):
    monkeypatch.setattr(sandboxes, "MOST_SECONDS_WITH_SCANS", 0.01)
    document = sandbox.read("Report.pdf", MIXED, {})
    assert (document.text, places(document)) == (TYPED[0], ["p. 1"])
    assert document.warnings == (
        "no text (scanned) on page 2",
        "scanned pages were not read: 'Report.pdf' took longer to read than 0.01 s; split it",
    )


def test_without_ocr_the_other_pages_are_read(sandbox, monkeypatch):
    monkeypatch.setattr(sandboxes, "SCANNED", NOT_INSTALLED)
    document = sandbox.read("Report.pdf", MIXED, {})
    assert places(document) == ["p. 1"]
    assert document.warnings[0].startswith("no text (scanned) on page 2")


def test_a_domain_is_indexed_again_when_its_scanned_pages_can_be_read(tmp_path, monkeypatch):
    (tmp_path / "_domains.yaml").write_text("a: {path: a, formats: [md]}\nb: {path: b, formats: [md, pdf]}\n")
    domains = {domain.slug: domain for domain in load(tmp_path).domains}
    seen = []
    for reader in (replace(SCANNED, needs=()), NOT_INSTALLED):
        monkeypatch.setattr("pipelines.documents.read.SCANNED", reader)
        seen.append([options_of(domains[slug]) for slug in "ab"])
    assert seen == [[{}, {"pdf": {"scanned": "scanned_pdf"}}], [{}, {}]]


@installed
def test_a_scanned_page_is_a_passage_at_its_page(house):
    house.write("_domains.yaml", "vault:\n  legacy: true\n  formats: [md, pdf]\n")
    house.write("Report.pdf", MIXED)
    house.notice("Report.pdf")
    index_apart(house.cache, replace(house.ingest, apart=True), ApartParser())
    house.index()
    found = [
        (chunk.text, chunk.place.shown()) for chunk in chunks_of(house.cache, "Report.pdf") if chunk.place
    ]
    assert ("\n".join(PRINTED), "p. 2") in found
