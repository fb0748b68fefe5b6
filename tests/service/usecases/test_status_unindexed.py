"""Where no note answers, each door of the owner's names a file that is not indexed and is called as it was asked."""

from __future__ import annotations

import re
from html import unescape

import pytest
from click.testing import CliRunner

from pipelines.filters import parse_filters
from pipelines.question import read_question
from pipelines.vault.ignore import IGNORE_FILE
from queue_config.settings import Settings
from service.cli.main import app
from service.mcp.library import Library
from service.mcp.schemas import Search
from service.mcp.search import search
from service.usecases.audience import agents
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.service.web.test_ops_pages import shown, signed_in
from workers.resources import Resources

FILES = {
    "Soil.md": "# Soil\n\nClay holds water.\n",
    "Drafts/Quixotic zebra.md": "# Q\n\nA secret about marmalade.\n",
    "papers/Quagga anatomy 2025.pdf": "%PDF-1.4",
    "papers/quagga.png": "x",
    "quokka.sync-conflict-1.md": "q",
    IGNORE_FILE: "Drafts/\n",
    "_domains.yaml": "all: {legacy: true}\n",
}


@pytest.fixture
def settings(vault, tmp_path, tiny_model, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    for path, text in FILES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    return made


@pytest.fixture
def named(settings):
    view = View(Resources(settings), wait_for_model=True)
    return lambda typed: [one.path for one in view.search(read_question(typed), 10).unindexed]


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("quixotic zebra", "Drafts/Quixotic zebra.md"),
        ("QUIXOTIC ZEBRAS", "Drafts/Quixotic zebra.md"),
        ('"quixotic zebra"', "Drafts/Quixotic zebra.md"),
        ("where is the zebra that was so quixotic, in Rome?", "Drafts/Quixotic zebra.md"),
        ("quagga", "papers/Quagga anatomy 2025.pdf"),
        ("the anatomy of the quagga", "papers/Quagga anatomy 2025.pdf"),
    ],
)
def test_a_file_that_is_not_indexed_is_named_by_the_words_of_the_question(named, typed, path):
    assert named(typed) == [path]


@pytest.mark.parametrize(
    "typed",
    [
        "a zebra in Rome",
        "the papers of 2025 by Darwin",
        "quokka sync conflict",
        "domains",
        "the",
        "folder:Drafts",
        "%",
        "drafts",
    ],
)
def test_a_file_that_shares_little_with_the_question_or_is_no_note_by_design_is_not_named(named, typed):
    assert named(typed) == []


def test_a_file_is_not_named_where_a_note_answers_once_it_is_indexed_or_gone(named, settings, vault):
    (vault / "Drafts/Clay holds water.md").write_text("x")
    index_once(Resources(settings), lambda *_: None)
    assert named("clay holds water") == []
    assert named("quixotic zebra")
    (vault / "Drafts/Quixotic zebra.md").rename(vault / "Drafts/Gone.md")
    assert named("quixotic zebra") == []  # before a comparison knows it


def test_notes_of_another_domain_of_that_name_do_not_hide_it(settings, vault):
    (vault / "_domains.yaml").write_text("all: {legacy: true}\nwork: {path: Work}\n")
    for path in (*(f"Work/Wombat {number}.md" for number in range(30)), "Zoo/Wombat kept.md"):
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text("Nothing of the kind.\n")
    (vault / IGNORE_FILE).write_text("Zoo/\n")
    index_once(Resources(settings), lambda *_: None)
    view = View(Resources(settings), wait_for_model=True)
    answer = view.search(read_question("wombat", parse_filters([("domain", "all")])), 10)
    assert [one.path for one in answer.unindexed] == ["Zoo/Wombat kept.md"]


def test_the_command_names_it_with_the_reason_and_the_command_that_says_what_to_do(settings):
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]
    said = CliRunner().invoke(app, ["search", "quixotic zebra", *place], catch_exceptions=False).stdout
    line = "Drafts/Quixotic zebra.md is called so, but is ignored: .everindexignore:1: Drafts/"
    assert f"{line}; `everindex why 'Drafts/Quixotic zebra.md'` says what to do\n" in said


@pytest.mark.parametrize("typed", ["quixotic zebra", '"quixotic zebra"'])
def test_the_page_names_it_and_leads_to_its_state_and_what_to_do(settings, typed):
    browser = signed_in(settings)
    page = shown(browser, f"/parts/answers?q={typed}")
    assert "Drafts/Quixotic zebra.md is called so, but is ignored: .everindexignore:1: Drafts/" in unescape(
        page
    )
    (link,) = re.findall(r'<p class="unindexed">.*?<a href="([^"]+)">What to do</a>', page)
    page = shown(browser, unescape(link))
    assert "<dt>What to do</dt><dd><code>everindex ignore --undo Drafts</code> removes that line</dd>" in page


def test_where_no_note_answers_the_owner_is_told_how_many_files_are_not_indexed_and_finds_them_listed(
    settings,
):
    line = "2 files are ignored and 1 PDF is not indexed"
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]
    said = CliRunner().invoke(app, ["search", "xylophones", *place], catch_exceptions=False).stdout
    assert f"{line}; `everindex status` says which\n" in said
    said = CliRunner().invoke(app, ["status", *place], catch_exceptions=False).stdout
    assert re.search(r"^ignored: quokka.sync-conflict-1.md \(.*\)$", said, re.MULTILINE)
    browser = signed_in(settings)
    page = shown(browser, "/parts/answers?q=%22xylophones%22")
    assert f'{line} · <a href="/ops/notes#left-out">see which</a>' in page
    page = shown(browser, "/ops/notes")
    assert "Of formats that are not asked for: 1 PDF." in page
    assert '<a href="/ops/notes?q=quokka.sync-conflict-1.md">quokka.sync-conflict-1.md</a>' in page
    page = shown(browser, "/ops")
    assert "2 files are ignored" in page
    assert "Everything that was saved" not in page


def test_an_agent_is_told_of_no_such_file(settings):
    resources = Resources(settings)
    view = View(resources, wait_for_model=True)
    assert view.search(read_question("quixotic zebra"), 10).unindexed
    assert view.seen_by(agents(resources)).search(read_question("quixotic zebra"), 10).unindexed == []
    assert view.seen_by(agents(resources)).search(read_question("xylophones"), 10).not_indexed is None
    said = search(Library(view), Search(query="quixotic zebra")).model_dump_json()
    assert "Drafts" not in said
    assert "ignored" not in said
