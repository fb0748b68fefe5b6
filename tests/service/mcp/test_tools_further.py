"""The tools behind the setting: a note is indexed at once, and similar notes are listed."""

from __future__ import annotations

import shutil

import pytest

from queue_config.settings import Settings
from tests.service.mcp.conftest import answered, complained, linked
from tests.working import worker
from workers.resources import Resources


@pytest.fixture
def settings(vault, tmp_path, indexed):
    shutil.copytree(indexed / "state", tmp_path / "state")
    return Settings(vault=vault, state=tmp_path / "state", agents_have_all_tools=True)


@pytest.fixture
def resources(settings):
    return Resources(settings)


def test_a_note_that_was_just_written_is_findable_when_the_tool_answers(ask, settings, vault):
    (vault / "Boat.md").write_text("# Boat\n\nA wherry on the river.\n")
    with worker(settings):
        for path in ("Boat.md", "vault://Boat.md"):
            found = answered(ask("index", path=path))
            assert (found["path"], found["state"], found["findable"]) == ("Boat.md", "indexed", True)
    assert answered(ask("search", query='"wherry"'))["hits"][0]["path"] == "Boat.md"


def test_without_a_worker_the_tool_says_so(ask, vault):
    (vault / "Boat.md").write_text("# Boat\n")
    found = answered(ask("index", path="Boat.md"))
    assert (found["state"], found["findable"]) == ("queued", False)
    assert "no worker runs" in found["reason"]


@pytest.mark.parametrize(
    "path", ["Nowhere.md", "../secret.md", "vault://../secret.md", "/etc/passwd", "Garden"]
)
def test_what_is_no_note_is_not_indexed(ask, path):
    assert "there is no note" in complained(ask("index", path=path))


def test_similar_notes_come_nearest_first_with_their_passages(ask):
    result = ask("similar", note="Moats")
    found = answered(result)
    assert found["path"] == "Concepts/Moats.md"
    likeness = [one["similarity"] for one in found["notes"]]
    assert likeness == sorted(likeness, reverse=True)
    assert found["notes"][0]["path"] == "Concepts/Pricing.md"
    assert found["notes"][0]["locator"]["kind"] == "lines"
    assert linked(result) == [one["uri"] for one in found["notes"]]
    few = answered(ask("similar", note="Moats", min_similarity=likeness[0]))
    assert [one["path"] for one in few["notes"]] == ["Concepts/Pricing.md"]


def test_similar_notes_are_narrowed_by_the_filters_of_a_search(ask):
    found = answered(ask("similar", note="Moats", folder=["Garden"], tag=["garden"]))
    assert [one["path"] for one in found["notes"]] == ["Garden/Soil.md"]


def test_similar_notes_come_page_by_page(ask):
    first = answered(ask("similar", note="Moats", limit=3))
    assert first["truncated"]
    second = answered(ask("similar", note="Moats", limit=3, cursor=first["cursor"]))
    paths = [one["path"] for page in (first, second) for one in page["notes"]]
    assert len(paths) == len(set(paths)) == 4
    assert "cursor" in complained(ask("similar", note="Soil", limit=3, cursor=first["cursor"]))
