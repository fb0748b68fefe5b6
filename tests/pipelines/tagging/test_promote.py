"""Accepted tags reach the notes, once, and can be taken back exactly."""

from __future__ import annotations

import pytest

from pipelines.errors import EverindexError
from pipelines.store.proposals import Looked
from pipelines.tagging.candidates import sketch
from pipelines.tagging.promote import promote, take_accepted_back, undo

from .conftest import AT

NOTE = "---\r\ntitle:  'A'   # kept\r\n---\r\nThe garden soil.\r\n"


@pytest.fixture
def accepted(tagging):
    tagging.note("a.md", NOTE)
    tagging.proposals.decide(tagging.propose("a.md", "soil", "compost"), "accepted", AT)
    return tagging


def test_an_accepted_tag_is_applied_and_written_down(accepted):
    done = promote(accepted.notes, AT)
    assert done.applied == [("a.md", "soil"), ("a.md", "compost")]
    (change,) = accepted.proposals.changes.latest(10)
    assert (change.path, change.tags, change.action) == ("a.md", ("soil", "compost"), "promoted")
    assert accepted.states("a.md") == {"soil": "applied", "compost": "applied"}


def test_a_tag_that_was_renamed_since_it_was_proposed_is_written_by_its_new_name(accepted):
    log = accepted.proposals.renames
    log.finish(
        log.begin("vault", "_taxonomy.md", [("Soil", "ground"), ("earth", "humus"), ("ground", "earth")], AT)
    )
    assert promote(accepted.notes, AT).applied == [("a.md", "humus"), ("a.md", "compost")]
    assert "humus" in accepted.text("a.md")
    assert "soil" not in accepted.text("a.md").split("---")[1]
    assert accepted.states("a.md") == {"soil": "applied", "compost": "applied"}


def test_a_rename_that_was_taken_back_or_was_before_the_proposal_changes_no_tag(accepted):
    log = accepted.proposals.renames
    log.finish(log.begin("vault", "_taxonomy.md", [("soil", "ground")], "2000-01-01T00:00:00+00:00"))
    number = log.begin("vault", "_taxonomy.md", [("compost", "humus")], AT)
    log.finish(number)
    accepted.proposals.changes.undo(number, AT)
    assert promote(accepted.notes, AT).applied == [("a.md", "soil"), ("a.md", "compost")]


def test_a_promotion_that_was_cut_off_after_the_note_is_finished_without_a_second_change(accepted):
    promote(accepted.notes, AT)
    ids = [one.id for one in accepted.proposals.of_state(None, "applied")]
    accepted.proposals.settle(ids, "accepted", AT)  # as if the process had died before its commit
    text = accepted.text("a.md")
    promote(accepted.notes, AT)
    assert accepted.text("a.md") == text
    assert accepted.states("a.md") == {"soil": "applied", "compost": "applied"}
    assert len(accepted.proposals.changes.latest(10)) == 1


@pytest.mark.parametrize("more", ["", "Another line.\r\n"])
def test_undo_takes_a_promotion_back_exactly_and_leaves_what_was_written_since(accepted, more):
    promote(accepted.notes, AT)
    (accepted.house.root / "a.md").write_bytes((accepted.text("a.md") + more).encode())
    accepted.house.index()
    undo(accepted.notes, accepted.proposals.changes.find(None), AT)
    assert accepted.text("a.md") == NOTE + more
    assert accepted.states("a.md") == {"soil": "waiting", "compost": "waiting"}


def test_frontmatter_that_a_promotion_made_goes_again_though_the_text_below_was_edited(tagging):
    tagging.note("a.md", "The garden soil.\nMore.\n")
    tagging.proposals.decide(tagging.propose("a.md", "soil"), "accepted", AT)
    promote(tagging.notes, AT)
    (tagging.house.root / "a.md").write_text(tagging.text("a.md").replace("garden", "good"))
    tagging.house.index()
    undo(tagging.notes, tagging.proposals.changes.find(None), AT)
    assert tagging.text("a.md") == "The good soil.\nMore.\n"


def test_a_tag_that_was_edited_since_is_not_cut_in_two(tagging):
    tagging.note("a.md", "---\ntags: [x]\n---\nText.\n")
    tagging.proposals.decide(tagging.propose("a.md", "soil"), "accepted", AT)
    promote(tagging.notes, AT)
    edited = tagging.text("a.md").replace("soil", "soils")
    (tagging.house.root / "a.md").write_text(edited)
    tagging.house.index()
    undo(tagging.notes, tagging.proposals.changes.find(None), AT)
    assert tagging.text("a.md") == edited


def test_undo_of_a_note_whose_frontmatter_changed_takes_the_tags_alone(accepted):
    promote(accepted.notes, AT)
    (accepted.house.root / "a.md").write_bytes(accepted.text("a.md").replace("'A'", "'B'").encode())
    accepted.house.index()
    undo(accepted.notes, accepted.proposals.changes.find(None), AT)
    assert "soil" not in accepted.text("a.md").partition("---\r\nThe")[0]
    assert "'B'   # kept" in accepted.text("a.md")


