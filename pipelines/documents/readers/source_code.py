"""Read source files: a block per function and class, found by tree-sitter, in the file's own text."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic

from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser

from pipelines.documents.decoding import decode_text
from pipelines.documents.document import LONGEST_LABEL, Document, DocumentLink
from pipelines.documents.limits import MOST_CHARACTERS
from pipelines.documents.readers.source_languages import language_of
from pipelines.documents.readers.source_links import references
from pipelines.documents.readers.source_symbols import Symbol, symbols_of
from pipelines.errors import DocumentError
from pipelines.locator import Block, Locator
from pipelines.parsing.lines import line_starts

LONGEST_SYMBOL = 600
"""Words above which the symbols in a symbol have blocks of their own."""
PARSE_SECONDS = 15
"""Time limit for parsing a file, below that of the process in which it runs."""

_READ_AT_ONCE = 4_096
_LEAST = 20
_LARGEST_NAMES = 30_000
_CONTINUATION = bytes(range(0x80, 0xC0))
_STRIDE = 4_096
_WORD = re.compile(r"\w")


@dataclass(slots=True)
class _Piece:
    """A part of the text with the names of the symbols around it, outermost first."""

    start: int
    end: int
    names: tuple[str, ...]


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001  (as every reader)
    """Return a source file in blocks, with the names of its symbols as the property `symbols`.

    A class of more than 600 words has a block for each method, and one for the lines before them. The text
    between symbols has blocks of its own, so every character but white space lies in a block. A file with syntax
    errors gives the symbols that can be told.

    Raises DocumentError for a binary file, for one that takes too long, and for a language without a grammar.
    """
    text, warnings = decode_text(data)
    if not text and data.strip():
        raise DocumentError(f"{path!r} is no source file: it is binary; rename it to what it is")
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS]
        warnings = (*warnings, f"only the first {MOST_CHARACTERS:,} characters were read")
    language = language_of(path, text)
    encoded = text.encode("utf-8", "replace")
    root = _parsed(path, encoded, language.grammar(path))
    offsets = _Offsets(encoded, text)
    symbols = symbols_of(root, language)
    pieces = list(_pieces(text, _in_characters(symbols, offsets), 0, len(text), ()))
    links = references(path, text, encoded, root, offsets.char_at)
    return Document(
        text=text,
        blocks=tuple(_blocks(text, pieces)),
        metadata={"language": language.name, "symbols": _names(symbols)},
        links=tuple(DocumentLink(target, at) for target, at in links),
        warnings=warnings,
    )


def _parsed(path: str, encoded: bytes, grammar: Grammar) -> Node:
    """Return the root of the syntax tree; some texts that are no code take tree-sitter minutes."""
    end = monotonic() + PARSE_SECONDS
    try:
        tree = Parser(grammar).parse(
            lambda at, _point: encoded[at : at + _READ_AT_ONCE],
            progress_callback=lambda _at, _has_error: monotonic() > end,
        )
    except ValueError:
        raise DocumentError(
            f"{path!r} cannot be parsed within {PARSE_SECONDS} s; it is probably generated, so ignore it in "
            "`.everindexignore`"
        ) from None
    return tree.root_node


class _Offsets:
    """Turns offsets of bytes in UTF-8 into offsets of characters."""

    def __init__(self, encoded: bytes, text: str) -> None:
        self._encoded = encoded
        self._is_ascii = len(encoded) == len(text)
        starts = () if self._is_ascii else range(0, len(encoded), _STRIDE)
        sizes = (len(encoded[at : at + _STRIDE].translate(None, _CONTINUATION)) for at in starts)
        self._characters = [0, *accumulate(sizes)]

    def char_at(self, byte: int) -> int:
        """Return the offset of the character that starts at a byte."""
        if self._is_ascii:
            return byte
        strides = byte // _STRIDE
        rest = self._encoded[strides * _STRIDE : byte].translate(None, _CONTINUATION)
        return self._characters[strides] + len(rest)


def _in_characters(symbols: Sequence[Symbol], offsets: _Offsets) -> list[Symbol]:
    return [
        Symbol(
            each.name,
            offsets.char_at(each.start),
            offsets.char_at(each.end),
            each.last_row,
            _in_characters(each.children, offsets),
        )
        for each in symbols
    ]


def _pieces(
    text: str, symbols: Sequence[Symbol], start: int, end: int, names: tuple[str, ...]
) -> Iterator[_Piece]:
    """Yield the pieces of a range in order: its symbols, and the text between them.

    What is too short for a passage belongs to the next symbol, and a closing brace to the one before it.
    """
    before = start
    last: _Piece | None = None
    for symbol in symbols:
        begin = before
        if len(text[before : symbol.start].strip()) >= _LEAST:
            if last:
                yield last
            last, begin = _Piece(before, symbol.start, names), symbol.start
        elif last and not _WORD.search(text, before, symbol.start):
            last.end = begin = symbol.start
        for piece in _of_symbol(text, symbol, begin, names):
            if last:
                yield last
            last = piece
        before = symbol.end
    if last and len(text[before:end].strip()) < _LEAST:
        last.end = end
        yield last
        return
    if last:
        yield last
    yield _Piece(before, end, names)


def _of_symbol(text: str, symbol: Symbol, begin: int, names: tuple[str, ...]) -> Iterator[_Piece]:
    """Yield a symbol from an offset on, in one piece unless it is long and has symbols in it."""
    own = (*names, symbol.name)
    if symbol.children and len(text[symbol.start : symbol.end].split()) > LONGEST_SYMBOL:
        yield from _pieces(text, symbol.children, begin, symbol.end, own)
    else:
        yield _Piece(begin, symbol.end, own)


def _blocks(text: str, pieces: Sequence[_Piece]) -> Iterator[Block]:
    """Yield the block of each piece that is not blank; what is outside of symbols has its lines as its place."""
    starts = line_starts(text)
    for piece in pieces:
        part = text[piece.start : piece.end]
        start = piece.start + len(part) - len(part.lstrip())
        end = piece.start + len(part.rstrip())
        if start >= end:
            continue
        label = ".".join(piece.names)[:LONGEST_LABEL]
        headings = tuple(name[:LONGEST_LABEL] for name in piece.names)
        lines = bisect_right(starts, start), bisect_right(starts, end - 1)
        yield Block(start, end, label, headings, Locator("symbol", label, *lines) if label else None)


def _names(symbols: Sequence[Symbol]) -> list[str]:
    """Return the qualified name of each symbol once, as many as a property may have."""
    names: dict[str, None] = {}
    size = 0
    for name in _qualified(symbols, ""):
        if name not in names:
            size += len(json.dumps(name)) + 2
            if size > _LARGEST_NAMES:
                break
            names[name] = None
    return list(names)


def _qualified(symbols: Sequence[Symbol], above: str) -> Iterator[str]:
    for symbol in symbols:
        name = f"{above}{symbol.name}"
        yield name
        yield from _qualified(symbol.children, f"{name}.")
