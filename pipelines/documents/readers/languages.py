"""The languages whose source files are parsed: what of their grammars is a symbol.

The grammars are loaded with this module, because the process that reads documents can open no file later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePosixPath

from tree_sitter import Language as Grammar
from tree_sitter import Node

from pipelines.errors import DocumentError

# Name the symbols of a syntax tree.


_LONGEST_NAME = 200
_TYPE_ARGUMENTS = re.compile(r"<[^<>]*>")
_FUNCTIONS = {"arrow_function", "function_expression", "generator_function", "class"}


def text_of(node: Node | None) -> str:
    """Return the source text of a node."""
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def _plain(text: str) -> str:
    """Return a name on one line, without type arguments, with dots between its parts."""
    without = _TYPE_ARGUMENTS.sub("", text)
    return ".".join(part for part in re.split(r"\s*(?:::|\.)\s*", " ".join(without.split())) if part)[
        :_LONGEST_NAME
    ]


def name_of(node: Node) -> str:
    """Return the name that a node states in its own field."""
    return _plain(text_of(node.child_by_field_name("name")))


def name_with_body(node: Node) -> str:
    """Return the name of what is defined here, empty for what is only mentioned."""
    return name_of(node) if node.child_by_field_name("body") else ""


def assigned_name(node: Node) -> str:
    """Return the name of a variable or property to which a function or class is assigned."""
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if value is None or value.type not in _FUNCTIONS:
        return ""
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    return _plain(text_of(name or node.child_by_field_name("left")))


def default_export(node: Node) -> str:
    """Return the name of a function or class that `export default` exports without one."""
    value = node.child_by_field_name("value")
    return "default" if value is not None and value.type in _FUNCTIONS else ""


def method_of_receiver(node: Node) -> str:
    """Return the name of a method of Go with the type that it belongs to."""
    receiver = re.sub(r"[()*]|\[.*\]", " ", text_of(node.child_by_field_name("receiver"))).split()
    return ".".join([*receiver[-1:], name_of(node)])


def implemented_type(node: Node) -> str:
    """Return the type that an `impl` of Rust is for."""
    return _plain(text_of(node.child_by_field_name("type")))


def declared_name(node: Node) -> str:
    """Return the name inside the declarator of a function or type definition."""
    inner = node.child_by_field_name("declarator")
    while inner is not None:
        below = inner.child_by_field_name("declarator")
        if below is None and inner.type in {"reference_declarator", "parenthesized_declarator"}:
            below = inner.named_child(0) if inner.named_child_count else None
        if below is None:
            break
        inner = below
    return _plain(text_of(inner))


def defined_type(node: Node) -> str:
    """Return the name that a `typedef` gives to a type with a body."""
    kind = node.child_by_field_name("type")
    return declared_name(node) if kind is not None and kind.child_by_field_name("body") else ""


def namespace_name(node: Node) -> str:
    """Return the name of a namespace of C++, which may have none."""
    return name_of(node) or "(anonymous)"


_CPLUSPLUS = re.compile(r"^\s*(?:class|namespace|template|using)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Language:
    """What source files of a language consist of, by the types of nodes in its grammar.

    `symbols` have a function that returns their name, empty for what is no symbol after all. `wrappers` belong to the
    one symbol in them, such as a decorator or `export`. Symbols are also looked for in what is `transparent`, such as
    an `if`. `comments` precede their symbol.
    """

    name: str
    suffixes: tuple[str, ...]
    package: str
    symbols: Mapping[str, Callable[[Node], str]]
    wrappers: frozenset[str] = frozenset()
    transparent: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    function: str = "language"

    def grammar(self, path: str) -> Grammar:
        """Return the grammar.

        Raises DocumentError if it is not installed, or not for this tree-sitter.
        """
        grammar = _GRAMMARS.get((self.package, self.function))
        if grammar is None:
            raise DocumentError(
                f"{path!r} cannot be read without the grammar of {self.name}; install everindex[code]"
            )
        return grammar


def language_of(path: str, text: str) -> Language:
    """Return the language of a file by its suffix; a header `.h` is C++ if its text looks like that.

    Raises DocumentError for another suffix.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".h" and _CPLUSPLUS.search(text):
        return _CPP
    language = _BY_SUFFIX.get(suffix)
    if language is None:
        raise DocumentError(
            f"{path!r} is in none of the languages that can be parsed; ignore it in `.everindexignore`"
        )
    return language


