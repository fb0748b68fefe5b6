"""Read a PDF that has scanned pages: as every other, and those pages by OCR."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pypdfium2

from pipelines.documents.document import Document
from pipelines.documents.limits import MOST_SCANNED_PAGES, MOST_SCANNING_SECONDS
from pipelines.documents.readers.ocr import text_of
from pipelines.documents.readers.pdf import read_pages


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001  (as every reader)
    """Return a block per page that has text or whose text is recognised.

    Raises DocumentError if the file is encrypted or damaged.
    """
    left = MOST_SCANNED_PAGES
    # Not the clock's: a machine that is busy must not read fewer pages than an idle one.
    until = time.process_time() + MOST_SCANNING_SECONDS

    def recognize(page: pypdfium2.PdfPage) -> str | None:
        nonlocal left
        if not left or time.process_time() >= until:
            return None
        left -= 1
        return text_of(page)

    return read_pages(path, data, recognize)
