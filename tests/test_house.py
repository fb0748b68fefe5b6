"""The rules of the house that a reader can count."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("pipelines", "queue_config", "service", "workers")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LONGEST_MODULE = 400
LONGEST_FUNCTION = 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

each_module = pytest.mark.parametrize("path", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in MODULES])


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def public(body, prefix=""):
    """Yield the name and node of what others may use: functions and classes, and the methods of these."""
    for node in body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{node.name}.")


@each_module
def test_a_module_has_at_most_400_lines(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_MODULE


@each_module
def test_a_function_has_at_most_60_lines(path):
    lengths = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(parse(path))
        if isinstance(node, FUNCTIONS)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@each_module
def test_what_others_use_says_what_it_is(path):
    tree = parse(path)
    assert ast.get_docstring(tree), "the module has no docstring"
    assert [name for name, node in public(tree.body) if not ast.get_docstring(node)] == []


def test_no_module_is_a_drawer():
    drawers = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}
    assert [path for path in MODULES if path.stem in drawers or path.parent.name in drawers] == []


def test_the_packages_that_are_built_are_the_four():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(PACKAGES)
    assert sorted(project["tool"]["mypy"]["packages"]) == list(PACKAGES)
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert sorted(found) == list(PACKAGES)
