"""The figures of docs/operating.md, "Limits", and docs/notes/limits.md are those of the constants that they name."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
OPERATING, NOTES = ((DOCS / name).read_text(encoding="utf-8") for name in ("operating.md", "notes/limits.md"))
PAGE = OPERATING.partition("\n## Limits\n")[2] + NOTES
ROW = re.compile(
    r"^\| (?P<what>.*?) \| (?P<limit>.*?) \| .*? ?\| `(?P<file>[\w/]+)\.py: (?P<name>[\w.]+)` \|$"
)
UNITS = {
    "kB": 1e3,
    "MB": 1e6,
    "GiB": 2**30,
    "min": 60,
    "h": 3_600,
    "%": 0.01,
}
DAYS = {"VECTOR_GRACE_SECONDS": 86_400, "SESSION_SECONDS": 86_400}
"""Constants in seconds that the page gives in days."""

rows = [found for line in PAGE.splitlines() if (found := ROW.match(line))]


def figure(limit, name):
    number, _, unit = limit.partition(" ")
    factor = 1 if name.endswith("_mb") else UNITS.get(unit, DAYS.get(name, 1))
    return float(number.replace(",", "")) * factor


def constant(file, name):
    module = import_module(file.replace("/", "."))
    if name.startswith("Settings."):
        return module.Settings.model_fields[name.removeprefix("Settings.")].default
    return getattr(module, name)


def test_every_row_of_a_table_names_its_constant():
    told = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what |")]
    assert len(rows) == len(told) > 70


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in rows])
def test_a_figure_is_that_of_its_constant(row):
    assert figure(row["limit"], row["name"]) == pytest.approx(float(constant(row["file"], row["name"])))


@pytest.mark.parametrize("row", [row for row in rows if "*setting*" in row["what"]])
def test_what_is_called_a_setting_is_one(row):
    assert row["name"].startswith("Settings.")
