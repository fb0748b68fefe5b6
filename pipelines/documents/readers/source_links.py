"""Find the files that a source file refers to: by imports, and by paths in quotes.

A target is a path as in a wikilink: a relative import stays relative (`./x.js`), and for any other, the path of the
file that is meant ends with the target (`a/b.py`). What surely lies outside of the vault gives no link: standard
libraries, packages of JavaScript, `<headers>`, and imports of Go, which name folders. Where JavaScript leaves the
suffix out, it is that of the importing file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import PurePosixPath

from tree_sitter import Node

from pipelines.documents.formats import format_of
from pipelines.documents.readers.source_names import text_of

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

    They are looked up by their keywords, because the time of a query of tree-sitter is quadratic in the depth of
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
