"""Read source files: a block per function and class, found by tree-sitter, in the file's own text."""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import PurePosixPath
from time import monotonic

from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser

from pipelines.documents.document import (
    DEEPEST,
    LONGEST_LABEL,
    MOST_CHARACTERS,
    Document,
    DocumentLink,
    decode_text,
)
from pipelines.documents.readers.languages import Language, language_of, text_of
from pipelines.errors import DocumentError
from pipelines.formats import format_of
from pipelines.model import Block, Locator
from pipelines.notes.frontmatter import line_starts

# Find the files that a source file refers to: by imports, and by paths in quotes.
#
# A target is a path as in a wikilink: a relative import stays relative (`./x.js`), and for any other, the path of
# the file that is meant ends with the target (`a/b.py`). What surely lies outside of the vault gives no link:
# standard libraries, packages of JavaScript, `<headers>`, and imports of Go, which name folders. Where JavaScript
# leaves the suffix out, it is that of the importing file.


MOST_LINKS = 1_000

_QUOTED = re.compile(
    r"""(["'`])(?P<path>(?:\.{1,2}/){0,9}[\w@+][\w@+. -]{0,100}(?:/[\w@+. -]{1,100}){0,20}\.[A-Za-z0-9]{1,8})\1"""
)
_KEYWORD = re.compile(rb"\b(?:import|from|require|include|mod|use)\b")
_MOST_KEYWORDS = 5_000
_HIGHEST = 4  # levels of a keyword below its import
_QUOTES = "\"'`"
_JAVA = re.compile(r"import\s+(?P<static>static\s+)?(?P<name>[\w.]+)\s*;")
_CRATE = re.compile(r"\bcrate::(?P<path>\w+(?:::\w+)*)")
_OWN_FOLDER_OF_RUST = {"main", "lib", "mod"}
_STANDARD_JAVA = ("java.", "javax.")


def references(
    path: str, text: str, encoded: bytes, root: Node, char_at: Callable[[int], int]
) -> list[tuple[str, int]]:
    """Return each file that a source file refers to, once, with the offset at which it is named; at most 1,000.

    `encoded` is the text in UTF-8, and `char_at` returns the offset in the text of one of its bytes.
    """
    found: dict[str, int] = {}
    for node in _imports(encoded, root):
        for target in _TARGETS[node.type](node, PurePosixPath(path)):
            found.setdefault(target, char_at(node.start_byte))
    for match in _QUOTED.finditer(text):
        if format_of(match["path"]) is not None:
            found.setdefault(match["path"], match.start("path"))
    return sorted(found.items(), key=lambda link: link[1])[:MOST_LINKS]


def _imports(encoded: bytes, root: Node) -> Iterator[Node]:
    """Yield the nodes that may import a file.

    A search for their keywords finds them, because the time of a query of tree-sitter is quadratic in the depth of
    brackets.
    """
    for match in islice(_KEYWORD.finditer(encoded), _MOST_KEYWORDS):
        node = root.descendant_for_byte_range(*match.span())
        for _ in range(_HIGHEST):
            if node is None or node.type in _TARGETS:
                break
            node = node.parent
        if node is not None and node.type in _TARGETS:
            yield node


def _import_statement(node: Node, path: PurePosixPath) -> Iterator[str]:
    """Yield what an import of JavaScript or Python names."""
    if node.child_by_field_name("source"):
        yield from _source(node, path)
        return
    for name in node.children_by_field_name("name"):
        yield from _python_module(text_of(name.child_by_field_name("name") or name))


def _source(node: Node, path: PurePosixPath) -> Iterator[str]:
    yield from _relative(node.child_by_field_name("source"), path)


def _call(node: Node, path: PurePosixPath) -> Iterator[str]:
    arguments = node.child_by_field_name("arguments")
    if arguments is not None and text_of(node.child_by_field_name("function")) in {"import", "require"}:
        yield from _relative(arguments.named_child(0) if arguments.named_child_count else None, path)


def _relative(written: Node | None, path: PurePosixPath) -> Iterator[str]:
    """Yield what JavaScript imports by a relative path."""
    target = text_of(written).strip(_QUOTES)
    if target.startswith(("./", "../")) and not target.endswith(("/", ".")):
        yield target if format_of(target) else target + path.suffix


def _include(node: Node, _path: PurePosixPath) -> Iterator[str]:
    written = node.child_by_field_name("path")
    if written is not None and written.type == "string_literal":
        yield text_of(written).strip(_QUOTES)


def _mod(node: Node, path: PurePosixPath) -> Iterator[str]:
    if node.child_by_field_name("body") is None:
        folder = "." if path.stem in _OWN_FOLDER_OF_RUST else f"./{path.stem}"
        yield f"{folder}/{text_of(node.child_by_field_name('name'))}.rs"


def _use(node: Node, _path: PurePosixPath) -> Iterator[str]:
    """Yield the module of each `crate::module::item`."""
    for match in _CRATE.finditer(text_of(node)):
        *modules, item = match["path"].split("::")
        yield "/".join(modules or [item]) + ".rs"


def _java(node: Node, _path: PurePosixPath) -> Iterator[str]:
    match = _JAVA.match(text_of(node))
    if match and not match["name"].startswith(_STANDARD_JAVA):
        name = match["name"].rpartition(".")[0] if match["static"] else match["name"]
        yield name.replace(".", "/") + ".java"


def _python_module(name: str) -> Iterator[str]:
    if name.partition(".")[0] not in sys.stdlib_module_names:
        yield name.replace(".", "/") + ".py"


def _from(node: Node, _path: PurePosixPath) -> Iterator[str]:
    """Yield the module of `from m import x`; of `from . import x`, where x is a module, each x."""
    module = text_of(node.child_by_field_name("module_name"))
    name = module.lstrip(".")
    dots = len(module) - len(name)
    if not dots:
        yield from _python_module(name)
        return
    above = "../" * (dots - 1) or "./"
    if name:
        yield f"{above}{name.replace('.', '/')}.py"
        return
    for imported in node.children_by_field_name("name"):
        yield f"{above}{text_of(imported.child_by_field_name('name') or imported)}.py"


_TARGETS: dict[str, Callable[[Node, PurePosixPath], Iterator[str]]] = {
    "call_expression": _call,
    "export_statement": _source,
    "import_declaration": _java,
    "import_from_statement": _from,
    "import_statement": _import_statement,
    "mod_item": _mod,
    "preproc_include": _include,
    "use_declaration": _use,
}
"""By the type of a node, the function that returns the targets of an import."""


# Find the symbols of a parsed source file, with the comments and decorators that belong to them.


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
