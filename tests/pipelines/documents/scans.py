"""PDF files with scanned pages: pictures of pages that were printed."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pypdfium2
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

_PER_POINT = 150 / 72


@dataclass(frozen=True)
class Scan:
    """A picture of a page with these lines, `turned` by degrees; those of `beside` are in a second column."""

    lines: tuple[str, ...]
    turned: int = 0
    beside: tuple[str, ...] = ()


def pdf_of(*pages):
    """Return a PDF; a page is a scan, lines of text, or a function that draws it."""
    file = io.BytesIO()
    canvas = Canvas(file, invariant=1)
    for page in pages:
        canvas.setPageSize(A4)
        if isinstance(page, Scan):
            _draw_picture(canvas, page)
        elif callable(page):
            page(canvas)
        else:
            _draw_lines(canvas, page)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def _draw_picture(canvas, scan):
    def printed(own):
        _draw_lines(own, scan.lines)
        _draw_lines(own, scan.beside, 340)

    with pypdfium2.PdfDocument(pdf_of(printed)) as document:
        picture = document[0].render(scale=_PER_POINT).to_pil().convert("L").rotate(scan.turned, expand=True)
    size = picture.width / _PER_POINT, picture.height / _PER_POINT
    canvas.setPageSize(size)
    canvas.drawImage(ImageReader(picture), 0, 0, *size)


def _draw_lines(canvas, lines, left=60):
    for row, text in enumerate(lines):
        canvas.drawString(left, 760 - 15 * row, text)
