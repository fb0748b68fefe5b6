"""What counts as a choice: opening, reading, citing; not being shown, and no note that the agent cannot see."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from pipelines.errors import NotFoundError
from pipelines.question import read_question
from pipelines.sqlite import connect
from pipelines.state.attention import WINDOW_S, Attention
from queue_config.settings import Settings
from service.cli.main import app as command
from service.mcp.library import Library
from service.mcp.notes import read, whole_text
from service.mcp.schemas import Read
from service.schemas.evidence import Cited, WriteBack
from service.usecases.evidence import Records
from service.usecases.explain import explain
from service.usecases.maintenance import index_once
from service.usecases.operations import attended_notes, forget
from service.usecases.search import View
from tests.service.web.test_ops_pages import shown, signed_in
from workers.attention import _RECORDER, chosen
from workers.resources import Resources

NOTES = {
    "Soil.md": "# Soil\n\nHealthy soil sleeps in winter.",
    "River.md": "# River\n\nThe boat is moored where the river bends.",
    "Diary.md": "---\nprivate: true\n---\n# Diary\n\nHealthy soil, secretly.",
}
NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    for name, text in NOTES.items():
        (vault / name).write_text(text)
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), attention=True)
    index_once(Resources(made), lambda *_: None)
    return made


@pytest.fixture
def resources(settings):
    return Resources(settings)


@pytest.fixture
def questions(resources):
    return View(resources, wait_for_model=True)


def recorded(resources):
    """Return the notes that were chosen, once everything is written."""
    _RECORDER.submit(lambda: None).result()
    return [(one.path, one.how) for one in resources.stores.of(Attention).choices()]


def test_a_note_that_is_opened_on_the_page_is_chosen_and_those_that_are_shown_are_not(settings, resources):
    browser = signed_in(settings)
    shown(browser, "/?q=soil")
    assert recorded(resources) == []
    shown(browser, "/notes/Soil.md")
    shown(browser, "/notes/Soil.md?raw=true")
    assert browser.get("/notes/Nowhere.md").status_code == 404
    assert recorded(resources) == [("Soil.md", "opened")]


def test_a_note_that_an_agent_reads_is_chosen_and_one_that_it_cannot_see_is_not(questions):
    library = Library(questions)
    library.view.search(read_question("soil"), 10)
    for name in ("Diary.md", "Nowhere.md"):
        with pytest.raises(NotFoundError):
            read(library, Read(note=name))
        with pytest.raises(NotFoundError):
            whole_text(library, name)
    assert recorded(questions.resources) == []
    read(library, Read(note="Soil.md"))
    whole_text(library, "vault://River.md")
    assert sorted(recorded(questions.resources)) == [("River.md", "read"), ("Soil.md", "read")]


def test_a_note_is_chosen_by_a_quote_that_it_has_and_not_by_a_record(questions):
    records = Records(questions)
    record = records.ask("soil")
    records.verify([Cited(path="River.md", quote="where the river bends")])
    assert recorded(questions.resources) == []
    citations = [
        Cited(path="Soil.md", quote="Healthy soil sleeps in winter."),
        Cited(path="River.md", quote="a sentence that the note does not have"),
        Cited(path="Nowhere.md", quote=None),
    ]
    records.write_back(WriteBack(id=record.id, citations=citations, notes="It sleeps."))
    assert recorded(questions.resources) == [("Soil.md", "cited")]


@pytest.fixture
def weighed(settings, questions):
    """The vault's questions, with weight for attention."""
    (settings.vault / "_domains.yaml").write_text("vault: {legacy: true, attention: 0.5}\n")
    return questions


def test_an_explanation_names_what_attention_adds(weighed):
    before = explain(weighed, read_question("soil winter"), "River.md", 10)
    weighed.resources.stores.of(Attention).add(["River.md"], "opened", datetime.now(UTC).timestamp())
    after = explain(weighed, read_question("soil winter"), "River.md", 10)
    assert "attention" not in before.signals
    assert after.signals["attention"] > 0.0
    (layer,) = (one for one in after.layers if one.layer == "attended")
    assert layer.parts["attention"] == pytest.approx(1.0, abs=1e-3)
    (hit,) = (
        hit
        for hit in weighed.search(read_question("soil winter"), 10, explain=True).results
        if hit.path == "River.md"
    )
    assert hit.signals["attention"] == pytest.approx(after.signals["attention"], abs=1e-3)


def test_choices_that_cannot_be_read_cost_no_answer(weighed):
    paths = [hit.path for hit in weighed.search(read_question("soil winter"), 10).results]
    connect(weighed.resources.place.state / "state.db").execute("DROP TABLE attention")
    with capture_logs() as logs:
        assert [hit.path for hit in weighed.search(read_question("soil winter"), 10).results] == paths
    assert "attention cannot be read" in [line["event"] for line in logs]


def test_notes_are_listed_by_their_attention_with_what_was_done(resources):
    store = resources.stores.of(Attention)
    week_ago = (NOW - timedelta(days=7)).timestamp()
    store.add(["Soil.md", "River.md"], "read", week_ago)
    store.add(["Soil.md"], "opened", week_ago + WINDOW_S)
    store.add(["Boat.md"], "promoted", NOW.timestamp())
    soil, boat, river = attended_notes(resources, NOW)
    assert (boat.path, boat.attention, boat.times) == ("Boat.md", 1.0, {"promoted": 1})
    assert (river.path, river.attention, river.last) == ("River.md", 0.5, "2026-11-16T00:00:00.000+00:00")
    assert (soil.path, soil.times) == ("Soil.md", {"opened": 1, "read": 1})
    assert 1.0 < soil.attention < 1.01


def test_attention_is_forgotten_of_one_note_or_of_all(resources):
    resources.stores.of(Attention).add(["Soil.md", "River.md"], "read", 0.0)
    with pytest.raises(NotFoundError, match="everindex attention list"):
        forget(resources, "Nowhere.md")
    assert forget(resources, "Soil.md") == 1
    assert recorded(resources) == [("River.md", "read")]
    assert forget(resources) == 1
    assert forget(resources) == 0


def test_the_commands_list_and_delete(settings, resources):
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]

    def run(*words):
        done = CliRunner().invoke(command, ["attention", *words, *place])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    assert "0 notes; recording is off" in run("list").output
    resources.stores.of(Attention).add(["Soil.md", "River.md"], "read", datetime.now(UTC).timestamp())
    assert "1.00  Soil.md  (read 1; last " in run("list").output
    assert json.loads(run("list", "--json").output)["notes"][0]["times"] == {"read": 1}
    assert run("delete").exit_code == 2
    assert run("delete", "Soil.md", "--all").exit_code == 2
    assert "deleted 1 choice" in run("delete", str(settings.vault / "Soil.md")).output
    assert "deleted 1 choice" in run("delete", "--all").output
    assert recorded(resources) == []


def test_a_domain_sets_how_far_apart_choices_are_recorded(weighed, settings):
    settings.vault.joinpath("_domains.yaml").write_text(
        "vault: {legacy: true, attention_session_minutes: 0}\n"
    )
    for _ in range(2):
        chosen(weighed.resources, ["Soil.md"], "opened")
    assert recorded(weighed.resources) == [("Soil.md", "opened")] * 2
    (note,) = attended_notes(weighed.resources, datetime.now(UTC))
    assert note.attention == pytest.approx(2.0, abs=1e-3)
    settings.vault.joinpath("_domains.yaml").write_text("vault: {legacy: true}\n")
    (note,) = attended_notes(weighed.resources, datetime.now(UTC))
    assert note.attention == pytest.approx(1.0, abs=1e-3)
