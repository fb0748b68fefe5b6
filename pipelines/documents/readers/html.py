"""Read a web page: its main content under its headings, without what surrounds it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from pipelines.documents.document import (
    MOST_CHARACTERS,
    Builder,
    Document,
    DocumentLink,
    OpenHeadings,
    decode_text,
    file_at,
    keywords,
    tags_metadata,
)
from pipelines.documents.markup import FlowingText
from pipelines.errors import DocumentError

# Collect what a reader of a web page sees, in blocks under its headings.


_LEFT_OUT = frozenset(
    {"audio", "button", "canvas", "datalist", "embed", "head", "iframe", "math", "nav", "noscript", "object"}
    | {"script", "select", "style", "svg", "template", "textarea", "title", "video"}
)
# They surround the page, unless they belong to one of the parts.
_AROUND = frozenset({"aside", "footer", "header"})
_PARTS = frozenset({"article", "main", "section"})
_PARAGRAPHS = frozenset(
    {"blockquote", "details", "dl", "fieldset", "figure", "hr", "ol", "p", "pre", "table", "ul"}
)
_LINES = frozenset(
    {
        "address",
        "article",
        "aside",
        "body",
        "br",
        "caption",
        "center",
        "dd",
        "div",
        "dt",
        "figcaption",
        "footer",
    }
    | {"form", "header", "legend", "li", "main", "section", "summary", "tr"}
)
_LISTS = frozenset({"dl", "ol", "ul"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_UNDISPLAYED = re.compile(r"display\s*:\s*none", re.IGNORECASE)


class Content:
    """The content of a page: a block per heading with what follows it."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.is_full = False
        self._headings = OpenHeadings()
        self._text = FlowingText()
        self._parts = self._lists = self._preformatted = 0
        self._rows: list[bool] = []  # for each open row of a table, whether its first cell is still to come
        self._anchors: list[tuple[FlowingText, int, int] | None] = []

    def add(self, root: LexborNode) -> None:
        """Add an element with all that is in it. No recursion: a page may nest as deeply as it likes."""
        waiting = [(root, False)]
        while waiting and not self.is_full:
            node, is_done = waiting.pop()
            tag = node.tag or ""
            if is_done:
                self._leave(tag)
            elif tag == "-text":
                self._write(node.text_content or "")
            elif node.is_element_node and not self._is_left_out(tag, node):
                self._enter(tag, node)
                waiting.append((node, True))
                waiting += [(child, False) for child in reversed(list(node.iter(include_text=True)))]
        self._finish_block()

    def _is_left_out(self, tag: str, node: LexborNode) -> bool:
        if tag in _LEFT_OUT or (tag in _AROUND and not self._parts):
            return True
        attributes = node.attributes
        style = attributes.get("style")
        return (
            "hidden" in attributes
            or attributes.get("aria-hidden") == "true"
            or (style is not None and _UNDISPLAYED.search(style) is not None)
            or (tag == "a" and _is_permalink(attributes.get("href"), node))
        )

    def _write(self, text: str) -> None:
        if self._preformatted:
            self._text.write_as_it_is(text.replace("\r\n", "\n"))
        else:
            self._text.write(text)
        self.is_full = self.builder.size + self._text.size > MOST_CHARACTERS

    def _enter(self, tag: str, node: LexborNode) -> None:
        if tag in _HEADINGS:
            self._finish_block()
        elif tag == "li":
            self._text.begin_item()
        elif tag in {"td", "th"}:
            self._text.begin_cell(is_first=not self._rows or self._rows[-1])
            if self._rows:
                self._rows[-1] = False
            self._text.cells += 1
        else:
            self._break(tag)
        if tag == "tr":
            self._rows.append(True)
        elif tag == "a":
            self._open_anchor(node.attributes.get("href") or "")
        elif tag == "img" and (where := file_at(node.attributes.get("src") or "")):
            alternative = node.attributes.get("alt") or ""
            self._text.links.append(
                DocumentLink(where[0], self._text.next, where[1], alternative, embed=True)
            )
        self._parts += tag in _PARTS
        self._lists += tag in _LISTS
        self._preformatted += tag == "pre"

    def _leave(self, tag: str) -> None:
        self._parts -= tag in _PARTS
        self._lists -= tag in _LISTS
        self._preformatted -= tag == "pre"
        if tag in _HEADINGS:
            heading = self._text.since(0)
            if heading:
                self._headings.open(_HEADINGS[tag], heading)
                self._text.end_line(1)
        elif tag in {"td", "th"}:
            self._text.cells -= 1
        elif tag == "tr":
            self._rows.pop()
        elif tag == "a":
            self._close_anchor()
        self._break(tag)

    def _break(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._text.end_line(0 if self._lists else 1)
        elif tag in _LINES:
            self._text.end_line()

    def _open_anchor(self, address: str) -> None:
        where = file_at(address)
        self._anchors.append((self._text, len(self._text.links), self._text.pieces) if where else None)
        if where:
            self._text.links.append(DocumentLink(where[0], self._text.next, where[1]))

    def _close_anchor(self) -> None:
        """Give a link the text that it shows, unless a heading in that text began another block."""
        opened = self._anchors.pop()
        if opened is not None and opened[0] is self._text:
            _, number, pieces = opened
            links = self._text.links
            links[number] = replace(links[number], text=self._text.since(pieces))

    def _finish_block(self) -> None:
        done, self._text = self._text, FlowingText(cells=self._text.cells)
        self._move_anchors(done)
        text, links = done.finished()
        path = self._headings.path
        start = self.builder.add(text[: MOST_CHARACTERS - self.builder.size], path[-1] if path else "", path)
        for link in links:
            self.builder.link(replace(link, at=min(start + link.at, self.builder.size)))

    def _move_anchors(self, done: FlowingText) -> None:
        """Move the links that have shown no text yet to the next block: they enclose its heading."""
        moved = set()
        for place, opened in enumerate(self._anchors):
            if opened is not None and opened[0] is done and not done.since(opened[2]):
                moved.add(opened[1])
                self._anchors[place] = (self._text, len(self._text.links), 0)
                self._text.links.append(replace(done.links[opened[1]], at=0))
        done.links = [link for number, link in enumerate(done.links) if number not in moved]


def _is_permalink(address: str | None, node: LexborNode) -> bool:
    """Say whether a link is only a sign, as the `¶` or `#` behind a heading by which the heading can be cited."""
    return (address or "").startswith("#") and not any(map(str.isalnum, node.text()))


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
