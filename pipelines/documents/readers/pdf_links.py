"""Find the links of a PDF's page to files beside it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pypdfium2
from pypdfium2 import raw

from pipelines.documents.addresses import file_at

_MOST_LINKS = 1_000
_LONGEST_ADDRESS = 4_096


def links_on(pdf: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Iterator[tuple[str, str]]:
    """Yield the target and the fragment of each link to a relative address or to another file, as written."""
    position, link = ctypes.c_int(0), raw.FPDF_LINK()
    for _ in range(_MOST_LINKS):
        if not raw.FPDFLink_Enumerate(page, ctypes.byref(position), ctypes.byref(link)):
            return
        where = file_at(_address(pdf, raw.FPDFLink_GetAction(link)))
        if where is not None:
            yield where


def _address(pdf: pypdfium2.PdfDocument, action: raw.FPDF_ACTION) -> str:
    """Return the address or file to which an action leads; empty if it leads to a place in this PDF."""
    buffer = ctypes.create_string_buffer(_LONGEST_ADDRESS)
    kind = raw.FPDFAction_GetType(action)
    if kind == raw.PDFACTION_URI:
        raw.FPDFAction_GetURIPath(pdf, action, buffer, _LONGEST_ADDRESS)
        return buffer.value.decode("utf-8", "replace")
    if kind in {raw.PDFACTION_REMOTEGOTO, raw.PDFACTION_LAUNCH}:
        raw.FPDFAction_GetFilePath(action, buffer, _LONGEST_ADDRESS)
        return buffer.value.decode("utf-8", "replace")
    return ""
