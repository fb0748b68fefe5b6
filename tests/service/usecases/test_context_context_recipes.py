"""A block by a recipe: slots filled from a note, as the use case, the route and the command give it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from pipelines.errors import CacheCorruptError, ContextsFileError, NoteNotFoundError, RecipeNotFoundError
from service.app import create_app
from service.cli.main import app as commands
from service.runtime.client import read_token
from service.usecases.context import Contexts, context_by_recipe
from service.usecases.search import View
from tests.working import indexed
from workers.resources import Resources

PORT = 8744
RECIPES = """
pre-analysis:
  slots:
    - {name: past, query: "{ticker} profit", where: {property.ticker: "{ticker}"}}
    - {name: peers, query: market share, neighbours: links, k: 2}
    - {name: lessons, query: "{ticker} note", where: {kind: review}}
broken:
  slots: [{query: "{nothing}"}, {query: garden, where: {nope: x}}, {query: profit}]
"""
NOTES = {
    "_contexts.yaml": RECIPES,
    "NVDA.md": "---\nticker: NVDA\n---\n# Nvidia\n\nThe market share. See [[AMD]] and [[Boat]].\n",
    "Past.md": "---\nticker: NVDA\n---\nThe profit of NVDA rose in winter.\n",
    "AMD.md": "---\nticker: AMD\n---\nMarket share and price.\n",
    "Boat.md": "The boat sails.\n",
    "Review.md": "---\nkind: review\n---\nA note on NVDA: sleep a night before you walk.\n",
    "Garden.md": "Compost and soil.\n",
}


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return indexed(vault, tmp_path / "state", tiny_model, NOTES)


@pytest.fixture
def questions(settings):
    return View(Resources(settings), wait_for_model=True)


def ask(questions, name="pre-analysis", about="NVDA.md", **more):
    return context_by_recipe(Contexts(questions), name, about, **more)


def by_slot(answer):
    found = {}
    for one in answer.passages:
        found.setdefault(one.slot, set()).add(one.path)
    return found


def test_linked_notes_come_however_far_their_subject_is(questions, monkeypatch):
    monkeypatch.setattr("service.usecases.context_passages.is_noise", lambda *_: True)
    assert {"AMD.md", "Boat.md"} <= {one.path for one in ask(questions).passages}


def test_each_slot_asks_its_question_and_the_note_itself_is_left_out(questions):
    answer = ask(questions)
    found = by_slot(answer)
    assert found["past"] == {"Past.md"}
    assert found["peers"] == {"AMD.md", "Boat.md"}
    assert "Review.md" in found["lessons"]
    assert "NVDA.md" not in set().union(*found.values())
    assert (answer.recipe, answer.question, answer.budget, answer.warnings) == (
        "pre-analysis",
        None,
        8_000,
        [],
    )
    assert [line for line in answer.block.splitlines() if line.startswith("## ")] == [
        "## past",
        "## peers",
        "## lessons",
    ]
    assert {one.why for one in answer.passages if one.slot == "peers"} == {"linked with NVDA.md"}


def test_each_slot_gets_its_share_of_a_small_budget(questions):
    answer = ask(questions, budget=900)
    assert answer.tokens <= 900
    assert len(by_slot(answer)) >= 2


def test_a_slot_that_cannot_be_filled_is_left_out_with_a_warning(questions):
    answer = ask(questions, "broken")
    assert answer.passages
    assert "a slot is left out: NVDA.md has no property 'nothing'" in answer.warnings
    assert any("there is no filter 'nope'" in warning for warning in answer.warnings)


def test_a_note_without_links_has_no_neighbours(questions):
    answer = ask(questions, about="Review.md")
    assert "a slot is left out: Review.md has no property 'ticker'" in answer.warnings
    assert "a slot is left out: Review.md has no links to or from other notes" in answer.warnings
    assert (answer.block, answer.passages) == ("", [])


def test_a_slot_that_finds_nothing_says_so(questions, vault):
    (vault / "_contexts.yaml").write_text("empty: {slots: [{query: profit, where: {kind: nothing}}]}")
    assert ask(questions, "empty").warnings == ["profit: no note was found for 'profit'"]


def test_a_note_that_cannot_be_looked_up_gives_an_empty_block(questions, monkeypatch):
    def fail():
        raise CacheCorruptError("the cache is damaged")

    monkeypatch.setattr(questions, "readers", fail)
    assert ask(questions).warnings == ["the search failed, so the block is empty: the cache is damaged"]


def test_what_does_not_exist_is_an_error(questions, vault):
    with pytest.raises(NoteNotFoundError):
        ask(questions, about="None.md")
    with pytest.raises(RecipeNotFoundError):
        ask(questions, "none")
    (vault / "_contexts.yaml").write_text("a: {slot: 1}")
    with pytest.raises(ContextsFileError):
        ask(questions)


def test_a_search_that_fails_gives_an_empty_block_and_a_warning(questions, monkeypatch):
    def fail(*_, **__):
        raise CacheCorruptError("the cache is damaged")

    monkeypatch.setattr(questions, "page", fail)
    answer = ask(questions)
    assert answer.block == ""
    assert answer.warnings == ["the search failed, so the block is empty: the cache is damaged"]


def test_the_route_and_the_command_answer_alike(settings, vault):
    client = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    client.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    got = client.get("/context/pre-analysis", params={"about": "NVDA.md"})
    assert got.json()["recipe"] == "pre-analysis"
    assert client.get("/context/none", params={"about": "NVDA.md"}).status_code == 404
    assert client.get("/context/pre-analysis", params={"about": "No.md"}).status_code == 404
    given = ["--vault", str(settings.vault), "--state", str(settings.state)]
    done = CliRunner().invoke(commands, ["context", "--recipe", "pre-analysis", "Nvidia", *given])
    assert done.stdout.startswith("# pre-analysis: Nvidia\n")
    done = CliRunner().invoke(commands, ["context", "--recipe", "x", "Nvidia", "-f", "tag=x", *given])
    assert done.exit_code == 2
    (vault / "_contexts.yaml").write_text("a: 1")
    assert client.get("/context/a", params={"about": "NVDA.md"}).status_code == 409
