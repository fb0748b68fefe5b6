"""Accepted tags reach the notes, once, and can be taken back exactly."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipelines.errors import EverindexError
from pipelines.notes.frontmatter import read_frontmatter, read_properties
from pipelines.state.tags import Looked
from pipelines.tagging.apply import heads, promote, take_accepted_back, taken_back, undo
from pipelines.tagging.note_tags import add_tags
from pipelines.tagging.propose import sketch

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


def test_a_tag_that_the_note_has_already_is_not_said_to_be_written(accepted):
    accepted.house.write("a.md", add_tags(NOTE.encode(), ["soil", "compost"]))
    done = promote(accepted.notes, AT)
    assert done.applied == []
    assert done.refused == [("a.md", tag, "the note has it already") for tag in ("soil", "compost")]
    assert accepted.proposals.changes.latest(10) == []


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


@pytest.mark.parametrize("first", [0, 1])
def test_two_promotions_of_a_note_are_taken_back_in_any_order(tagging, first):
    text = "---\ntitle: Compost\n---\nThe garden soil.\n"
    tagging.note("a.md", text)
    for tag in ("soil", "compost"):
        tagging.proposals.decide(tagging.propose("a.md", tag), "accepted", AT)
        promote(tagging.notes, AT)
        tagging.house.index()
    changes = tagging.proposals.changes.latest(10)
    undo(tagging.notes, changes[first], AT)
    kept = changes[1 - first].tags[0]
    assert tagging.text("a.md") == text.replace("Compost\n", f"Compost\ntags:\n  - {kept}\n")
    tagging.house.index()
    undo(tagging.notes, changes[1 - first], AT)
    assert tagging.text("a.md") == text


def test_a_promoted_tag_that_was_renamed_since_is_taken_back_by_its_new_name(accepted):
    promote(accepted.notes, AT)
    renamed = accepted.text("a.md").replace("soil", "ground", 1)
    assert renamed != accepted.text("a.md")
    (accepted.house.root / "a.md").write_bytes(renamed.encode())
    accepted.house.index()
    log = accepted.proposals.renames
    log.finish(log.begin("vault", "_taxonomy.md", [("soil", "ground")], AT))
    assert undo(accepted.notes, accepted.proposals.changes.latest(10, "a.md")[0], AT)
    assert "ground" not in accepted.text("a.md").split("---")[1]
    assert accepted.states("a.md") == {"ground": "waiting", "compost": "waiting"}


def test_the_undoing_of_a_promotion_whose_tags_were_taken_out_by_hand_says_so(accepted):
    promote(accepted.notes, AT)
    (accepted.house.root / "a.md").write_bytes(b"---\ntitle: A\n---\nThe garden soil.\n")
    accepted.house.index()
    assert not undo(accepted.notes, accepted.proposals.changes.find(None), AT)
    assert accepted.text("a.md") == "---\ntitle: A\n---\nThe garden soil.\n"


FRONTMATTERS = (
    "", "---\n---\n", "---\ntitle: A\n---\n", "---\r\ntitle: A\r\n---\r\n", "---\ntags: [own]\n---\n",
    "---\ntags: own\ntitle: A\n---\n", "---\ntags:\n  - own\ntitle: A\n---\n", "---\ntags:\n- own\n---\n",
    "---\ntags: null\n---\n", "---\ntags: []\nx: 1\n---\n", "---\ntitle: >\n  A\n  long\n---\n", "---\na: [1,\n  2]\n---\n",
)  # fmt: skip
SOME_TAGS = st.lists(st.sampled_from(["soil", "compost", "own", "Own", "a/b"]), min_size=1, max_size=3)


@given(
    before=st.sampled_from(FRONTMATTERS),
    promoted=st.lists(SOME_TAGS, min_size=1, max_size=3),
    typed=SOME_TAGS | st.just([]),
    taken=st.integers(0, 2),
    more=st.sampled_from(["", "More.\n"]),
)
def test_undo_takes_out_what_a_promotion_added_and_leaves_every_other_property_and_tag(
    before, promoted, typed, taken, more
):
    def read(data):
        front = read_frontmatter(data.decode())
        assert front.warnings == ()
        return {tag.casefold() for tag in read_properties(front.values, ()).tags}, {
            name: value for name, value in front.values.items() if name != "tags"
        }

    data, changes = f"{before}Text.\n".encode(), []
    for tags in promoted:
        after = add_tags(data, tags)
        if after != data:
            changes.append((*heads(data, after), tags, read(after)[0] - read(data)[0]))
        data = after
    data = add_tags(data, typed) + more.encode()
    assume(changes)
    head_before, head_after, tags, added = changes[taken % len(changes)]
    has, others = read(data)
    back = taken_back(data, head_before, head_after, tags)
    assert read(back) == (has - added, others)
    assert back.endswith(f"Text.\n{more}".encode())


def test_a_promotion_is_taken_back_once(accepted):
    promote(accepted.notes, AT)
    change = accepted.proposals.changes.find(None)
    undo(accepted.notes, change, AT)
    with pytest.raises(EverindexError, match="is already undone"):
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


def test_a_note_that_is_another_one_on_disk_is_not_tagged_though_the_index_has_the_former_text(accepted):
    look = Looked("seen", sketch(["The garden soil."]), "proposed", None, 0, None)
    accepted.proposals.look("vault", {"a.md": look})
    accepted.proposals.want("vault", "a.md", "typed", "", "accepted", AT)
    accepted.house.write("a.md", "---\ntitle: B\n---\nWholly different words about boats and sails.\n")
    done = promote(accepted.notes, AT)
    assert done.applied == [("a.md", "typed")]
    assert accepted.states("a.md") == {"soil": "waiting", "compost": "waiting", "typed": "applied"}


def test_a_tag_of_a_note_that_cannot_be_edited_waits_until_the_note_is_corrected(accepted):
    accepted.note("a.md", "---\ntitle: [\n---\nThe garden soil.\n")
    done = promote(accepted.notes, AT)
    assert {(path, tag) for path, tag, _ in done.refused} == {("a.md", "soil"), ("a.md", "compost")}
    assert all("correct the frontmatter" in why and "waits again" in why for *_, why in done.refused)
    assert accepted.states("a.md") == {"soil": "waiting", "compost": "waiting"}
    accepted.note("a.md", NOTE)
    accepted.proposals.decide(
        [one.id for one in accepted.proposals.of_state("vault", "waiting")], "accepted", AT
    )
    assert promote(accepted.notes, AT).applied == [("a.md", "soil"), ("a.md", "compost")]


def test_a_tag_of_a_file_that_can_have_none_is_refused(tagging):
    tagging.note("a.txt", "The garden soil.")
    tagging.proposals.decide(tagging.propose("a.txt", "soil"), "accepted", AT)
    assert promote(tagging.notes, AT).applied == []
    assert tagging.states("a.txt") == {"soil": "refused"}


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
