"""The vault that a command's options select, while its folder is there and while it is not."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from queue_config.settings import Settings
from service.cli.main import app
from service.usecases.maintenance import index_once
from workers.resources import Resources


@pytest.fixture
def everindex(vault, tmp_path, tiny_model):
    """Run a command on a vault of one note, which was indexed and then moved away."""
    (vault / "a.md").write_text("The garden soil.")
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    vault.rename(tmp_path / "moved")
    place = ["--vault", str(vault), "--state", str(tmp_path / "state")]
    return lambda *words: CliRunner().invoke(app, [*words, *place], catch_exceptions=False)


@pytest.mark.parametrize("words", [("search", "garden", "soil"), ("list",), ("show", "a.md")])
def test_a_vault_that_is_moved_away_is_still_answered_for_and_the_answer_says_so(everindex, vault, words):
    done = everindex(*words)
    assert done.exit_code == 0
    assert "a.md" in done.stdout
    assert f"the vault {vault} is not there" in done.stderr
    assert "mount it or move it back" in done.stderr


def test_the_status_of_a_vault_that_is_moved_away_names_the_problem(everindex, vault):
    facts = json.loads(everindex("status", "--json").stdout)
    assert not facts["vault_present"]
    assert facts["domains"]["vault"]["notes"] == 1
    assert any(f"the vault {vault} is not there" in problem for problem in facts["problems"])