def test_a_promotion_is_taken_back_once(accepted):
    promote(accepted.notes, AT)
    change = accepted.proposals.changes.find(None)
    undo(accepted.notes, change, AT)
    with pytest.raises(EverindexError, match="is not a promotion that can be undone"):
        undo(accepted.notes, accepted.proposals.changes.find(change.id), AT)


def test_a_note_that_is_another_one_by_now_is_not_tagged_and_asked_about_again(accepted):
    accepted.proposals.look(
        "vault",
        {"a.md": Looked("seen", sketch(["wholly different words about boats"]), "proposed", None, 0, None)},
    )
    done = promote(accepted.notes, AT)
    assert done.applied == []
    assert accepted.states("a.md") == {"soil": "waiting", "compost": "waiting"}
    assert accepted.text("a.md") == NOTE


def test_a_tag_of_a_note_that_is_gone_is_refused_also_where_its_text_was_known(accepted):
    look = Looked("seen", sketch(["The garden soil."]), "proposed", None, 0, None)
    accepted.proposals.look("vault", {"a.md": look})
    (accepted.house.root / "a.md").unlink()
    accepted.house.index()
    done = promote(accepted.notes, AT)
    assert {why for _, _, why in done.refused} == {"'a.md' no longer exists"}
    assert accepted.states("a.md") == {"soil": "refused", "compost": "refused"}


def test_a_tag_of_a_note_that_is_gone_is_refused(accepted):
    (accepted.house.root / "a.md").unlink()
    accepted.house.index()
    done = promote(accepted.notes, AT)
    assert {why.partition("'")[0] for _, _, why in done.refused} == {""}
    assert accepted.states("a.md") == {"soil": "refused", "compost": "refused"}


# Decisions that are taken back


def ids_of(tagging, *tags):
    return [one.id for one in tagging.proposals.of_state(None, "accepted", "applied") if one.tag in tags]


def test_what_was_accepted_and_is_not_in_its_note_yet_just_waits_again(accepted):
    assert take_accepted_back(accepted.notes, ids_of(accepted, "soil"), AT) == []
    assert accepted.states("a.md") == {"soil": "waiting", "compost": "accepted"}
    assert promote(accepted.notes, AT).applied == [("a.md", "compost")]


def test_what_is_in_its_note_is_taken_out_with_the_tags_of_the_same_change(accepted):
    promote(accepted.notes, AT)
    assert take_accepted_back(accepted.notes, ids_of(accepted, "soil"), AT) == []
    assert accepted.text("a.md") == NOTE
    assert accepted.states("a.md") == {"soil": "waiting", "compost": "waiting"}


def test_two_tags_of_one_change_are_taken_back_once(accepted):
    promote(accepted.notes, AT)
    assert take_accepted_back(accepted.notes, ids_of(accepted, "soil", "compost"), AT) == []
    assert [change.action for change in accepted.proposals.changes.latest(10)] == ["undone", "promoted"]


def test_a_tag_that_was_renamed_is_taken_back_by_its_new_name(accepted):
    log = accepted.proposals.renames
    log.finish(log.begin("vault", "_taxonomy.md", [("soil", "ground")], AT))
    promote(accepted.notes, AT)
    assert take_accepted_back(accepted.notes, ids_of(accepted, "soil"), AT) == []
    assert accepted.text("a.md") == NOTE


def test_a_tag_that_a_person_wrote_stays_in_its_note(tagging):
    tagging.note("a.md", "---\ntags: [soil]\n---\nThe garden.\n")
    ids = tagging.propose("a.md", "soil")
    tagging.proposals.decide(ids, "accepted", AT)
    promote(tagging.notes, AT)
    assert take_accepted_back(tagging.notes, ids, AT) == [
        ("a.md", "no change that can be taken back gave it its tags")
    ]
    assert "soil" in tagging.text("a.md")
    assert tagging.states("a.md") == {"soil": "applied"}


def test_a_missing_note_is_left_alone_and_reported(accepted):
    promote(accepted.notes, AT)
    (accepted.house.root / "a.md").unlink()
    ((path, why),) = take_accepted_back(accepted.notes, ids_of(accepted, "soil"), AT)
    assert path == "a.md"
    assert "a.md" in why
    assert accepted.states("a.md") == {"soil": "applied", "compost": "applied"}


def test_a_note_whose_frontmatter_broke_keeps_no_other_note_from_being_taken_back(accepted):
    accepted.note("b.md", NOTE)
    accepted.proposals.decide(accepted.propose("b.md", "soil"), "accepted", AT)
    promote(accepted.notes, AT)
    broken = accepted.text("a.md").replace("---\r\n", "---\r\n: : [\r\n", 1)
    (accepted.house.root / "a.md").write_bytes(broken.encode())
    left = take_accepted_back(accepted.notes, ids_of(accepted, "soil"), AT)
    assert [path for path, _ in left] == ["a.md"]
    assert accepted.text("a.md") == broken
    assert accepted.text("b.md") == NOTE
