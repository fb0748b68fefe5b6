"""Source files become a block per symbol, in their own text and lines."""

from __future__ import annotations

import argparse
import ast
import json.decoder
import sysconfig
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.documents.read import note_of
from pipelines.documents.readers import code, languages
from pipelines.documents.readers.code import read
from pipelines.documents.sandbox import Sandbox
from pipelines.errors import DocumentError
from pipelines.model import Locator

ROOT = Path(__file__).parents[4]
PYTHON = '''\
"""Money and how it is counted."""

import os
from decimal import Decimal

TIMEOUT = 30  # seconds


# How amounts are rounded.
@cache
def round_amount(amount):
    """Round half up."""
    return amount


class Account:
    """An account with a balance."""

    balance = 0

    # Called for each transfer.
    @property
    def is_open(self):
        return self.balance > 0

    class Entry:
        async def book(self): ...


if TYPE_CHECKING:

    def only_for_types(): ...

print("done with everything")
'''


def document_of(text, path="money.py"):
    return read(path, text if isinstance(text, bytes) else dedent(text).encode(), {})


def blocks(document):
    """Return the text of the first block with each label."""
    found = {}
    for block in document.blocks:
        found.setdefault(block.label, document.text[block.start : block.end])
    return found


def symbols(text, path):
    return document_of(text, path).metadata["symbols"]


def everything_outside_of_blocks(document):
    ends = [0, *(block.end for block in document.blocks)]
    starts = [*(block.start for block in document.blocks), len(document.text)]
    return "".join(document.text[end:start] for end, start in zip(ends, starts, strict=True))


def test_functions_and_classes_are_blocks_with_what_belongs_to_them():
    document = document_of(PYTHON)
    assert document.text == PYTHON
    assert [(block.label, block.place) for block in document.blocks] == [
        ("", None),
        ("round_amount", Locator("symbol", "round_amount", 9, 13)),
        ("Account", Locator("symbol", "Account", 16, 27)),
        ("only_for_types", Locator("symbol", "only_for_types", 30, 32)),
        ("", None),
    ]
    assert blocks(document)["round_amount"].startswith("# How amounts are rounded.\n@cache\ndef round_amount")
    assert "An account with a balance" in blocks(document)["Account"]
    first = document.blocks[0]
    assert document.text[first.start : first.end].endswith("TIMEOUT = 30  # seconds")
    assert everything_outside_of_blocks(document).strip() == ""


def test_symbols_are_a_property_with_their_qualified_names():
    metadata = document_of(PYTHON).metadata
    assert metadata == {
        "language": "Python",
        "symbols": [
            "round_amount",
            "Account",
            "Account.is_open",
            "Account.Entry",
            "Account.Entry.book",
            "only_for_types",
        ],
    }


def long_class(methods, words=100):
    body = "".join(
        f"    # About m{n}.\n    def m{n}(self):\n        '''{'word ' * words}'''\n\n" for n in range(methods)
    )
    return (
        f"class Long:\n    '''What it is for.'''\n\n    size = 1\n\n{body}    last_of_all_fields = 'here'\n"
    )


def test_a_class_of_more_than_600_words_has_a_block_for_each_method():
    assert [block.label for block in document_of(long_class(5)).blocks] == ["Long"]
    document = document_of(long_class(6))
    assert [(block.label, block.headings, block.place) for block in document.blocks] == [
        ("Long", ("Long",), Locator("symbol", "Long", 1, 4)),
        *(
            (f"Long.m{n}", ("Long", f"m{n}"), Locator("symbol", f"Long.m{n}", 6 + 4 * n, 8 + 4 * n))
            for n in range(6)
        ),
        ("Long", ("Long",), Locator("symbol", "Long", 30, 30)),
    ]
    assert blocks(document)["Long.m0"].startswith("# About m0.")
    assert everything_outside_of_blocks(document).strip() == ""


def test_a_long_function_without_inner_ones_stays_whole():
    text = "def long():\n" + "    call(some, words)\n" * 400
    assert [block.label for block in document_of(text).blocks] == ["long"]


def test_comments_belong_to_the_next_symbol_unless_a_blank_line_or_code_is_between():
    text = """\
    # The file itself is about accounts.

    # Directly above.
    def first(): pass  # behind the first
    x = 1  # behind the line
    def second(): pass
    """
    found = blocks(document_of(text))
    assert found["first"].startswith("# Directly above.\ndef first(): pass  # behind the first")
    assert found["second"] == "def second(): pass"


