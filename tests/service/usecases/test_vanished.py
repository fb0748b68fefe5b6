"""Notes that vanished at once: the index keeps them for a while, and until then every answer is without them."""

from __future__ import annotations

import json
import shutil

import pytest
from starlette.testclient import TestClient

from pipelines.filters import Filters
from pipelines.question import read_question
from queue_config.settings import Settings
from service.app import create_app
from service.runtime.client import read_token
from service.usecases.browsing import list_notes
from service.usecases.links import Links, export_graph
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

PORT = 8741
GONE = 25


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    (vault / "user").mkdir()
    for number in range(GONE):
        (vault / "user" / f"{number}.md").write_text(f"# Tool {number}\n\n[[{(number + 1) % GONE}]]\n")
    (vault / "Home.md").write_text("# Home\n\n[[user/3]] and [[Garden]] and [[Nowhere]]\n")
    (vault / "Garden.md").write_text("# Garden\n\nA tool for the [[Home]].\n")
    return Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))


@pytest.fixture
def resources(settings, vault):
    made = Resources(settings)
    index_once(made, lambda *_: None)
    shutil.rmtree(vault / "user")
    index_once(made, lambda *_: None)
    (domain,) = made.domains()
    assert len(made.vanished().waiting(domain.slug)) == GONE
    return made


def broken(graph):
    return [link.target for link in graph.links("broken", None, 100).links]


def test_every_count_is_without_them(settings, resources):
    questions = View(resources)
    program = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    program.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    assert list_notes(questions, Filters(), "path").count == 2
    assert program.get("/health").json()["domains"]["vault"]["notes"] == 2
    assert program.get("/ops/overview.json").json()["domains"][0]["notes"] == 2
    assert 'everindex_notes{domain="vault",state="indexed"} 2.0' in program.get("/metrics").text


def test_a_search_says_how_many_they_are(resources):
    questions = View(resources)
    assert questions.search(read_question("tool"), 5).index.held.startswith(
        "25 notes vanished at once, and no answer has"
    )


@pytest.mark.usefixtures("resources")
def test_the_search_page_does_not_call_itself_up_to_date(settings):
    program = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    program.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    page = program.get("/").text
    assert "2 notes in " in page
    assert "25 notes vanished at once" in page
    assert "up to date" not in page


def test_communities_and_exports_are_without_them(resources, tmp_path):
    graph = Links(View(resources))
    found = graph.communities(None)
    members = {path for community in found.communities for path in community.examples}
    assert members == {"Home.md", "Garden.md"}
    assert sum(community.notes for community in found.communities) + found.isolated["vault"] == 2
    assert export_graph(resources, tmp_path / "graph.json", "json", None)[0] == 2
    nodes = json.loads((tmp_path / "graph.json").read_text())["nodes"]
    assert {node["id"] for node in nodes} == {"Home.md", "Garden.md"}


def test_links_to_them_are_broken_now_as_they_are_after_their_removal(resources):
    graph = Links(View(resources))
    held = broken(graph)
    assert held == ["user/3", "Nowhere"]
    index_once(resources, lambda *_: None, confirmed=True)
    assert broken(graph) == held
