"""Records that have one id are named by the status and by `why`; all of them are indexed all the same."""

from __future__ import annotations

import pytest

from service.usecases.audience import agents
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.working import indexed
from workers.resources import Resources

TEXT = "thesis: {statement: It keeps growing.}\n"
FILES = {
    "_domains.yaml": "notes: {legacy: true, formats: [md, yaml, json]}\nattic: {formats: [yaml]}\n",
    "a.yaml": "_meta: {id: EA-1}\n" + TEXT,
    "attic/b.YML": "_meta: {id: EA-1}\n" + TEXT,
    "c.json": '{"_meta": {"id": "EA-2"}, "thesis": {"statement": "It keeps growing."}}',
    "d.json": '{"id": "EA-2", "thesis": {"statement": "An id of another kind of data."}}',
    "Note.md": "---\nid: EA-2\n---\nA property of a note is no id of a record.\n",
    "secret.yaml": "_meta: {id: EA-3}\nprivate: true\n" + TEXT,
    "open.yaml": "_meta: {id: EA-3}\n" + TEXT,
}


@pytest.fixture
def view(vault, tmp_path, tiny_model):
    return View(Resources(indexed(vault, tmp_path / "state", tiny_model, FILES)))


def shared(view):
    return view.health(view.resources.queue()).shared_ids


def test_the_status_names_the_records_of_all_domains_that_have_one_id_and_has_no_problem(view):
    assert shared(view) == {"EA-1": ["a.yaml", "attic/b.YML"], "EA-3": ["open.yaml", "secret.yaml"]}
    health = view.health(view.resources.queue())
    assert (health.status, health.problems) == ("ok", [])
    assert {path: view.why(path)["state"] for path in FILES if path != "_domains.yaml"} == dict.fromkeys(
        [path for path in FILES if path != "_domains.yaml"], "indexed"
    )


@pytest.mark.parametrize("path", ["a.yaml", "attic/b.YML"])
def test_why_names_them_for_each_of_the_files(view, path):
    assert view.why(path)["warnings"] == [
        "2 records have the id EA-1: a.yaml, attic/b.YML; give each an id of its own"
    ]


@pytest.mark.parametrize("path", ["c.json", "d.json", "Note.md"])
def test_a_property_that_is_not_read_as_an_id_is_none(view, path):
    assert view.why(path)["warnings"] == []


def test_a_record_that_gets_another_id_or_whose_file_is_gone_is_named_no_more(view, vault):
    (vault / "attic/b.YML").unlink()
    assert list(shared(view)) == ["EA-3"]  # before the index notices
    (vault / "open.yaml").write_text("_meta: {id: EA-4}\n" + TEXT)
    index_once(view.resources, lambda *_: None)
    assert shared(view) == {}


def test_an_agent_does_not_learn_of_a_private_record_by_its_id(view):
    seen = view.seen_by(agents(view.resources))
    assert "warnings" not in seen.why("open.yaml")
    assert "secret" not in str(seen.why("open.yaml"))
