"""Read a PDF: a block per page, under the headings of its outline.

A page without text that shows something is a picture. It is left out, unless the caller can recognise its text.
"""

from __future__ import annotations

import ctypes
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import groupby, islice

import pypdfium2
from pypdfium2 import raw

from pipelines.documents.document import (
    MOST_CHARACTERS,
    MOST_PAGES,
    Builder,
    Document,
    DocumentLink,
    OpenHeadings,
    file_at,
    keywords,
    tags_metadata,
)
from pipelines.errors import DocumentError
from pipelines.formats import SCANNED
from pipelines.model import Locator

# Find the links of a PDF's page to files beside it.


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


Recognize = Callable[[pypdfium2.PdfPage], str | None]
"""Returns the text on a page that is a picture, or None if no more pages are to be read."""

LEAST_ON_A_PAGE = 20
"""A picture of a page with fewer characters counts as one without text: a scan has a page number at most."""

_MOST_BOOKMARKS = 10_000
_DEEPEST_BOOKMARK = 20
# PDFium puts U+0002, in other functions U+FFFE, for a hyphen at the end of a line and the end of that line.
_DIVIDED = re.compile(r"([^\W\d_])(?:[-\u00ad\u2010]\n|[\x02\ufffe])([^\W\d_])")
_HYPHENS = str.maketrans("\x02\ufffe", "--")
_UNSTORABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\uffff\ud800-\udfff]")
_END_OF_LINE = re.compile(r"[^\S\n]+\n")
_BLANK_LINES = re.compile(r"\n{3,}")
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d)")
# A file name or what programs write instead of a title.
_NO_TITLE = re.compile(r"\.\w{2,5}$|^untitled\b|^Microsoft \w+ - |^\W*$", re.IGNORECASE)
_NOTHING = {"anonymous", "unknown", "unspecified", ""}
_PICTURES = {raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_FORM}
_EXTRA = SCANNED.lacks  # now, because a process without rights cannot look for packages
_REASONS = {
    raw.FPDF_ERR_PASSWORD: "is encrypted; save a copy without a password",
    raw.FPDF_ERR_SECURITY: "is protected in a way that cannot be read; save a copy without protection",
}


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001  (as every reader)
    """Return a block per page that has text, with the creation date and author that the file states.

    Raises DocumentError if the file is encrypted or damaged.
    """
    return read_pages(path, data)


def read_pages(path: str, data: bytes, recognize: Recognize | None = None) -> Document:
    """Return what `read` does, and the text that `recognize` finds on the first pages that are pictures.

    Raises DocumentError if the file is encrypted or damaged, and what `recognize` raises.
    """
    # PdfDocument(data) would take the reason of an earlier failure for that of a file without pages.
    loaded = raw.FPDF_LoadMemDocument64(data, len(data), None)
    if not loaded:
        reason = _REASONS.get(raw.FPDF_GetLastError(), "is damaged or not a PDF; restore it")
        raise DocumentError(f"{path!r} {reason}")
    with pypdfium2.PdfDocument(loaded) as pdf:
        if not len(pdf):
            raise DocumentError(f"{path!r} has no pages; restore it")
        reading = _PdfReader(pdf, recognize)
        for number in range(1, min(len(pdf), MOST_PAGES) + 1):
            reading.add_page(number)
            if reading.is_full:
                break
        title, metadata = _properties(pdf)
        document = reading.builder.document(
            title=title, metadata=metadata, warnings=tuple(reading.warnings())
        )
        return replace(document, has_pictures=reading.has_pictures)


