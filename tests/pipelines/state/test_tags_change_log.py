"""The log of changes to notes: what it lists, what can be undone, and which proposals go with a change."""

from __future__ import annotations

import pytest

from pipelines.model import Suggestion
from pipelines.state.state import State
from pipelines.state.tags import Change, Proposals, RenamedFile

ON_BOTH_STORES = True

AT = "2026-01-02"


@pytest.fixture
def proposals(place):
    State(place).close()
    opened = Proposals(place)
    yield opened
    opened.close()


def promoted(path, *tags, action="promoted"):
    return Change(0, AT, "d", path, tags, action, b"before", b"after", None)


def propose(proposals, path, *tags):
    proposals.add(
        "d", path, [(Suggestion(tag, 0.8), "") for tag in tags], proposer="p", note_hash="h", at="2026"
    )
    return {one.tag: one.id for one in proposals.of_note("d", path)}


def states(proposals, path):
    return {one.tag: one.state for one in proposals.of_note("d", path)}


def test_a_change_is_found_again_as_it_was_recorded(proposals):
    number = proposals.changes.record(promoted("a.md", "Soil", "Äpfel"))
    found = proposals.changes.find(number)
    assert found is not None
    assert (found.id, found.tags, found.head_before, found.undone_at) == (
        number,
        ("Soil", "Äpfel"),
        b"before",
        None,
    )
    assert proposals.changes.find(number + 1) is None


def test_a_change_settles_the_proposals_that_it_applied_and_no_other(proposals):
    ids = propose(proposals, "a.md", "soil", "bread")
    proposals.changes.record(promoted("a.md", "soil"), [ids["soil"]])
    assert states(proposals, "a.md") == {"soil": "applied", "bread": "waiting"}


def test_the_newest_changes_come_first_of_all_notes_or_of_one(proposals):
    for path in ("a.md", "b.md", "a.md"):
        proposals.changes.record(promoted(path, "soil"))
    assert [one.path for one in proposals.changes.latest(2)] == ["a.md", "b.md"]
    assert [one.id for one in proposals.changes.latest(10, "a.md")] == [3, 1]


def test_an_undone_change_is_marked_and_its_tags_wait_again(proposals):
    ids = propose(proposals, "a.md", "Soil", "bread")
    number = proposals.changes.record(promoted("a.md", "soil"), ids.values())
    proposals.changes.undo(number, "2026-01-03")
    found = proposals.changes.find(number)
    assert found is not None
    assert found.undone_at == "2026-01-03"
    assert states(proposals, "a.md") == {"Soil": "waiting", "bread": "applied"}


def test_the_last_change_that_can_be_undone_is_neither_undone_nor_an_undoing(proposals):
    assert proposals.changes.find(None) is None
    first = proposals.changes.record(promoted("a.md", "soil"))
    second = proposals.changes.record(promoted("b.md", "soil"))
    proposals.changes.undo(second, AT)
    proposals.changes.record(promoted("b.md", "soil", action="undone"))
    found = proposals.changes.find(None)
    assert found is not None
    assert found.id == first


def test_a_run_of_renames_is_listed_once_its_first_file_is_recorded_and_for_each_of_its_notes(proposals):
    number = proposals.renames.begin("d", "_taxonomy.md", [("dirt", "soil")], AT)
    assert proposals.changes.latest(10) == []
    for path in ("_taxonomy.md", "a.md", "b.md"):
        proposals.renames.write(number, RenamedFile(path, b"", b""))
    (found,) = proposals.changes.latest(10, "b.md")
    assert (found.id, found.path, found.tags, found.notes) == (number, "_taxonomy.md", ("dirt -> soil",), 2)


def test_the_undoing_of_a_run_counts_its_own_files_and_those_of_the_run_where_an_earlier_version_kept_none(
    proposals,
):
    number = proposals.renames.begin("d", "_taxonomy.md", [("dirt", "soil")], AT)
    for path in ("_taxonomy.md", "a.md", "b.md"):
        proposals.renames.write(number, RenamedFile(path, b"", b""))
    proposals.renames.finish(number)
    proposals.changes.undo(number, AT)
    proposals.changes.record(promoted("_taxonomy.md", "dirt -> soil", action="undone"))
    assert proposals.changes.latest(1)[0].notes == 2
    for files, notes in ((["_taxonomy.md", "a.md"], 1), (["_taxonomy.md"], 0)):
        proposals.changes.record(promoted("_taxonomy.md", "dirt -> soil", action="undone"), files=files)
        assert proposals.changes.latest(1)[0].notes == notes
