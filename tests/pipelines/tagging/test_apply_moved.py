"""Undoing a promotion finds the note, also if it moved before its new bytes were indexed, and no other note."""

from __future__ import annotations

import pytest

from pipelines.errors import NoteVanishedError
from pipelines.model import now_iso
from pipelines.tagging.apply import former_paths, promote, take_accepted_back, undo
from pipelines.tagging.propose import begin

NOTE = "The garden soil is dark, and worms live in it.\n"


@pytest.fixture
def garden(tagging):
    """Notes to which a tag was just promoted, which the index has not noticed."""

    def made(**notes: str):
        for name, text in notes.items():
            tagging.note(f"{name}.md", text)
        settle(tagging)
        begin(tagging.house.cache, tagging.proposals, "vault")
        for name in notes:
            tagging.proposals.decide(tagging.propose(f"{name}.md", "soil"), "accepted", now_iso())
        promote(tagging.notes, now_iso())
        return tagging

    return made


def settle(tagging) -> None:
    """Index what is on disk, and write it to the log by note."""
    tagging.house.index()
    tagging.log.add("vault", "m", "p", tagging.house.events)
    tagging.house.events.clear()


def move(tagging, old: str, new: str) -> None:
    (tagging.house.root / new).parent.mkdir(exist_ok=True)
    (tagging.house.root / old).rename(tagging.house.root / new)


def former(tagging, path: str) -> list[str]:
    notes = tagging.notes
    return former_paths(
        notes.cache, notes.proposals, notes.log, notes.root, notes.domain, path, notes.max_bytes
    )


def of(tagging, path: str):
    (change,) = (one for one in tagging.proposals.changes.latest(-1, path) if one.action == "promoted")
    return change


def test_a_note_that_was_moved_at_once_is_found_and_its_log_goes_with_it(garden):
    tagging = garden(a=NOTE)
    move(tagging, "a.md", "b.md")
    settle(tagging)
    assert undo(tagging.notes, of(tagging, "a.md"), now_iso())
    assert tagging.text("b.md") == NOTE
    assert [one.action for one in tagging.proposals.changes.latest(-1, "b.md")] == ["undone", "promoted"]
    assert tagging.states("b.md") == {"soil": "waiting"}


def test_the_former_path_of_a_note_that_was_moved_at_once_is_known_without_an_undo(garden):
    tagging = garden(a=NOTE, b="Bread needs flour, yeast and a warm place.\n")
    assert former(tagging, "a.md") == []
    move(tagging, "a.md", "c.md")
    settle(tagging)
    assert former(tagging, "c.md") == ["a.md"]
    assert [former(tagging, path) for path in ("a.md", "b.md", "never.md")] == [[], [], []]
    assert of(tagging, "a.md").path == "a.md"
    undo(tagging.notes, of(tagging, "a.md"), now_iso())
    assert former(tagging, "c.md") == []


def test_a_note_that_only_may_be_the_moved_one_has_no_former_path(garden):
    tagging = garden(a=NOTE)
    text = tagging.text("a.md")
    move(tagging, "a.md", "b.md")
    tagging.house.write("c.md", text)
    tagging.house.reconcile()
    assert former(tagging, "b.md") == []
    settle(tagging)
    assert [former(tagging, path) for path in ("b.md", "c.md")] == [[], []]


def test_a_note_that_was_edited_and_moved_at_once_long_after_its_promotion_is_found(garden):
    tagging = garden(a=NOTE)
    settle(tagging)
    with (tagging.house.root / "a.md").open("a") as file:
        file.write("More.\n")
    move(tagging, "a.md", "b.md")
    settle(tagging)
    assert undo(tagging.notes, of(tagging, "a.md"), now_iso())
    assert tagging.text("b.md") == NOTE + "More.\n"


def test_what_was_accepted_is_taken_back_from_a_note_that_was_moved_at_once(garden):
    tagging = garden(a=NOTE)
    move(tagging, "a.md", "b.md")
    settle(tagging)
    ids = [one.id for one in tagging.proposals.of_state(None, "applied")]
    assert take_accepted_back(tagging.notes, ids, now_iso()) == []
    assert tagging.text("b.md") == NOTE


@pytest.mark.parametrize(
    "other",
    [
        "---\ntags:\n  - soil\n---\nAnother text about boats, sails, wind and the wide open sea.\n",
        NOTE,
        f"---\ntags: [soil]\n---\n{NOTE}",
    ],
    ids=["another text", "without the tag", "with the tag of a person"],
)
def test_a_new_note_is_not_taken_for_one_that_was_deleted(garden, other):
    tagging = garden(a=NOTE)
    (tagging.house.root / "a.md").unlink()
    tagging.house.write("b.md", other)
    settle(tagging)
    with pytest.raises(NoteVanishedError, match=r"'a.md' no longer exists$"):
        undo(tagging.notes, of(tagging, "a.md"), now_iso())
    assert tagging.text("b.md") == other


def test_an_equal_note_that_was_there_before_is_not_taken_for_one_that_was_deleted(garden):
    tagging = garden(a=NOTE, b=NOTE)
    settle(tagging)
    text = tagging.text("b.md")
    (tagging.house.root / "a.md").unlink()
    settle(tagging)
    with pytest.raises(NoteVanishedError, match="no longer exists"):
        undo(tagging.notes, of(tagging, "a.md"), now_iso())
    assert tagging.text("b.md") == text


def test_of_two_equal_notes_that_may_be_the_one_none_is_changed(garden):
    tagging = garden(a=NOTE)
    text = tagging.text("a.md")
    move(tagging, "a.md", "b.md")
    tagging.house.write("c.md", text)
    settle(tagging)
    with pytest.raises(NoteVanishedError, match=r"'b.md', 'c.md' may be it.*take soil out by hand"):
        undo(tagging.notes, of(tagging, "a.md"), now_iso())
    assert tagging.text("b.md") == tagging.text("c.md") == text


def test_an_equal_note_that_moved_is_not_taken_for_its_twin_that_was_deleted(garden):
    tagging = garden(a=NOTE, b=NOTE)
    text = tagging.text("b.md")
    (tagging.house.root / "a.md").unlink()
    move(tagging, "b.md", "c.md")
    settle(tagging)
    with pytest.raises(NoteVanishedError, match=r"'c.md' may be it"):
        undo(tagging.notes, of(tagging, "a.md"), now_iso())
    assert tagging.text("c.md") == text


def test_equal_notes_of_a_folder_that_was_moved_are_told_apart_by_their_names(garden):
    tagging = garden(a=NOTE, b=NOTE)
    for name in ("a.md", "b.md"):
        move(tagging, name, f"deep/{name}")
    settle(tagging)
    assert undo(tagging.notes, of(tagging, "b.md"), now_iso())
    assert tagging.text("deep/b.md") == NOTE
    assert tagging.text("deep/a.md") != NOTE


def test_while_the_index_does_not_know_all_notes_the_command_says_to_try_again(garden):
    tagging = garden(a=NOTE)
    move(tagging, "a.md", "b.md")
    tagging.house.reconcile()
    with pytest.raises(NoteVanishedError, match="was just moved; try again"):
        undo(tagging.notes, of(tagging, "a.md"), now_iso())
