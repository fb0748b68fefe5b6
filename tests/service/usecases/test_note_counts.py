"""What counts as a note is the same wherever notes are counted: vocabularies and review queues do not."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from pipelines.filters import Filters
from queue_config.settings import Settings
from service.app import create_app
from service.runtime.client import read_token
from service.schemas.links import Methods
from service.usecases.browsing import list_notes
from service.usecases.links import Links
from service.usecases.maintenance import index_once, rebuild_caches
from service.usecases.search import View
from service.usecases.status import count_notes
from workers.resources import Resources

PORT = 8741
VOCABULARY = "# Tags\n\n## Area\n\n- garden\n"
FILES = {
    "_domains.yaml": "notes:\n  legacy: true\nfitness:\n  path: fitness\n",
    "_taxonomy.md": VOCABULARY,
    "Soil.md": "[[Compost]]",
    "Compost.md": "dark",
    "Alone.md": "no link",
    "fitness/_taxonomy.md": VOCABULARY,
    "fitness/Run.md": "no link either",
}
NOTES = {"notes": 3, "fitness": 1}


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    (vault / "fitness").mkdir()
    for name, text in FILES.items():
        (vault / name).write_text(text)
    return Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))


def counted_in(lines):
    return {line.partition(":")[0]: int(re.search(r"(\d+) notes?\b", line)[1]) for line in lines}


def program_of(settings):
    program = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    program.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return program


@pytest.mark.parametrize("make", [index_once, rebuild_caches])
def test_the_first_index_and_a_rebuild_count_the_notes_that_are_listed(settings, make):
    index_once(Resources(settings), lambda *_: None)
    shown = {}
    lines = make(Resources(settings), lambda slug, counts: shown.update({slug: counts.notes}))
    assert counted_in(line for line in lines if "note" in line) == shown == NOTES


def test_status_pages_and_metrics_count_the_notes_that_are_listed(settings):
    index_once(Resources(settings), lambda *_: None)
    program = program_of(settings)
    questions = View(Resources(settings))
    listed = list_notes(questions, Filters(), "path")
    assert (listed.count, listed.configuration) == (4, ["_taxonomy.md", "fitness/_taxonomy.md"])
    health = program.get("/health").json()["domains"]
    assert {slug: found["notes"] for slug, found in health.items()} == NOTES
    seen = program.get("/ops/overview.json").json()["domains"]
    assert {found["domain"]: found["notes"] for found in seen} == NOTES
    assert count_notes(questions.resources, questions.readers()) == sum(NOTES.values())
    metrics = program.get("/metrics").text
    told = dict(re.findall(r'everindex_notes\{domain="(\w+)",state="indexed"\} ([\d.]+)', metrics))
    assert {slug: float(count) for slug, count in told.items()} == NOTES


def test_as_many_notes_are_in_no_community_as_are_orphans(settings):
    index_once(Resources(settings), lambda *_: None)
    graph = Links(View(Resources(settings)))
    assert graph.orphans(None).paths == ["Alone.md", "fitness/Run.md"]
    assert graph.communities(None).isolated == {"notes": 1, "fitness": 1}


def test_the_list_of_communities_and_the_health_name_the_methods_of_ranking(settings):
    view = View(Resources(settings))
    index_once(view.resources, lambda *_: None)
    expected = Methods(communities="louvain", centrality="eigenvector")
    assert Links(view).communities(None).methods == {"notes": expected}
    domains = program_of(settings).get("/health").json()["domains"]
    assert {slug: one["methods"] for slug, one in domains.items()} == {
        "notes": expected.model_dump(),
        "fitness": None,  # it has no links
    }
