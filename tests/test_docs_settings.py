"""docs/settings.md and docs/notes/ranking-options.md agree with the code."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from pydantic import BaseModel

from pipelines.domains import DomainKeys, parse
from queue_config.settings import RETIRED, ChatSettings, EndpointSettings, Settings
from tests.settings_page import OTHERS, PAGE, TABLE, render
from tests.structure import ROOT

WANTED = re.compile(r"^\| `(\w+)` \|.*\| `([^`]+)` \|$", re.MULTILINE)
"""A row of a table of the settings page: the name and the example."""

ROW = re.compile(r"^\| `([\w.]+)` \|", re.MULTILINE)


def fields(model, prefix=""):
    """Yield the dotted name and field of each setting, those of sections included."""
    for name, field in model.model_fields.items():
        if (
            isinstance(field.annotation, type)
            and issubclass(field.annotation, BaseModel)
            and not field.examples
        ):
            yield from fields(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


@pytest.mark.parametrize("page", [PAGE, OTHERS], ids=lambda page: page.stem)
def test_the_tables_are_those_of_the_code(page):
    told = page.read_text(encoding="utf-8")
    assert told == render(told), "renew them: python -m tests.settings_page"


def test_every_setting_is_on_the_page_and_says_what_it_does():
    """Each once: on the page of those that a person may want, or on that of the others."""
    told = [found for page in (PAGE, OTHERS) for found in TABLE.findall(page.read_text(encoding="utf-8"))]
    for model, of, retired in ((Settings, "process", RETIRED), (DomainKeys, "domain", {})):
        rows = [row for _, table, text, _ in told if table.endswith(of) for row in ROW.findall(text)]
        assert sorted(rows) == sorted({name for name, _ in fields(model)} - {*retired})
        assert all(field.description for _, field in fields(model))


def test_a_person_has_25_settings_to_hold():
    told = PAGE.read_text(encoding="utf-8")
    assert len(WANTED.findall(told)) == 25, (
        "a new one has no example, or takes the place of one that fewer want"
    )
    assert "These 25 are the ones" in told


def test_every_example_of_the_settings_page_is_valid_and_is_no_default():
    read = 0
    for name, example in WANTED.findall(PAGE.read_text(encoding="utf-8")):
        if example.startswith(f"{name} = "):
            given = Settings(**tomllib.loads(example))
            assert getattr(given, name) != Settings.model_fields[name].default, name
        else:
            assert parse(f"a:\n  {example}\n") != parse("a: {}"), name
            assert [*yaml.safe_load(example)] == [name]
        read += 1
    assert read > 20


def test_every_key_of_a_section_is_in_its_row_or_on_the_page_that_explains_it():
    rows = {
        line.split("`")[1]: line for line in PAGE.read_text(encoding="utf-8").splitlines() if "| `" in line
    }
    records = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
    for section, field in DomainKeys.model_fields.items():
        if field.examples and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            for name, _ in fields(field.annotation):
                key = name.rpartition(".")[2]
                assert key in rows[section] or f" {key}: " in records, (section, key)


def test_a_change_in_the_code_changes_the_page(monkeypatch):
    told = PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(Settings.model_fields["port"], "default", 1234)
    assert "| `port` | `1234` |" in render(told)


@pytest.mark.parametrize("table", [EndpointSettings, ChatSettings])
def test_every_key_of_a_table_is_explained(table):
    told = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for name, field in table.model_fields.items():
        assert f"\n| `{name}` |" in told, name
        assert field.description, name