def test_headings_and_sections_reach_the_note():
    note = note_of("src/money.py", document_of(long_class(6)))
    assert [heading.text for heading in note.headings][:3] == ["Long", "m0", "m1"]
    assert note.title == "money"
    assert not note.privacy.private


JAVASCRIPT = """\
    import { load } from './load.js';

    /** What holds everything together in one place. */
    export default class Store extends Base {
      constructor() {}
      get size() { return 1 }
      #secret = 1;
      handler = () => this.size;
    }

    export const area = (width, height) => width * height;
    const plain = 5;
    function* steps() { yield plain; }
    module.exports.run = function () { return area(1, 2); };
    Store.prototype.clear = function () { return undefined; };
    """
TYPESCRIPT = """\
    export interface Shape { area(): number }
    type Point = { x: number };
    enum Colour { Red, Green }
    namespace Geometry { export function turn(by: number) { return by } }
    abstract class Base { abstract draw(): void; move<T>(by: T): T { return by } }
    declare module "things" { function thing(): void }
    export default () => null;
    """
GO = """\
    package main

    import "fmt"

    // Area is computed here.
    func Area(w int) int { return w }
    func (s *Stack[T]) Push(v T) {}
    type Point struct { X int }
    type (
        Shape interface { Area() int }
        Meters int
    )
    """
RUST = """\
    use crate::shapes::Circle;
    mod helpers;

    /// A point in the plane.
    #[derive(Debug)]
    pub struct Point { x: f64 }
    impl<T> Stack<T> { pub fn push(&mut self, value: T) {} }
    impl Shape for Point { fn area(&self) -> f64 { 0.0 } }
    trait Shape { fn area(&self) -> f64; }
    enum Colour { Red }
    mod inner { fn hidden() {} }
    macro_rules! square { ($x:expr) => { $x * $x } }
    """
JAVA = """\
    package org.example;
    import org.example.util.Lists;

    /** An account. */
    @Entity
    public class Account extends Base {
        private int balance;
        Account() {}
        @Override void close() {}
        static class Entry { void book() {} }
        enum State { OPEN; boolean isOpen() { return true; } }
    }
    interface Visitor { void visit(); }
    record Range(int from, int to) { Range { check(from, to); } }
    """
C = """\
    #include "shapes.h"
    #include <stdio.h>
    #define SQUARE(x) ((x) * (x))
    struct point { int x; };
    typedef struct { int w; } size_type;
    static int *find(int n) { return 0; }
    #ifdef DEBUG
    int debug(void) { return 1; }
    #endif
    int declared_only(void);
    """
CPP = """\
    #include "shapes.hpp"
    namespace geometry {
    class Circle { public: double area() const { return 1.0; } void move(); };
    namespace detail { int helper() { return 1; } }
    }
    void geometry::Circle::move() {}
    template <typename T> T largest(T a, T b) { return a; }
    Circle operator+(Circle a, Circle b) { return a; }
    extern "C" { void exported() {} }
    enum class Colour { Red };
    """


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "a.js",
            JAVASCRIPT,
            "Store Store.constructor Store.size Store.handler area steps module.exports.run Store.prototype.clear",
        ),
        (
            "a.ts",
            TYPESCRIPT,
            'Shape Point Colour Geometry Geometry.turn Base Base.draw Base.move "things" "things".thing default',
        ),
        (
            "a.tsx",
            "export const View = () => <div>text</div>;\nfunction Other() { return <View/>; }",
            "View Other",
        ),
        ("a.jsx", "export function View() { return <div>text</div>; }", "View"),
        ("a.go", GO, "Area Stack.Push Point Shape Meters"),
        (
            "a.rs",
            RUST,
            "Point Stack Stack.push Point.area Shape Shape.area Colour inner inner.hidden square",
        ),
        (
            "a.java",
            JAVA,
            (
                "Account Account.Account Account.close Account.Entry Account.Entry.book Account.State "
                "Account.State.isOpen Visitor Visitor.visit Range Range.Range"
            ),
        ),
        ("a.c", C, "SQUARE point size_type find debug"),
        (
            "a.cpp",
            CPP,
            (
                "geometry geometry.Circle geometry.Circle.area geometry.detail geometry.detail.helper "
                "geometry.Circle.move largest operator+ exported Colour"
            ),
        ),
        ("a.h", "class Shape {\n  int area() { return 1; }\n};", "Shape Shape.area"),
        ("b.h", "int area(int new) { return new; }", "area"),
    ],
)
def test_each_language_has_its_symbols(path, text, expected):
    assert symbols(text, path) == expected.split()
    assert everything_outside_of_blocks(document_of(text, path)).strip() == ""


