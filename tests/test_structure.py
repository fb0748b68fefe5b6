"""The structure of the packages stays within bounds, and what counts it counts rightly."""

from __future__ import annotations

import pytest

from tests.structure import (
    called_once,
    circles,
    floors,
    folder_sizes,
    imports,
    line_kinds,
    measure,
    neighbours,
    read,
    rooms,
    summary,
)

FILES = {
    "__init__.py": "",
    "face.py": "from house.cellar.wine import pour",
    "top.py": "from house.face import pour\nimport house.cellar.coal",
    "attic/__init__.py": "",
    "attic/trunk.py": "def lift():\n    from house import top",
    "cellar/__init__.py": "from house.cellar.coal import burn",
    "cellar/coal.py": "def burn(): ...",
    "cellar/wine.py": "from house.cellar import burn\ndef pour(): ...",
}


@pytest.fixture
def house(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return tmp_path


def test_a_name_that_is_handed_on_counts_for_the_module_that_defines_it(house):
    found = imports(read("house", root=house))
    assert found["house.top"] == {"house.cellar.wine", "house.cellar.coal"}
    assert found["house.cellar.wine"] == {"house.cellar.coal"}


def test_a_room_is_a_folder_or_a_module_outside_of_one(house):
    graph = rooms(read("house", root=house))
    assert graph == {
        "house.attic": {"house.top"},
        "house.top": {"house.cellar"},
        "house.face": {"house.cellar"},
        "house.cellar": set(),
    }
    assert floors(graph) == {"house.cellar": 1, "house.face": 2, "house.top": 2, "house.attic": 3}
    figures = measure("house", house)
    assert (figures.modules, figures.rooms, figures.floors, figures.arrows) == (8, 4, 3, 3)


def test_a_circle_is_found(house):
    (house / "house/cellar/coal.py").write_text("from house.attic.trunk import lift\n")
    figures = measure("house", house)
    assert figures.circles
    assert set(figures.circles[0]) == {"house.attic", "house.top", "house.cellar"}
    assert circles({"a": {"b"}, "b": set()}) == []


def test_a_module_that_one_other_of_its_folder_alone_imports_is_its_neighbour(house):
    (house / "house/cellar/dust.py").write_text("def sweep(): ...\n")
    (house / "house/cellar/wine.py").write_text("from house.cellar.dust import sweep\ndef pour(): ...\n")
    assert neighbours(read("house", root=house)) == {"house.cellar.dust": "house.cellar.wine"}
    (house / "house/attic/trunk.py").write_text("def lift():\n    from house.cellar.dust import sweep\n")
    trees = read("house", root=house)
    assert neighbours(trees) == {}
    assert folder_sizes(trees) == {"house": 2, "house.attic": 1, "house.cellar": 3}


def test_lines_are_counted_by_kind():
    text = '''"""What it is.

More.
"""

import os  # where
from a import (
    b,
)


def call():
    # Why.
    return """
# text
"""
'''
    assert line_kinds(text) == {"docstring": 4, "import": 4, "blank": 3, "comment": 1, "code": 4}


def test_private_functions_that_are_called_once_are_counted(house):
    (house / "house/top.py").write_text(
        "def _once(): ...\ndef _twice(): ...\ndef _handed(): ...\n"
        "def use(): _once(), _twice(), _twice(), map(_handed, ())\n"
    )
    assert called_once(read("house", root=house)) == {"house.top._once": 1}
    assert "private functions that are called once 1, with 1 lines" in summary(("house",), house)


def test_the_service_has_few_rooms_and_no_long_modules():
    figures = measure("service")
    assert figures.rooms <= 12
    assert figures.floors <= 7
    assert figures.arrows <= 30
    assert figures.largest[0] <= 800
    assert figures.long_functions == {}


@pytest.mark.parametrize("package", ["everindex", "pipelines", "queue_config", "service", "workers"])
def test_no_package_has_a_circle_of_modules(package):
    assert circles(imports(read(package))) == []


@pytest.mark.parametrize("package", ["everindex", "pipelines", "queue_config", "service", "workers"])
def test_no_package_has_a_circle_of_rooms(package):
    assert measure(package).circles == []