class _PdfReader:
    """Collects the pages of a PDF."""

    def __init__(self, pdf: pypdfium2.PdfDocument, recognize: Recognize | None) -> None:
        self.builder = Builder()
        self.is_full = False
        self._pdf = pdf
        self._recognize = recognize
        self._headings = OpenHeadings()
        self._outline = _outline(pdf)
        self._last = 0
        self._scanned: list[int] = []
        self._blank: list[int] = []
        self._damaged: list[int] = []
        self._pictures = self._recognized = 0

    @property
    def has_pictures(self) -> bool:
        """Whether pages without text are pictures."""
        return self._pictures > 0

    def add_page(self, number: int) -> None:
        """Add a page as far as there is room for its text."""
        self._last = number
        headings = self._headings.open_all(self._outline.get(number, ()))
        try:
            text, links, is_scan = self._content(number - 1)
        except pypdfium2.PdfiumError:
            self._damaged.append(number)
            return
        if is_scan or not text:
            (self._scanned if is_scan else self._blank).append(number)
            return
        room = MOST_CHARACTERS - self.builder.size
        self.is_full = len(text) > room
        label = headings[-1] if headings else ""
        start = self.builder.add(text[:room], label, headings, Locator("page", "", number, number))
        for target, fragment in links:
            self.builder.link(DocumentLink(target, start, fragment))

    def _content(self, index: int) -> tuple[str, list[tuple[str, str]], bool]:
        """Return the text of a page, its links to files beside the PDF, and whether it is a scan that was not read.

        A link is its target and fragment.
        """
        with closing(self._pdf[index]) as page:
            with closing(page.get_textpage()) as textpage:
                text = tidy(textpage.get_text_bounded())
            is_scan = len(text) < LEAST_ON_A_PAGE and _is_picture(page)
            if is_scan and (recognized := self._recognized_on(page)):
                text, is_scan = recognized, len(recognized) < LEAST_ON_A_PAGE
            return text, list(links_on(self._pdf, page)), is_scan

    def _recognized_on(self, page: pypdfium2.PdfPage) -> str:
        """Return the text that was recognised on a picture, if any."""
        self._pictures += 1
        text = self._recognize(page) if self._recognize else None
        if text is None:
            return ""
        self._recognized += 1
        return tidy(text)

    def warnings(self) -> Iterator[str]:
        """Yield what was left out."""
        if self.is_full:
            yield f"only the first {MOST_CHARACTERS:,} characters were read, up to page {self._last:,}"
        elif self._last < len(self._pdf):
            yield f"only the first {self._last:,} of {len(self._pdf):,} pages were read"
        if self._damaged:
            yield f"damaged and left out: {_pages(self._damaged)}"
        if self._recognize and self._recognized < self._pictures:
            yield f"only the first {self._recognized:,} of {self._pictures:,} scanned pages were read"
        cure = f"; everindex[{_EXTRA}] reads such pages" if _EXTRA else ""
        for pages, what in ((self._scanned, f" (scanned){{}}{cure}"), (self._blank, "{}")):
            if pages:
                where = "" if len(pages) == self._last else f" on {_pages(pages)}"
                yield f"no text{what.format(where)}"


def _is_picture(page: pypdfium2.PdfPage) -> bool:
    """Say whether a page has a picture, or a form, in which some programs wrap it."""
    objects = (raw.FPDFPage_GetObject(page, index) for index in range(raw.FPDFPage_CountObjects(page)))
    return any(raw.FPDFPageObj_GetType(one) in _PICTURES for one in objects)


def tidy(text: str) -> str:
    """Return the text of a page with words rejoined that were divided at the end of a line."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _UNSTORABLE.sub("", _DIVIDED.sub(_rejoined, text).translate(_HYPHENS))
    return _BLANK_LINES.sub("\n\n", _END_OF_LINE.sub("\n", text)).strip()


def _rejoined(divided: re.Match[str]) -> str:
    before, after = divided.groups()
    # `E-Mail` has a hyphen of its own.
    return before + after if before.islower() and after.islower() else divided[0]


def _outline(pdf: pypdfium2.PdfDocument) -> Mapping[int, list[tuple[int, str]]]:
    """Return the level and title of the bookmarks that lead to each page (from 1), in order."""
    found = defaultdict(list)
    for bookmark in islice(pdf.get_toc(max_depth=_DEEPEST_BOOKMARK), _MOST_BOOKMARKS):
        target = bookmark.get_dest()
        index = target.get_index() if target else None
        title = _readable(bookmark.get_title)
        if index is not None and title:
            found[index + 1].append((bookmark.level, title))
    return found


def _properties(pdf: pypdfium2.PdfDocument) -> tuple[str, dict[str, object]]:
    """Return the title that the file states, if it is one, and its author, date of creation and keywords."""
    title, author, created, stated = (
        _readable(partial(pdf.get_metadata_value, name))
        for name in ("Title", "Author", "CreationDate", "Keywords")
    )
    metadata = tags_metadata(keywords(stated))
    if author.strip("()").lower() not in _NOTHING:
        metadata["author"] = author
    if match := _DATE.match(created):
        with suppress(ValueError):
            metadata["date"] = date(*map(int, match.groups())).isoformat()
    is_title = title.strip("()").lower() not in _NOTHING and not _NO_TITLE.search(title)
    return title if is_title else "", metadata


def _readable(text: Callable[[], str]) -> str:
    """Return a text on one line; nothing if it is not valid UTF-16."""
    try:
        return " ".join(_UNSTORABLE.sub("", text()).split())
    except UnicodeDecodeError:
        return ""


def _pages(numbers: Iterable[int]) -> str:
    """Return page numbers as a person writes them: `page 2`, `pages 2, 5-9`."""
    runs = []
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return f"page{'s' if len(runs) > 1 or '-' in runs[0] else ''} {', '.join(runs)}"
