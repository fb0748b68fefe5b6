"""Find the symbols of a parsed source file, with the comments and decorators that belong to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from pipelines.documents.limits import DEEPEST
from pipelines.documents.readers.source_languages import Language

_ERROR = "ERROR"


@dataclass(slots=True)
class Symbol:
    """A function, class or the like: its name, its bytes from `start` to `end`, and the symbols in it."""

    name: str
    start: int
    end: int
    last_row: int
    children: list[Symbol]


def symbols_of(root: Node, language: Language) -> list[Symbol]:
    """Return the outermost symbols of a file in order; those of broken code as far as they can be told."""
    return _within(root, language, 0)


def _within(node: Node, language: Language, depth: int) -> list[Symbol]:
    """Return the symbols directly in a node."""
    if depth > DEEPEST:
        return []
    found: list[Symbol] = []
    comments = _Comments()
    for child in node.named_children:
        if child.type in language.comments:
            if found and child.start_point.row == found[-1].last_row:
                found[-1].end = _last_byte(child)
            else:
                comments.add(child)
            continue
        symbols = list(_symbols_at(child, language, depth))
        if len(symbols) == 1 and symbols[0].start == child.start_byte:
            symbols[0].start = comments.start_before(child)
        found += symbols
        comments.forget(child)
    return found


def _symbols_at(node: Node, language: Language, depth: int) -> Iterator[Symbol]:
    """Yield the symbol that a node is, or those in it."""
    named = language.symbols.get(node.type)
    name = named(node) if named else ""
    if name:
        below = node.child_by_field_name("body") or node.child_by_field_name("value") or node
        children = _within(below, language, depth + 1)
        yield Symbol(name, node.start_byte, node.end_byte, node.end_point.row, children)
    elif node.type in language.wrappers:
        symbols = _within(node, language, depth + 1)
        if len(symbols) == 1:
            symbols[0].start, symbols[0].end = node.start_byte, node.end_byte
            symbols[0].last_row = node.end_point.row
        yield from symbols
    elif node.type in language.transparent or node.type == _ERROR:
        yield from _within(node, language, depth + 1)


class _Comments:
    """The comments directly before a node, without a blank line between."""

    def __init__(self) -> None:
        self._start = 0
        self._end_row = -1
        self._row_before = -1

    def add(self, comment: Node) -> None:
        """Add a comment, unless it follows code on the same line."""
        row = comment.start_point.row
        if row == self._row_before:
            return
        if self._end_row < 0 or row > self._end_row + 1:
            self._start = comment.start_byte
        self._end_row = _last_row(comment)

    def start_before(self, node: Node) -> int:
        """Return where the comments before a node start, or the node if there are none."""
        near = self._end_row >= 0 and node.start_point.row <= self._end_row + 1
        return self._start if near else node.start_byte

    def forget(self, node: Node) -> None:
        """Begin again after a node."""
        self._end_row = -1
        self._row_before = node.end_point.row


def _last_row(node: Node) -> int:
    """Return the row of a node's last character; some grammars count the end of the line as part of a comment."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _last_byte(node: Node) -> int:
    text = node.text or b""
    return node.start_byte + len(text.rstrip())
