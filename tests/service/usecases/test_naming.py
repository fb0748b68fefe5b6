"""What a name means is the same for a person in a terminal, in a browser, and for an agent."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

from pipelines.errors import NotFoundError
from service.app import create_app
from service.cli.in_process import InProcess
from service.cli.naming import about_note, node_at
from service.mcp.library import Library
from service.mcp.naming import meant_by
from service.runtime.client import read_token
from service.usecases.search import View
from tests.working import indexed
from workers.resources import Resources

PORT = 8748
NOTES = {
    "_domains.yaml": "all: {legacy: true, formats: [md, txt]}\n",
    "Sleep/Protecting Sleep.md": "---\naliases: [Rest]\n---\n# How to sleep\n\nDarkness helps.\n",
    "Soil.md": "---\naliases: [The soil]\n---\n# Soil\n\nIt is alive.\n",
    "Attic/Soil.md": "---\naliases: [The soil]\n---\n# Soil\n\nAn older one.\n",
    "Attic/C# notes.md": "Sharp.\n",
    "Attic/Seeds.txt": "Peas and beans.\n",
}
SLEEP = ["Sleep/Protecting Sleep.md"]
SOILS = ["Attic/Soil.md", "Soil.md"]
MEANT = {
    "Sleep/Protecting Sleep.md": SLEEP,
    "Sleep/Protecting Sleep": SLEEP,
    "protecting-sleep": SLEEP,
    "Protecting Sleep.md": SLEEP,
    "HOW TO SLEEP": SLEEP,
    "rest": SLEEP,
    "Soil.md": ["Soil.md"],
    "Seeds": ["Attic/Seeds.txt"],
    "seeds.txt": ["Attic/Seeds.txt"],
    "C# notes": ["Attic/C# notes.md"],
    "The soil": SOILS,
}


@pytest.fixture(scope="module")
def doors(tmp_path_factory, tiny_model):
    """What each door answers to a name: the paths of the notes that it means."""
    base = tmp_path_factory.mktemp("named")
    (base / "vault").mkdir()
    settings = indexed(base / "vault", base / "state", tiny_model, NOTES)
    questions = View(Resources(settings))
    library = Library(questions)
    client = InProcess(questions.resources)
    headers = {"Authorization": f"Bearer {read_token(settings.state)}", "Accept": "text/html"}
    pages = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}", headers=headers)

    def in_a_browser(name):
        page = unescape(pages.get("/ops/notes", params={"q": name}).text)
        assert "similar name" not in page
        listed = re.findall(r'<li><a href="/ops/notes\?q=([^"]+)">', page)
        return [unquote(path) for path in listed] or re.findall(r'<p class="where">(.+\.(?:md|txt))', page)

    return {
        "terminal": lambda name: [about_note(client, name, lambda path: node_at(client, path)["path"])],
        "agent": lambda name: [meant_by(library, name).path],
        "browser": in_a_browser,
    }


@pytest.mark.parametrize(("name", "paths"), MEANT.items())
@pytest.mark.parametrize("door", ["terminal", "agent", "browser"])
def test_a_name_means_the_same_notes_at_every_door(doors, door, name, paths):
    if len(paths) == 1 or door == "browser":
        assert sorted(doors[door](name)) == paths
        return
    with pytest.raises(NotFoundError) as raised:
        doors[door](name)
    assert sorted(re.findall(r"[\w/]+\.md", str(raised.value))) == paths


@pytest.mark.parametrize("name", ["Protecting Slep", "Sleep/Protecting Slep.md"])
@pytest.mark.parametrize("door", ["terminal", "agent"])
def test_a_name_that_no_note_has_is_answered_with_those_like_it(doors, door, name):
    with pytest.raises(NotFoundError, match=r"; did you mean Sleep/Protecting Sleep\.md"):
        doors[door](name)