def test_a_doc_comment_and_attributes_belong_to_their_symbol():
    assert blocks(document_of(JAVASCRIPT, "a.js"))["Store"].startswith("/** What holds")
    assert blocks(document_of(RUST, "a.rs"))["Point"].startswith(
        "/// A point in the plane.\n#[derive(Debug)]"
    )
    assert blocks(document_of(JAVA, "a.java"))["Account"].startswith("/** An account. */\n@Entity")
    assert blocks(document_of(GO, "a.go"))["Area"].startswith("// Area is computed here.")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "src/a.py",
            (
                "import os, app.money\nimport app.tax as t\nfrom app.sub import x, y\nfrom . import near, other as o\n"
                "from .. import above\nfrom .beside import z\nfrom ..up.there import q\nfrom __future__ import annotations\n"
                "def f():\n    import app.late\n"
            ),
            "app/money.py app/tax.py app/sub.py ./near.py ./other.py ../above.py ./beside.py ../up/there.py app/late.py",
        ),
        (
            "a.js",
            (
                "import a, {b} from './x';\nimport '../y.js';\nconst z = require(\"./z.mjs\");\nimport('./late');\n"
                "export * from './again';\nimport React from 'react';\nimport here from '.';\nother('./no')"
            ),
            "./x.js ../y.js ./z.mjs ./late.js ./again.js",
        ),
        ("a.ts", "import type { T } from './types';", "./types.ts"),
        ("src/lib.rs", RUST, "shapes.rs ./helpers.rs"),
        ("src/shapes.rs", "mod circle;\nuse crate::{a, b};\nuse crate::util;", "./shapes/circle.rs util.rs"),
        (
            "A.java",
            "import org.x.Y;\nimport static org.x.Z.of;\nimport org.x.*;\nimport java.util.List;",
            "org/x/Y.java org/x/Z.java",
        ),
        ("a.c", C, "shapes.h"),
        ("a.cpp", '#include "../include/shapes.hpp"\n#include <vector>', "../include/shapes.hpp"),
        ("a.go", GO, ""),
        (
            "a.py",
            (
                "A = 'docs/guide.md'\nB = \"../data/plan.xlsx\"\nC = 'https://x.org/a.html'\nD = '/etc/a.yaml'\nE = 'a.b'\n"
                "F = open('docs/guide.md')\n"
            ),
            "docs/guide.md ../data/plan.xlsx",
        ),
    ],
)
def test_imports_and_paths_in_quotes_are_links(path, text, expected):
    assert [link.target for link in document_of(text, path).links] == expected.split()


def test_a_link_has_the_position_at_which_it_is_written():
    document = document_of("# Größe in Fuß — ☃\nimport app.money\nA = 'docs/größe.md'\n")
    assert [document.text[link.at :].partition("\n")[0] for link in document.links] == [
        "import app.money",
        "docs/größe.md'",
    ]
    note = note_of("a.py", document)
    assert [link.line for link in note.links] == [2, 3]


def test_offsets_count_characters_however_long_the_text():
    filler = "# ÄÖ€😀\n" * 2_000
    document = document_of(
        f"{filler}\ndef first():\n    return 'ü'\n\n{filler}\ndef second():\n    return 2\n"
    )
    found = blocks(document)
    assert found["first"] == "def first():\n    return 'ü'"
    assert found["second"] == "def second():\n    return 2"


def test_the_ends_of_lines_stay_as_they_are():
    document = document_of(
        b"\xef\xbb\xbfdef first():\r\n    return 'something'\r\n\r\ndef second():\r\n    return 2\r\n"
    )
    assert [block.place for block in document.blocks] == [
        Locator("symbol", "first", 1, 2),
        Locator("symbol", "second", 4, 5),
    ]
    assert blocks(document)["first"] == "def first():\r\n    return 'something'"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "a.py",
            "def good():\n    return 1\n\ndef broken(:\n    pass\n\nclass Fine:\n    def m(self): pass\n",
            "good",
        ),
        ("a.js", "function good() { return 1 }\nfunction broken( {\nclass Fine { m() {} }", "good"),
        ("a.c", "int good(void) { return 1; }\nint broken(void { return 2; }\n", "good"),
    ],
)
def test_a_file_with_syntax_errors_gives_what_can_be_told(path, text, expected):
    document = document_of(text, path)
    assert document.metadata["symbols"][0] == expected
    assert everything_outside_of_blocks(document).strip() == ""


