"""The log of a note over HTTP, on its pages and as a command."""

from __future__ import annotations

import json
from contextlib import closing
from html import escape
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from pipelines.state.note_log import NoteEvent, NoteLog
from service.app import create_app
from service.cli.main import app
from service.runtime.client import read_token
from service.usecases.maintenance import index_once
from tests.browser.serving import cookie_of
from tests.working import indexed
from workers.resources import Resources

PORT = 8741


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    """A vault in which a note was indexed, then renamed, and another was removed."""
    notes = {"Soil.md": "# Soil\n\nBread and yeast.", "Gone.md": "The boat."}
    made = indexed(vault, tmp_path / "state", tiny_model, notes)
    (vault / "Garden").mkdir()
    (vault / "Soil.md").rename(vault / "Garden" / "Soil.md")
    (vault / "Gone.md").unlink()
    index_once(Resources(made), lambda *_: None, confirmed=True)
    return made


@pytest.fixture
def client(settings):
    made = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    made.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return made


@pytest.fixture
def everindex(settings):
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]
    return lambda *words: CliRunner().invoke(app, [*words, *place])


def told(answer):
    return [(entry["action"], entry["renamed_to"], entry["renamed_from"]) for entry in answer["entries"]]


def test_the_log_of_a_renamed_note_is_found_by_both_paths(client):
    assert told(client.get("/log/Garden/Soil.md").json()) == [("renamed", None, "Soil.md")]
    assert told(client.get("/log/Soil.md").json()) == [
        ("renamed", "Garden/Soil.md", None),
        ("embedded", None, None),
        ("indexed", None, None),
    ]


def test_an_entry_has_all_facts(client, settings):
    found = client.get("/log/Soil.md").json()["entries"]
    _, embedded, indexed = found
    assert (indexed["passages"], indexed["texts_embedded"], indexed["vectors_pending"]) == (1, 0, True)
    assert (embedded["passages"], embedded["texts_embedded"], embedded["vectors_pending"]) == (None, 1, False)
    with closing(Resources(settings).reader(Resources(settings).domains()[0])) as cache:
        assert {(entry["model"], entry["pipeline"]) for entry in found} == {
            (cache.meta.model, cache.meta.pipeline)
        }


def test_the_newest_entries_are_returned_up_to_a_limit(client):
    assert told(client.get("/log/Soil.md", params={"limit": 1}).json()) == [
        ("renamed", "Garden/Soil.md", None)
    ]
    assert client.get("/log/Soil.md", params={"limit": 0}).status_code == 422


def test_a_removed_note_still_has_its_log_and_an_unknown_one_says_why_it_has_none(client):
    gone = client.get("/log/Gone.md").json()
    assert told(gone)[0] == ("removed", None, None)
    assert [entry["reason"] for entry in gone["entries"]] == ["deleted", None, None]
    answer = client.get("/log/Never.md")
    assert answer.status_code == 404
    assert "there is no such file" in answer.text


def test_an_indexed_note_whose_log_was_pruned_has_no_entry(client, settings, everindex):
    with closing(NoteLog(settings.state)) as log:
        log.prune(days=14, most=0)
    assert client.get("/log/Garden/Soil.md").json() == {"path": "Garden/Soil.md", "entries": []}
    assert everindex("log", "Garden/Soil.md").stdout == "nothing happened to it since the log begins\n"


def test_the_command_prints_aligned_columns_and_takes_a_title(everindex):
    done = everindex("log", "Soil")
    assert done.exit_code == 0, done.output
    heading, line = done.stdout.splitlines()
    assert heading.split() == ["when", "what", "passages", "embedded", "ms", "model", "pipeline", "error"]
    assert line[heading.index("what") :].startswith("renamed from Soil.md  ")
    assert line[: heading.index("embedded") + len("embedded")].split()[-2:] == ["1", "0"]


def test_the_command_says_why_a_note_was_removed(everindex, settings):
    assert "  removed from the index (deleted)  " in everindex("log", "Gone.md").stdout
    (settings.vault / ".everindexignore").write_text("Garden/\n", encoding="utf-8")
    index_once(Resources(settings), lambda *_: None, confirmed=True)
    line = everindex("log", "Garden/Soil.md").stdout.splitlines()[1]
    assert "  removed from the index (ignored by a rule)  " in line
    with closing(NoteLog(settings.state)) as log:
        log.add("vault", "m", "5:1/1/1", [NoteEvent("Old.md", "removed", 2.0)])
    assert "  removed from the index  " in everindex("log", "Old.md").stdout


def test_the_command_says_which_entries_are_parts_and_why_a_note_was_parked(everindex, settings):
    with closing(NoteLog(settings.state)) as log:
        part = NoteEvent("Long.md", "embedded", 1_500.0, texts_embedded=256, vectors_pending=True)
        parked = NoteEvent("Long.md", "parked", 2.0, error="too-large: it is \x1b[31mtoo large")
        log.add("vault", "m", "5:1/1/1", [part, parked])
    _, parked_line, part_line, hint = everindex("log", "Long.md").stdout.splitlines()
    assert parked_line.endswith(r"too-large: it is \x1b[31mtoo large")
    assert part_line.split()[2:] == ["embedded", "256+", "1,500", "m", "5:1/1/1"]
    assert hint == "+ more of its texts are embedded later"


def test_the_command_returns_the_routes_answer_as_json_and_fails_for_an_unknown_note(everindex, client):
    assert json.loads(everindex("log", "Soil.md", "--json").stdout) == client.get("/log/Soil.md").json()
    done = everindex("log", "Never.md")
    assert done.exit_code == 1


def test_the_pages_show_the_log_as_text(client, settings):
    with closing(NoteLog(settings.state)) as log:
        log.add("vault", "m", "p", [NoteEvent("Garden/Soil.md", "parked", 2.0, error="<b>bold</b>")] * 7)
    client.headers.update({"Accept": "text/html", "Cookie": "=".join(cookie_of(settings, PORT))})
    del client.headers["Authorization"]
    page = client.get("/notes/Garden/Soil.md").text
    assert page.count("&lt;b&gt;bold&lt;/b&gt;") == 5
    assert '<a href="/ops/notes?q=Garden/Soil.md#log">' in page
    details = client.get("/ops/notes", params={"q": "Garden/Soil.md"}).text
    assert details.count("&lt;b&gt;bold&lt;/b&gt;") == 7
    assert 'id="log"' in details
    assert "renamed from Soil.md" in details
    gone = client.get("/ops/notes", params={"q": "Gone.md"}).text
    assert "removed from the index (deleted)" in gone
    assert "renamed to Garden/Soil.md" in client.get("/ops/notes", params={"q": "Soil.md"}).text


def test_the_page_of_a_renamed_note_links_to_its_new_page(client, settings):
    name = "Garden/`a` #<b>?.md"
    (settings.vault / "Garden" / "Soil.md").rename(settings.vault / name)
    index_once(Resources(settings), lambda *_: None, confirmed=True)
    client.headers.update({"Accept": "text/html", "Cookie": "=".join(cookie_of(settings, PORT))})
    del client.headers["Authorization"]
    for old in ("Soil.md", "Garden/Soil.md"):
        page = client.get(f"/notes/{old}")
        assert page.status_code == 404
        assert f'renamed to <a href="/notes/{quote(name)}">{escape(name)}</a></p>' in page.text
    assert client.get(f"/notes/{quote(name)}").status_code == 200
