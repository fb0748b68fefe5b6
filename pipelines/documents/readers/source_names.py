"""Name the symbols of a syntax tree."""

from __future__ import annotations

import re

from tree_sitter import Node

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