REAL = [
    *(Path(module.__file__) for module in (argparse, ast, json.decoder)),
    *sorted((ROOT / "service/web/static").glob("*.js")),
    *(Path(sysconfig.get_path("include")) / name for name in ("object.h", "dictobject.h", "unicodeobject.h")),
]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_files_lie_in_blocks_entirely(path):
    if not path.exists():
        pytest.skip("this Python came without its headers")
    document = read(path.name, path.read_bytes(), {})
    assert everything_outside_of_blocks(document).strip() == ""
    assert all(document.text[block.start : block.end].strip() for block in document.blocks)


@pytest.mark.parametrize("module", [argparse, ast, json.decoder], ids=lambda module: module.__name__)
def test_the_symbols_of_pythons_own_files_are_those_that_python_sees(module):
    source = Path(module.__file__).read_text(encoding="utf-8")
    outer = {
        node.name for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    found = [name for name in document_of(source.encode()).metadata["symbols"] if "." not in name]
    assert set(found) >= outer


@pytest.mark.parametrize(
    ("path", "data", "sentence"),
    [
        ("a.py", b"\x7fELF\x02\x01\x01\0\0\xff\xfe", "'a.py' is no source file: it is binary"),
        ("a.js", b"\x89PNG\r\n\x1a\n\0\0", "'a.js' is no source file: it is binary"),
        ("a.rb", b"def f; end", "'a.rb' is in none of the languages"),
    ],
)
def test_what_is_no_source_file_is_refused_with_its_sentence(path, data, sentence):
    with pytest.raises(DocumentError, match=sentence):
        read(path, data, {})


def test_a_missing_grammar_says_what_to_install(monkeypatch):
    monkeypatch.setattr(languages, "_GRAMMARS", {})
    with pytest.raises(DocumentError, match=r"grammar of Go; install everindex\[code\]"):
        document_of(GO, "a.go")


def test_a_text_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(code, "PARSE_SECONDS", 0)
    with pytest.raises(DocumentError, match="cannot be parsed within 0 s; it is probably generated"):
        read("a.js", b"'" * 20_000, {})


def test_a_long_text_is_cut_with_a_warning(monkeypatch):
    monkeypatch.setattr(code, "MOST_CHARACTERS", 1_000)
    document = document_of("def f(): pass\n" * 100)
    assert len(document.text) == 1_000
    assert document.warnings == ("only the first 1,000 characters were read",)


def test_names_are_kept_as_far_as_a_property_may_be_long():
    document = document_of("".join(f"def {'long_name' * 10}_{n}(): pass\n" for n in range(1_000)))
    assert 200 < len(document.metadata["symbols"]) < 400
    assert len(json.dumps(document.metadata)) < 65_536


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("nested.py", b"(" * 10_000 + b")" * 10_000),
        ("nested.js", b"{[" * 10_000),
        ("nested.c", b"int x = " + b"(" * 10_000),
        ("classes.py", b"".join(b" " * n + b"class A:\n" for n in range(300))),
        ("line.js", b"x=1;" * 25_000),
        ("line.py", b"x = '" + b"a" * 1_000_000 + b"'"),
        ("prose.rs", b"Lorem ipsum <dolor sit (amet\n" * 1_000),
        ("empty.go", b""),
        ("blank.ts", b" \n\t\n"),
        ("latin.java", "class Größe {}".encode("latin-1")),
    ],
)
def test_odd_files_are_read_entirely(path, data):
    document = read(path, data, {})
    assert everything_outside_of_blocks(document).strip() == ""


SAMPLES = {
    "a.py": PYTHON,
    "a.js": JAVASCRIPT,
    "a.ts": TYPESCRIPT,
    "a.go": GO,
    "a.rs": RUST,
    "a.java": JAVA,
    "a.c": C,
    "a.cpp": CPP,
}


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_a_truncated_or_damaged_file_is_read_entirely_or_refused(path, data):
    raw = SAMPLES[path].encode()
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    at = data.draw(st.integers(0, len(raw)))
    raw = raw[:at] + data.draw(st.binary(max_size=6)) + raw[at:]
    try:
        document = read(path, raw, {})
    except DocumentError as error:
        assert str(error).startswith(repr(path))  # noqa: PT017
        return
    assert everything_outside_of_blocks(document).strip() == ""
    note_of(path, document)


def test_every_grammar_is_loaded_before_the_process_gives_up_its_rights():
    sandbox = Sandbox()
    try:
        for path, text in SAMPLES.items():
            assert sandbox.read(path, dedent(text).encode(), {}).metadata["symbols"]
    finally:
        sandbox.stop()
