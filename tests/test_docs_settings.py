"""docs/settings.md agrees with the code."""

from __future__ import annotations

from pydantic import BaseModel

from pipelines.domains import DomainKeys
from queue_config.settings import EndpointSettings, Settings
from tests.settings_page import PAGE, render
from tests.structure import ROOT


def fields(model, prefix=""):
    """Yield the dotted name and field of each setting, those of sections included."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def test_the_tables_are_those_of_the_code():
    told = PAGE.read_text(encoding="utf-8")
    assert told == render(told), "renew them: python -m tests.settings_page"


def test_every_setting_is_on_the_page_and_says_what_it_does():
    told = PAGE.read_text(encoding="utf-8")
    for model in (Settings, DomainKeys):
        for name, field in fields(model):
            assert f"\n| `{name}`" in told, name
            assert field.description, name


def test_a_change_in_the_code_changes_the_page(monkeypatch):
    told = PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(Settings.model_fields["port"], "default", 1234)
    assert "| `1234` | the query worker's port" in render(told)


def test_every_key_of_an_endpoint_is_explained():
    told = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for name, field in EndpointSettings.model_fields.items():
        assert f"\n| `{name}` |" in told, name
        assert field.description, name
