"""Every benchmark can be started: they are run by hand, so nothing else would notice what they import and is gone."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import benchmarks

MODULES = sorted(
    file.stem for file in Path(benchmarks.__file__).parent.glob("*.py") if not file.stem.startswith("__")
)


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_finds_what_it_imports(name):
    importlib.import_module(f"benchmarks.{name}")
