"""Which notes get proposals for tags, and when again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.state.tags import Looked
from pipelines.tagging.propose import begin, drop_given, due, is_another, likeness, sketch, withdraw

WORDS = " ".join(f"word{n}" for n in range(200))


def look(tagging, *paths: str, outcome="proposed", **more) -> None:
    settled = tagging.house.cache.ledger.settled()
    known = {"reason": None, "attempts": 0, "next_attempt": None} | more
    tagging.proposals.look(
        "vault",
        {p: Looked(settled[p], sketch([tagging.text(p)]), outcome, **known) for p in paths},
    )


def found(tagging, now: float = 0.0) -> list[str]:
    return sorted(due(tagging.house.cache, tagging.proposals, "vault", now, ("_taxonomy.md",)))


def test_notes_that_were_there_before_the_vocabulary_are_no_news(tagging):
    tagging.note("a.md")
    begin(tagging.house.cache, tagging.proposals, "vault")
    tagging.note("b.md")
    assert found(tagging) == ["b.md"]


def test_notes_that_are_not_indexed_yet_when_the_vocabulary_comes_are_no_news_either(tagging):
    tagging.house.write("a.md", WORDS)
    tagging.house.notice("a.md")
    begin(tagging.house.cache, tagging.proposals, "vault")
    tagging.note("b.md", "Saved before the others are indexed.")
    assert found(tagging) == ["b.md"]
    look(tagging, "b.md")
    tagging.note("a.md", WORDS + " and a little more")
    assert found(tagging) == []
    tagging.note("a.md", " ".join(f"other{n}" for n in range(200)))
    assert found(tagging) == ["a.md"]


def test_a_note_is_examined_once_and_again_when_most_of_it_changed(tagging):
    tagging.note("a.md", WORDS)
    look(tagging, "a.md")
    assert found(tagging) == []
    tagging.note("a.md", WORDS + " and a little more")
    assert found(tagging) == []
    tagging.note("a.md", " ".join(f"other{n}" for n in range(200)))
    assert found(tagging) == ["a.md"]


def test_little_changes_add_up(tagging):
    words = WORDS.split()
    tagging.note("a.md", WORDS)
    look(tagging, "a.md")
    for start in range(0, 160, 20):
        words[start : start + 20] = [f"new{start}x{n}" for n in range(20)]
        tagging.note("a.md", " ".join(words))
        if found(tagging):
            break
    assert 80 <= start <= 140


def test_a_renamed_note_is_no_new_note_and_keeps_its_proposals(tagging):
    tagging.note("a.md")
    look(tagging, "a.md")
    tagging.propose("a.md", "soil")
    (tagging.house.root / "a.md").rename(tagging.house.root / "b.md")
    tagging.house.index()
    assert found(tagging) == []
    assert tagging.states("b.md") == {"soil": "waiting"}


def waiting(tagging) -> dict[str, str]:
    """What is shown to the operator, once the index knows what is on disk."""
    tagging.house.index()
    withdraw(tagging.house.cache, tagging.proposals, "vault")
    shown = tagging.proposals.of_state(None, "waiting", "addition")
    assert sum(
        tagging.proposals.counts().get(("vault", state), 0) for state in ("waiting", "addition")
    ) == len(shown)
    return {one.tag: one.path for one in shown}


def test_proposals_for_a_deleted_note_are_hidden_until_the_note_is_back(tagging):
    tagging.note("a.md", WORDS)
    tagging.note("b.md")
    look(tagging, "a.md", "b.md")
    tagging.propose("a.md", "soil")
    tagging.proposals.want("vault", "a.md", "new", "", "addition", "2026")
    tagging.propose("b.md", "compost")
    before = tagging.proposals.version("vault")
    (tagging.house.root / "a.md").unlink()
    assert waiting(tagging) == {"compost": "b.md"}
    assert tagging.proposals.version("vault") != before
    tagging.note("a.md", WORDS)
    assert waiting(tagging) == {"soil": "a.md", "new": "a.md", "compost": "b.md"}
    assert tagging.proposals.version("vault") == before


def test_a_note_that_is_renamed_keeps_what_waits_for_it_also_when_it_was_away_meanwhile(tagging):
    tagging.note("a.md", WORDS)
    look(tagging, "a.md")
    tagging.propose("a.md", "soil")
    (tagging.house.root / "a.md").rename(tagging.house.root / "b.md")
    assert waiting(tagging) == {"soil": "b.md"}
    (tagging.house.root / "b.md").rename(tagging.house.state / "away")
    assert waiting(tagging) == {}
    (tagging.house.state / "away").rename(tagging.house.root / "c.md")
    assert waiting(tagging) == {"soil": "c.md"}


def test_what_waited_for_a_deleted_note_is_not_asked_of_another_one_at_its_path(tagging):
    tagging.note("a.md", WORDS)
    look(tagging, "a.md")
    rejected, _ = tagging.propose("a.md", "bread", "soil")
    tagging.proposals.decide([rejected], "rejected", "2026")
    (tagging.house.root / "a.md").unlink()
    assert waiting(tagging) == {}
    tagging.note("a.md", " ".join(f"other{n}" for n in range(200)))
    assert waiting(tagging) == {}
    assert tagging.states("a.md") == {"bread": "rejected"}


def test_what_waits_for_a_note_that_is_back_is_shown_once_the_note_is_indexed(tagging):
    tagging.note("a.md", WORDS)
    look(tagging, "a.md")
    tagging.propose("a.md", "soil")
    (tagging.house.root / "a.md").unlink()
    assert waiting(tagging) == {}
    tagging.house.write("a.md", WORDS)
    tagging.house.notice("a.md")  # not indexed yet: it may be another note
    withdraw(tagging.house.cache, tagging.proposals, "vault")
    assert tagging.proposals.of_state(None, "waiting") == []
    assert waiting(tagging) == {"soil": "a.md"}


def test_what_waits_goes_once_the_note_has_it_and_the_other_tags_wait_on(tagging):
    cache, root = tagging.house.cache, tagging.house.root
    tagging.note("a.md")
    tagging.propose("a.md", "soil", "compost", "bread")
    tagging.review()
    tagging.edit("- [ ] `compost`", "- [x] `compost`")
    tagging.house.write("a.md", "---\ntags: [Soil]\n---\nThe garden soil.")
    drop_given(cache, tagging.proposals, "vault", root)
    assert "soil" in tagging.states("a.md"), "that is not indexed yet"
    tagging.house.notice("a.md")
    drop_given(cache, tagging.proposals, "vault", root)
    assert "soil" in tagging.states("a.md")
    tagging.house.drain()
    drop_given(cache, tagging.proposals, "vault", root)
    assert tagging.states("a.md").keys() == {"compost", "bread"}
    tagging.review()
    assert tagging.states("a.md") == {"compost": "applied", "bread": "waiting"}
    assert "`bread`" in tagging.queue.read_text()
    assert "`soil`" not in tagging.queue.read_text()


def test_a_tag_that_was_taken_back_waits_although_the_index_has_it_still(tagging):
    tagging.note("a.md", "---\ntags: [soil]\n---\nThe garden soil.")
    tagging.propose("a.md", "soil")
    tagging.house.write("a.md", "The garden soil.")
    drop_given(tagging.house.cache, tagging.proposals, "vault", tagging.house.root)
    assert tagging.states("a.md") == {"soil": "waiting"}


def test_a_deletion_that_is_held_keeps_what_waits_until_it_is_applied(tagging):
    tagging.note("a.md")
    tagging.propose("a.md", "soil")
    (tagging.house.root / "a.md").unlink()  # held: the ledger has not been told
    withdraw(tagging.house.cache, tagging.proposals, "vault")
    assert tagging.states("a.md") == {"soil": "waiting"}
    assert waiting(tagging) == {}


def test_our_own_change_of_the_frontmatter_asks_for_nothing(tagging):
    tagging.note("a.md", WORDS)
    look(tagging, "a.md")
    tagging.note("a.md", f"---\ntags: [soil]\n---\n{WORDS}")
    assert found(tagging) == []


def test_a_failed_note_is_due_at_its_time(tagging):
    tagging.note("a.md")
    look(tagging, "a.md", outcome="failed", next_attempt=100.0)
    assert found(tagging, 99.0) == []
    assert found(tagging, 100.0) == ["a.md"]


def test_who_asks_is_answered(tagging):
    tagging.note("a.md")
    look(tagging, "a.md", outcome="nothing")
    tagging.proposals.ask("vault", ["a.md"])
    assert found(tagging) == ["a.md"]


@given(st.lists(st.text(max_size=40), max_size=6))
def test_a_text_is_like_itself(texts):
    assert likeness(sketch(texts), sketch(texts)) == 1.0
    assert len(sketch(texts)) == 256


def test_half_of_a_text_is_the_bar():
    def with_share(kept: int) -> bytes:
        return sketch([" ".join([*WORDS.split()[:kept], *(f"x{n}" for n in range(200 - kept))])])

    assert not is_another(sketch([WORDS]), with_share(140))
    assert is_another(sketch([WORDS]), with_share(60))
