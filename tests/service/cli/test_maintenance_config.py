"""What `everindex config` shows."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pipelines.domains import DomainKeys
from queue_config.settings import Settings
from service.cli.main import app


@pytest.fixture
def config(vault):
    """Return the rows that the command prints for the vault, by name, and what it says beside them."""

    def run():
        done = CliRunner().invoke(app, ["config", "--vault", str(vault), "--json"], catch_exceptions=False)
        assert done.exit_code == 0
        return json.loads(done.stdout), done.stderr

    return run


def wanted(model):
    return [name for name, field in model.model_fields.items() if field.examples]


def test_the_settings_of_the_page_are_shown_and_what_holds_for_a_vault_without_domains(config):
    rows, said = config()
    assert [*rows] == [*wanted(Settings), *(f"*.{key}" for key in wanted(DomainKeys)), "vault.legacy"]
    assert rows["*.formats"]["from"] == rows["vault.legacy"]["from"] == "default"
    assert rows["vault.legacy"]["value"] == "on"
    assert said == ""


def test_what_the_domains_state_is_shown_as_it_is_written(config, vault):
    (vault / "_domains.yaml").write_text(
        "books: {path: a/b, formats: [md, pdf], llm: off}\nrest:\n  legacy: true\n  graph: {mode: walk, restart: 0.5}\n"
    )
    stated = {name: row["value"] for name, row in config()[0].items() if row["from"] == "_domains.yaml"}
    assert stated == {
        "books.path": "a/b",
        "books.formats": "[md, pdf]",
        "books.llm": "off",
        "rest.legacy": "on",
        "rest.graph": "{mode: walk, restart: 0.5}",
    }


def test_an_invalid_file_is_named_and_the_settings_are_shown(config, vault):
    (vault / "_domains.yaml").write_text("books: {formts: [md]}\n")
    rows, said = config()
    assert {name.partition(".")[0] for name in rows if "." in name} == {"*"}
    assert "did you mean 'formats'?" in said
