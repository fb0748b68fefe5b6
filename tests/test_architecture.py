"""docs/architecture.md agrees with the code."""

from __future__ import annotations

import ast
import re

import pytest

from tests.module_map import BEGIN, PACKAGES, PAGE, public_names, render
from tests.structure import ROOT, read


def test_the_module_map_is_that_of_the_code():
    told = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].lstrip("\n")
    assert told == render(read(*PACKAGES)), "renew it: python -m tests.module_map"


def test_the_map_names_what_other_rooms_use_however_they_import_it():
    trees = {
        "house": "",
        "house.attic": '"""The top."""',
        "house.attic.trunk": "from house.cellar import wine\nfrom house.cellar.coal import burn\nwine.pour()",
        "house.cellar": '"""The ground."""',
        "house.cellar.coal": "from house.cellar.wine import cork",
        "house.cellar.wine": "",
    }
    found = public_names({name: ast.parse(text) for name, text in trees.items()})
    assert found["house.cellar"] == {"house.cellar.wine": {"pour"}, "house.cellar.coal": {"burn"}}
    assert found["house.attic"] == {}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_what_a_page_names_exists(page):
    """A path in backticks is a file or folder of the project."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(BEGIN)[0]
    paths = re.findall(
        r"`((?:\.ci|benchmarks|docs|pipelines|queue_config|service|tests|workers)/[\w./-]*)`", text
    )
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
