"""Read a web page: its main content under its headings, without what surrounds it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from pipelines.documents.decoding import decode_text
from pipelines.documents.document import Document
from pipelines.documents.limits import MOST_CHARACTERS
from pipelines.documents.readers.html_content import Content
from pipelines.documents.tags import keywords, tags_metadata
from pipelines.errors import DocumentError

_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DECLARED = re.compile(rb"""<meta[^>]{1,200}charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_LOOKED_AT = 4_096
# Python's other codecs decode what no browser does, some of them in quadratic time.
_CHARSETS = re.compile(r"iso8859-\d+|cp\d+|koi8-[ru]|gb2312|gbk|gb18030|big5|euc_(jp|kr)|shift_jis|mac-\w+")
_AUTHOR = {"author", "dc.creator", "dcterms.creator", "article:author"}
_DATE = {"date", "dc.date", "dcterms.date", "dcterms.created", "article:published_time"}


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001  (as every reader)
    """Return a block per heading of the page's main content, with the author, date and tags that it states.

    Nothing that the page names is loaded. Raises DocumentError if the file is not text.
    """
    text, warnings = _decoded(data)
    if data and not text:
        raise DocumentError(f"{path!r} is not a web page ({'; '.join(warnings)}); check its file type")
    try:
        page = LexborHTMLParser(text)
    except SelectolaxError:
        # Lexbor raises it where memory for the tree runs out.
        raise DocumentError(f"{path!r} has too many elements to be read; split it") from None
    content = Content()
    for root in _roots(page):
        content.add(root)
        if content.builder.size:
            break
    if not content.builder.size:
        warnings = (*warnings, "the page has no text; what it shows may be made by a program")
    elif content.is_full:
        warnings = (*warnings, f"only the first {MOST_CHARACTERS:,} characters were read")
    return content.builder.document(title=_title(page), metadata=_metadata(page), warnings=warnings)


def _decoded(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a page by its byte order mark, or the character set that it declares, or as any text."""
    declared = _DECLARED.search(data[:_LOOKED_AT])
    if declared is None or data.startswith(_BYTE_ORDER_MARKS) or b"\0" in data:
        return decode_text(data)
    try:
        charset = codecs.lookup(declared[1].decode("ascii", "replace")).name
    except LookupError:
        return decode_text(data)
    if not _CHARSETS.fullmatch(charset):
        return decode_text(data)
    # Browsers read Latin-1 as its superset, because pages that declare it use the quotation marks of that.
    charset = "cp1252" if charset == "iso8859-1" else charset
    text = data.decode(charset, "replace")
    return text, (f"unreadable bytes of {charset} were replaced",) if "\ufffd" in text else ()


def _roots(page: LexborHTMLParser) -> Iterator[LexborNode]:
    """Yield the elements that may hold the content, the likeliest first."""
    mains, articles = page.css("main, [role=main]"), page.css("article")
    if mains:
        yield mains[0]
    elif len(articles) == 1:
        yield articles[0]
    if page.body is not None:
        yield page.body


def _title(page: LexborHTMLParser) -> str:
    for selector in ("head > title", "h1"):
        node = page.css_first(selector)
        if node is not None and (title := " ".join(node.text().split())):
            return title
    return ""


def _metadata(page: LexborHTMLParser) -> dict[str, object]:
    """Return what the page's `meta` elements state, in the form of frontmatter."""
    metadata: dict[str, object] = {}
    tags: list[str] = []
    for node in page.css("meta[content]"):
        attributes = node.attributes
        name = (attributes.get("name") or attributes.get("property") or "").lower()
        value = " ".join((attributes.get("content") or "").split())
        if name in _AUTHOR and value:
            metadata.setdefault("author", value)
        elif name in _DATE:
            with suppress(ValueError):
                metadata.setdefault("date", date.fromisoformat(value[:10]).isoformat())
        elif name == "keywords":
            tags += keywords(value)
    return metadata | tags_metadata(tags)