_JAVASCRIPT_SYMBOLS: dict[str, Callable[[Node], str]] = {
    **dict.fromkeys(
        ("function_declaration", "generator_function_declaration", "class_declaration", "method_definition"),
        name_of,
    ),
    **dict.fromkeys(("variable_declarator", "field_definition", "assignment_expression"), assigned_name),
    "export_statement": default_export,
}
_JAVASCRIPT_WRAPPERS = frozenset(
    {"export_statement", "lexical_declaration", "variable_declaration", "expression_statement"}
)
_TYPESCRIPT_SYMBOLS = {
    **_JAVASCRIPT_SYMBOLS,
    **dict.fromkeys(
        (
            "abstract_class_declaration",
            "abstract_method_signature",
            "enum_declaration",
            "function_signature",
            "interface_declaration",
            "internal_module",
            "module",
            "type_alias_declaration",
        ),
        name_of,
    ),
    "public_field_definition": assigned_name,
}
_C_SYMBOLS: dict[str, Callable[[Node], str]] = {
    "function_definition": declared_name,
    "type_definition": defined_type,
    "preproc_function_def": name_of,
    **dict.fromkeys(("struct_specifier", "union_specifier", "enum_specifier"), name_with_body),
}
_C_TRANSPARENT = frozenset(
    {
        "preproc_if",
        "preproc_ifdef",
        "preproc_else",
        "preproc_elif",
        "linkage_specification",
        "declaration_list",
    }
)

_PYTHON = Language(
    "Python",
    (".py", ".pyi"),
    "tree_sitter_python",
    {"function_definition": name_of, "class_definition": name_of},
    wrappers=frozenset({"decorated_definition"}),
    transparent=frozenset(
        {
            "block",
            "elif_clause",
            "else_clause",
            "except_clause",
            "finally_clause",
            "if_statement",
            "try_statement",
            "with_statement",
        }
    ),
)
_JAVASCRIPT = Language(
    "JavaScript",
    (".js", ".mjs", ".jsx"),
    "tree_sitter_javascript",
    _JAVASCRIPT_SYMBOLS,
    wrappers=_JAVASCRIPT_WRAPPERS,
)
_TYPESCRIPT, _TSX = (
    Language(
        "TypeScript",
        suffixes,
        "tree_sitter_typescript",
        _TYPESCRIPT_SYMBOLS,
        wrappers=_JAVASCRIPT_WRAPPERS | {"ambient_declaration"},
        function=function,
    )
    for suffixes, function in (((".ts",), "language_typescript"), ((".tsx",), "language_tsx"))
)
_GO = Language(
    "Go",
    (".go",),
    "tree_sitter_go",
    {
        "function_declaration": name_of,
        "method_declaration": method_of_receiver,
        "type_spec": name_of,
        "type_alias": name_of,
    },
    wrappers=frozenset({"type_declaration"}),
)
_RUST = Language(
    "Rust",
    (".rs",),
    "tree_sitter_rust",
    {
        **dict.fromkeys(
            (
                "enum_item",
                "function_item",
                "function_signature_item",
                "macro_definition",
                "struct_item",
                "trait_item",
                "union_item",
            ),
            name_of,
        ),
        "mod_item": name_with_body,
        "impl_item": implemented_type,
    },
    transparent=frozenset({"foreign_mod_item", "declaration_list"}),
    comments=frozenset({"attribute_item", "block_comment", "line_comment"}),
)
_JAVA = Language(
    "Java",
    (".java",),
    "tree_sitter_java",
    dict.fromkeys(
        (
            "annotation_type_declaration",
            "class_declaration",
            "compact_constructor_declaration",
            "constructor_declaration",
            "enum_declaration",
            "interface_declaration",
            "method_declaration",
            "record_declaration",
        ),
        name_of,
    ),
    transparent=frozenset({"enum_body_declarations"}),
    comments=frozenset({"block_comment", "line_comment"}),
)
_C = Language("C", (".c", ".h"), "tree_sitter_c", _C_SYMBOLS, transparent=_C_TRANSPARENT)
_CPP = Language(
    "C++",
    (".cpp", ".hpp"),
    "tree_sitter_cpp",
    {
        **_C_SYMBOLS,
        "class_specifier": name_with_body,
        "namespace_definition": namespace_name,
        "concept_definition": name_of,
    },
    wrappers=frozenset({"template_declaration"}),
    transparent=_C_TRANSPARENT,
)
LANGUAGES = (_PYTHON, _JAVASCRIPT, _TYPESCRIPT, _TSX, _GO, _RUST, _JAVA, _C, _CPP)
_BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def _loaded() -> dict[tuple[str, str], Grammar]:
    """Return the grammars that are installed; a missing one is reported when a file needs it."""
    found: dict[tuple[str, str], Grammar] = {}
    for language in LANGUAGES:
        with suppress(ImportError, AttributeError, TypeError, ValueError):
            module = import_module(language.package)
            found[language.package, language.function] = Grammar(getattr(module, language.function)())
    return found


_GRAMMARS = _loaded()
