"""Each row of docs/notes/sources.md says how a described thing is here, and names tests that there are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "notes" / "sources.md").read_text(encoding="utf-8")
SOURCES = ("000", "001", "002", "003", "004")
HERE = re.compile(r"works(?: differently: \S|: \S| \(|\Z)|not: \S|not yet: planned\b")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def tables():
    """Return the rows of each source's table, as lists of cells, by the number in its heading."""
    found = {}
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
        found[re.search(r"\((\d+)\)\Z", section.partition("\n")[0])[1]] = rows
    return found


ROWS = [
    pytest.param(row, id=f"{source}-{number}")
    for source, rows in tables().items()
    for number, row in enumerate(rows, 1)
]


@cache
def names_of_tests(file):
    """Return the names of the tests of a file, those in classes included."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    within = [*tree.body, *(node for one in classes for node in one.body)]
    return {node.name for node in within if isinstance(node, functions)}


def test_each_source_has_its_table():
    assert tuple(tables()) == SOURCES
    assert all(len(rows) > 20 for rows in tables().values())


@pytest.mark.parametrize("row", ROWS)
def test_a_row_says_how_it_is_here_and_what_works_has_tests_that_there_are(row):
    described, here, tests = row
    assert described
    assert HERE.match(here), here
    named = TEST.findall(tests)
    assert tests == ", ".join(f"`{file}::{name}`" for file, name in named) or (tests, named) == ("-", [])
    assert named or not here.startswith("works"), described
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file() or name not in names_of_tests(file)
    ]
    assert not missing


def test_nothing_is_described_twice_in_a_table():
    for rows in tables().values():
        described = [row[0] for row in rows]
        assert len(described) == len(set(described))
