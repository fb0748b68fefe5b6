"""docs/architecture.md and CONTRIBUTING.md name what exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.structure import FUNCTIONS, PACKAGES, ROOT, read

NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")


@pytest.fixture(scope="module")
def trees():
    return read(*PACKAGES)


def names_in(body):
    """Return what statements define, by name: the body of a class, None for what has nothing below it."""
    found = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = node.body
        elif isinstance(node, FUNCTIONS):
            found[node.name] = None
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: None for target in targets if isinstance(target, ast.Name)}
    return found


def exists(name, trees):
    """Say whether a dotted name is a module, or a function, class, method or constant that one defines."""
    parts = name.split(".")
    known = [count for count in range(1, len(parts) + 1) if ".".join(parts[:count]) in trees]
    if not known:
        return False
    body = trees[".".join(parts[: known[-1]])].body
    for part in parts[known[-1] :]:
        if part not in names_in(body or []):
            return False
        body = names_in(body)[part]
    return True


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("house.cellar", True),
        ("house.cellar.pour", True),
        ("house.cellar.Wine.age", True),
        ("house.cellar.Wine.LABEL", True),
        ("house.cellar.drink", False),
        ("house.cellar.Wine.pour", False),
        ("house.cellar.pour.age", False),
        ("house.attic.pour", False),
        ("shed", False),
    ],
)
def test_a_name_exists_if_its_module_defines_it(name, expected):
    text = "from house.bar import drink\ndef pour(): ...\nclass Wine:\n  LABEL = 1\n  def age(self): ..."
    assert exists(name, {"house": ast.parse(""), "house.cellar": ast.parse(text)}) is expected


def test_what_the_walks_name_exists(trees):
    names = NAME.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert len(names) > 100
    assert [name for name in names if not exists(name, trees)] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_paths_that_a_page_names_exist(page):
    """A path in backticks is a file or folder of the project."""
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(
        r"`((?:\.ci|benchmarks|docs|everindex|pipelines|queue_config|service|tests|workers)/[\w./-]*)`", text
    )
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
