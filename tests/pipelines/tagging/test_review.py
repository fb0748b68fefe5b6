"""The queue as an operator uses it: what is ticked reaches the note, and nothing else does."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.errors import EverindexError, NoteError
from pipelines.tagging import review as room
from pipelines.tagging.apply import merge_late
from pipelines.tagging.review import review
from pipelines.vault.write import Late, replace_if_unchanged
from tests.oddities import ODDITIES, is_untouched, make_outside, put

from .conftest import AT

NOTE = "---\nauthor: Ann # me\n---\nThe garden soil.\n"


@pytest.fixture
def shown(tagging):
    """One note with two proposals on a page that was written."""
    tagging.note("a.md", NOTE)
    tagging.propose("a.md", "soil", "compost")
    assert tagging.review().written
    return tagging


def test_without_a_proposal_there_is_no_file(tagging):
    assert not tagging.review().written
    assert not tagging.queue.exists()


def test_a_page_is_not_written_twice(shown):
    before = shown.queue.stat().st_ino
    assert not shown.review().written
    assert shown.queue.stat().st_ino == before


def test_a_ticked_tag_is_in_the_note_and_leaves_the_page(shown):
    shown.edit("- [ ] `soil`", "- [x] `soil`")
    done = shown.review()
    assert done.promotion.applied == [("a.md", "soil")]
    assert shown.text("a.md") == "---\nauthor: Ann # me\ntags:\n  - soil\n---\nThe garden soil.\n"
    page = shown.queue.read_text()
    assert "`soil`" not in page
    assert "`compost`" in page


def test_what_is_rejected_or_deleted_is_never_proposed_again(shown):
    shown.propose("a.md", "bread")
    shown.review()
    shown.edit("- [ ] `soil`", "- [-] `soil`")
    page = shown.queue.read_text().splitlines(keepends=True)
    shown.queue.write_text("".join(line for line in page if "`compost`" not in line))
    assert shown.review().rejected == 2
    assert shown.states("a.md") == {"soil": "rejected", "compost": "rejected", "bread": "waiting"}
    shown.propose("a.md", "soil", "compost")
    shown.review()
    assert "`soil` ·" not in shown.queue.read_text()
    assert shown.text("a.md") == NOTE


def test_a_typed_tag_is_applied_by_its_own_name(shown):
    page = shown.queue.read_text()
    shown.queue.write_text(page.replace("- [ ] `compost`", "- [x] earth\n- [ ] `compost`"))
    shown.edit("- [ ] `soil`", "- [ ] `soil`")
    shown.review()
    assert "- soil" in shown.text("a.md")


def test_a_word_outside_the_vocabulary_is_offered_and_accepted_into_it(shown):
    shown.edit("- [ ] `compost`", "- [x] mulch\n- [ ] `compost`")
    shown.review()
    assert "`mulch` · not in the vocabulary yet" in shown.queue.read_text()
    assert shown.text("a.md") == NOTE
    shown.edit("- [ ] `mulch`", "- [x] `mulch`")
    shown.review()
    assert "- mulch" in shown.text("_taxonomy.md")
    assert "- mulch" in shown.text("a.md")


def test_a_word_outside_the_vocabulary_that_is_accepted_elsewhere_extends_it_too(shown):
    shown.edit("- [ ] `compost`", "- [x] mulch\n- [ ] `compost`")
    shown.review()
    (mulch,) = shown.proposals.of_state("vault", "addition")
    shown.proposals.decide([mulch.id], "accepted", AT)
    shown.review()
    assert "- mulch" in shown.text("_taxonomy.md")
    assert "- mulch" in shown.text("a.md")


def test_a_tag_that_left_the_vocabulary_says_so_and_returns_with_its_acceptance(shown):
    vocabulary = shown.text("_taxonomy.md")
    shown.house.write("_taxonomy.md", vocabulary.replace("- compost: rotted leaves\n", ""))
    shown.review()
    assert "`compost` · not in the vocabulary yet: accepting it adds it" in shown.queue.read_text()
    assert shown.states("a.md") == {"soil": "waiting", "compost": "addition"}
    shown.house.write("_taxonomy.md", vocabulary)
    shown.review()
    assert shown.states("a.md") == {"soil": "waiting", "compost": "waiting"}
    shown.house.write("_taxonomy.md", vocabulary.replace("- compost: rotted leaves\n", ""))
    shown.review()
    shown.edit("- [ ] `compost`", "- [x] `compost`")
    shown.review()
    assert "- compost" in shown.text("_taxonomy.md")
    assert "- compost" in shown.text("a.md")


def test_an_addition_to_a_broken_taxonomy_waits_again_and_is_reported(shown):
    shown.edit("- [ ] `compost`", "- [x] mulch\n- [ ] `compost`")
    shown.review()
    shown.house.write("_taxonomy.md", "- soil: x\n- soil: y\n")
    shown.edit("- [ ] `mulch`", "- [x] `mulch`")
    shown.review()
    assert shown.states("a.md")["mulch"] == "addition"
    assert "Not added to the vocabulary: mulch" in shown.queue.read_text()
    assert shown.text("a.md") == NOTE


def test_a_page_that_was_cut_is_restored_and_says_so(shown):
    shown.queue.write_text(shown.queue.read_text()[:400])
    done = shown.review()
    assert done.rejected == 0
    page = shown.queue.read_text()
    assert "was incomplete" in page
    assert "`soil`" in page


def test_a_page_of_two_tags_of_which_one_was_deleted_says_how_to_reject_it(shown):
    shown.queue.write_text(re.sub(r"- \[ \] `soil`.*\n", "", shown.queue.read_text()))
    assert shown.review().rejected == 0
    assert "To reject those, put a - into their boxes." in shown.queue.read_text()
    shown.edit("- [ ] `soil`", "- [-] `soil`")
    assert shown.review().rejected == 1
    assert "was incomplete" not in shown.queue.read_text()


def test_the_first_lines_are_shown_below_the_headings_that_a_note_begins_with(tagging):
    tagging.note("a.md", "# Soil\n\n## Highlights\n\n### Sand\n\nIt drains.\n\n## Notes\n\nMy own.\n")
    tagging.propose("a.md", "soil")
    tagging.review()
    assert "\n> It drains.\n" in tagging.queue.read_text()


def test_a_page_that_was_deleted_comes_back(shown):
    shown.queue.unlink()
    shown.review()
    assert "`soil`" in shown.queue.read_text()


def test_an_older_page_that_is_saved_over_a_newer_one_decides_only_what_it_says(shown):
    old = shown.queue.read_text()
    shown.note("b.md", "Flour and yeast.")
    shown.propose("b.md", "bread", at="2026-11-21T13:00:00.000+00:00")
    shown.review()
    shown.queue.write_text(old.replace("- [ ] `soil`", "- [x] `soil`"))
    shown.review()
    assert shown.states("a.md") == {"soil": "applied", "compost": "waiting"}
    assert shown.states("b.md") == {"bread": "waiting"}
    assert "`bread`" in shown.queue.read_text()


def test_a_note_that_moved_gets_its_tag(shown):
    (shown.house.root / "a.md").rename(shown.house.root / "moved.md")
    shown.house.index()
    shown.proposals.keys.move("vault", "a.md", "moved.md")
    shown.edit("- [ ] `soil`", "- [x] `soil`")
    shown.review()
    assert "- soil" in shown.text("moved.md")


def test_a_note_that_cannot_be_tagged_is_left_alone_and_the_page_says_why(tagging):
    tagging.note("a.md", "---\nbroken: [\n---\nThe garden soil.")
    tagging.propose("a.md", "soil")
    tagging.review()
    tagging.edit("- [ ] `soil`", "- [x] `soil`")
    done = tagging.review()
    assert [one[:2] for one in done.promotion.refused] == [("a.md", "soil")]
    assert "was not given to a.md" in tagging.queue.read_text()
    assert tagging.text("a.md") == "---\nbroken: [\n---\nThe garden soil."


def test_manual_promotion_waits_and_says_so(shown):
    shown.edit("- [ ] `soil`", "- [x] `soil`")
    shown.review(apply=False)
    assert shown.text("a.md") == NOTE
    assert "Accepted and not applied yet: 1." in shown.queue.read_text()
    shown.review()
    assert "- soil" in shown.text("a.md")


def test_what_is_ticked_while_the_page_is_written_counts(shown, monkeypatch):
    shown.propose("a.md", "bread")
    raced = []

    def slow(root, raw, read, new, displaced):
        if raw == shown.queue.name and not raced:
            raced.append(raw)
            shown.edit("- [ ] `soil`", "- [x] `soil`")
        return replace_if_unchanged(root, raw, read, new, displaced)

    monkeypatch.setattr(room, "replace_if_unchanged", slow)
    done = shown.review()
    assert done.accepted == 1
    assert "- soil" in shown.text("a.md")
    assert "`bread`" in shown.queue.read_text()


def test_what_an_editor_writes_late_into_a_page_counts_and_its_words_stay(shown):
    late = shown.queue.read_text().replace("- [ ] `soil`", "- [x] `soil`\nAsk Ben about this one.")
    shown.propose("a.md", "bread")
    shown.review()
    review(shown.context(), AT, late.encode())
    assert "- soil" in shown.text("a.md")
    page = shown.queue.read_text()
    assert "Ask Ben about this one." in page
    assert "`bread`" in page


def test_what_an_editor_writes_late_into_a_note_gets_the_tag_again(shown):
    shown.edit("- [ ] `soil`", "- [x] `soil`")
    shown.review()
    shown.house.index()
    late = Late("a.md", NOTE.encode(), (NOTE + "A late line.\n").encode(), Path("record"))
    assert merge_late(shown.notes, "a.md", late)
    assert (
        shown.text("a.md") == "---\nauthor: Ann # me\ntags:\n  - soil\n---\nThe garden soil.\nA late line.\n"
    )


def test_what_is_late_never_replaces_what_was_written_since(shown):
    shown.edit("- [ ] `soil`", "- [x] `soil`")
    shown.review()
    newer = shown.text("a.md") + "Written since.\n"
    shown.note("a.md", newer)
    late = Late("a.md", NOTE.encode(), (NOTE + "A late line.\n").encode(), Path("record"))
    assert not merge_late(shown.notes, "a.md", late)
    assert shown.text("a.md") == newer


def test_bytes_that_are_no_text_stay_in_the_page(shown):
    shown.queue.write_bytes(shown.queue.read_bytes() + b"caf\xe9 latte\n")
    shown.propose("a.md", "bread")
    shown.review()
    assert b"caf\xe9 latte" in shown.queue.read_bytes()


def test_the_newest_notes_come_first_and_the_others_are_counted(tagging):
    for n in range(room.NOTES_A_PAGE + 2):
        tagging.house.save(f"{n}.md", f"The garden soil {n}.")
        tagging.propose(f"{n}.md", "soil", at=f"2026-11-21T12:{n:02}:00.000+00:00")
    tagging.house.drain()
    tagging.review()
    page = tagging.queue.read_text()
    assert page.index("[[26.md|") < page.index("[[25.md|")
    assert "2 more wait" in page
    assert "[[0.md|" not in page


# A file that is no page


FOREIGN = [
    b"export EDITOR=vi\n",
    b"# Tags to review\n\nmy own list\n",
    b"- [x] soil\n",
    b"\0\xff\xfe",
    b"<!-- a comment: end -->\n",
]


@pytest.mark.parametrize("data", FOREIGN)
def test_a_file_that_is_no_page_of_ours_is_refused_with_what_to_do_and_left_as_it_is(tagging, data):
    tagging.note("a.md", NOTE)
    tagging.propose("a.md", "soil")
    tagging.queue.write_bytes(data)
    before = tagging.queue.lstat()
    with pytest.raises(NoteError, match=r"is not a review queue of Everindex.*review_queue"):
        tagging.review()
    after = tagging.queue.lstat()
    assert tagging.queue.read_bytes() == data
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    tagging.queue.unlink()
    assert tagging.review().written


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf\n"])
def test_an_empty_file_becomes_the_queue(tagging, data):
    tagging.note("a.md", NOTE)
    tagging.propose("a.md", "soil")
    tagging.queue.write_bytes(data)
    assert tagging.review().written
    assert "`soil`" in tagging.queue.read_text()


@pytest.mark.parametrize("kind", ODDITIES)
def test_what_is_no_regular_file_is_no_queue_and_nothing_waits_for_it(tagging, tmp_path, kind):
    outside = make_outside(tmp_path)
    tagging.note("a.md", NOTE)
    tagging.propose("a.md", "soil")
    put(tagging.queue, kind, outside)
    before = tagging.queue.lstat()
    with pytest.raises(NoteError, match=r"review queue.*review_queue"):
        tagging.review()
    assert tagging.queue.lstat().st_ino == before.st_ino
    assert is_untouched(outside)


@pytest.mark.parametrize("there", [True, False])
def test_a_queue_behind_a_link_is_not_written(tagging, tmp_path, there):
    (tmp_path / "outside").mkdir()
    if there:
        (tmp_path / "outside" / ".bashrc").write_bytes(b"export EDITOR=vi\n")
    (tagging.house.root / "lnk").symlink_to("../outside")
    tagging.domain = replace(tagging.domain, review_queue="lnk/.bashrc")
    tagging.note("a.md", NOTE)
    tagging.propose("a.md", "soil")
    with pytest.raises(NoteError, match="links are not followed"):
        tagging.review()
    assert [path.read_bytes() for path in (tmp_path / "outside").iterdir()] == [b"export EDITOR=vi\n"] * there


@pytest.mark.parametrize("there", [True, False])
def test_a_tag_is_not_added_to_a_vocabulary_behind_a_link(shown, tmp_path, there):
    (tmp_path / "outside").mkdir()
    if there:
        (tmp_path / "outside" / "words.md").write_bytes(b"- mine\n")
    shown.edit("- [ ] `compost`", "- [x] mulch\n- [ ] `compost`")
    shown.review()
    (shown.house.root / "lnk").symlink_to("../outside")
    shown.domain = replace(shown.domain, taxonomy="lnk/words.md")
    shown.edit("- [ ] `mulch`", "- [x] `mulch`")
    with suppress(EverindexError):
        shown.review()
    assert [path.read_bytes() for path in (tmp_path / "outside").iterdir()] == [b"- mine\n"] * there
