"""Passages are packed into a budget, the most relevant or the densest first, and nothing is lost without a word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.context.block import Packer, Tokens
from pipelines.context.candidates import Candidate, Duplicates, joined, whole_section

WORDS = Tokens("words", lambda texts: [len(text.split()) for text in texts])


def text_of(number, words=60):
    """Return a text of `words` words that shares few runs of words with others."""
    return " ".join(f"w{number}x{at}" for at in range(words))


def candidate(path="A.md", number=0, relevance=0.5, words=60, start=None, **more):
    text = more.pop("text", None) or text_of(f"{path}{number}", words)
    start = number * 10_000 if start is None else start
    return Candidate(
        domain="notes", path=path, title=path, section=more.pop("section", "S"), date="2026-01-01", text=text,
        start=start, end=start + len(text), first=1, last=2, relevance=relevance, why="why", **more,
    )  # fmt: skip


def nothing_shorter(*_):
    return None


def packed(candidates, budget, shrink=nothing_shorter, order="relevance", cut=nothing_shorter, **more):
    packer = Packer(budget, WORDS, lambda one: one.text, order)
    packer.add(candidates, shrink, cut, **more)
    return packer.finished()


def test_the_densest_come_first_and_the_rest_is_listed_with_its_size():
    long, short = (
        candidate("Long.md", relevance=0.6, words=400),
        candidate("Short.md", relevance=0.5, words=60),
    )
    found = packed([long, short], 100, order="density")
    assert [one.path for one in found.chosen] == ["Short.md"]
    assert [(one.candidate.path, one.tokens, one.reason) for one in found.left_out] == [
        ("Long.md", 400, "budget")
    ]
    assert found.room == 40


def test_what_is_smaller_may_follow_what_did_not_fit():
    several = [
        candidate("A.md", relevance=0.9),
        candidate("B.md", relevance=0.8, words=90),
        candidate("C.md", words=45),
    ]
    assert [one.path for one in packed(several, 110).chosen] == ["A.md", "C.md"]


DRAWN = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 200), st.floats(0.01, 1)), max_size=30)


@given(DRAWN, st.integers(0, 800), st.sampled_from(["relevance", "density"]))
def test_the_budget_is_kept_and_every_passage_is_chosen_or_left_out(drawn, budget, order):
    several = [
        candidate(f"{path}.md", number, relevance, words)
        for number, (path, words, relevance) in enumerate(drawn)
    ]
    found = packed(several, budget, order=order)
    assert sum(WORDS.of([one.text for one in found.chosen])) <= budget
    paths = {one.path for one in found.chosen}
    assert len(paths) <= 8 or order == "relevance"
    assert all(sum(one.path == path for one in found.chosen) <= 2 for path in paths)
    left = [one.candidate.text for one in found.left_out]
    assert sorted([*left, *(one.text for one in found.chosen)]) == sorted(one.text for one in several)


@given(DRAWN, st.integers(0, 800), st.integers(0, 10))
def test_a_block_holds_every_note_whose_best_passage_fits_in_order(drawn, budget, answers):
    ranked = [
        section(f"{number}.md", words, words, relevance=1 - number / 100)[1]
        for number, (_, words, _) in enumerate(drawn)
    ]
    room, in_order = budget, set()
    for parts in ranked:
        best = max(parts, key=lambda part: part.relevance)
        (size,) = WORDS.of([best.text])
        if size <= room and room >= 40:
            room -= size
            in_order.add(best.path)
    sections = [whole_section(parts) for parts in ranked]
    found = packed(sections[:answers], budget, further=sections[answers:])
    assert in_order <= {one.path for one in found.chosen}


def test_the_densest_come_from_no_more_notes_than_a_third_of_the_candidates():
    several = [candidate(f"{n:02}.md", relevance=1 - n / 100) for n in range(12)]
    found = packed(several, 10_000, order="density")
    assert [one.path for one in found.chosen] == ["00.md", "01.md", "02.md", "03.md"]
    assert {one.reason for one in found.left_out} == {"notes"}
    assert len(packed(several, 10_000, order="density", found=24).chosen) == 8
    assert len(packed(several, 10_000).chosen) == 12


@pytest.mark.parametrize("order", ["relevance", "density"])
@pytest.mark.parametrize("most", [1, 2, 12])
def test_a_domain_sets_how_many_of_its_notes_are_in_a_block(order, most):
    several = [candidate(f"{n}.md", n, relevance=1 - n / 100) for n in range(30)]
    others = [replace(candidate(f"{n}.md", 50 + n, relevance=0.5), domain="others") for n in range(2)]
    packer = Packer(10_000, WORDS, lambda one: one.text, order, {"notes": most, "others": 0})
    packer.add([*several, *others], nothing_shorter, nothing_shorter)
    found = packer.finished()
    assert [one.path for one in found.chosen if one.domain == "notes"] == [f"{n}.md" for n in range(most)]
    assert sum(one.domain == "others" for one in found.chosen) == 2
    assert {one.reason for one in found.left_out} == {"notes"}


def test_domains_without_a_number_of_their_own_share_a_third_of_the_candidates():
    several = [
        replace(candidate(f"{n}.md", n, relevance=1 - n / 100), domain=domain)
        for n, domain in enumerate(("one", "two", "three") * 3)
    ]
    packer = Packer(10_000, WORDS, lambda one: one.text, "density", {"one": 1})
    packer.add(several, nothing_shorter, nothing_shorter)
    assert {one.path for one in packer.finished().chosen} == {"0.md", "1.md", "2.md", "4.md"}


def test_a_note_gives_at_most_two_passages():
    found = packed([candidate("A.md", n) for n in range(5)], 10_000)
    assert len(found.chosen) == 2
    assert [one.reason for one in found.left_out] == ["passages"] * 3


def test_a_copy_is_dropped_and_a_report_with_other_numbers_is_not():
    report = "the quarter brought revenue of {} million euros and the garden business grew as planned"
    several = [
        candidate("Q1.md", relevance=0.9, text=report.format(12)),
        candidate("Copy.md", relevance=0.8, text=report.format(12) + " indeed"),
        candidate("Q2.md", relevance=0.7, text=report.format(14)),
    ]
    found = packed(several, 1_000)
    assert [one.path for one in found.chosen] == ["Q1.md", "Q2.md"]
    assert [(one.candidate.path, one.reason) for one in found.left_out] == [("Copy.md", "alike")]


def section(path="A.md", words=60, step=50, relevance=0.5):
    """Return a section of three passages of `words` words; each begins `step` words after the one before."""
    all_words = [f"{path}{at}" for at in range(words + 2 * step)]
    text, parts = " ".join(all_words), []
    for number in range(3):
        piece = " ".join(all_words[number * step : number * step + words])
        parts.append(candidate(path, relevance=relevance + number / 10, text=piece, start=text.index(piece)))
    return text, parts


def test_a_section_is_whole_where_the_budget_allows_and_else_its_best_parts_come():
    text, parts = section()
    whole = whole_section(parts)
    assert (whole.text, whole.relevance, whole.is_whole) == (text, 0.7, True)
    assert [one.text for one in packed([whole], 700).chosen] == [text]
    (part,) = packed([whole], 110).chosen
    assert part == parts[2]


def test_chosen_parts_that_touch_are_joined():
    text, parts = section()
    (one,) = packed([whole_section(parts)], 300, per_note=3).chosen
    assert one.text == text
    assert not one.is_whole
    assert joined([parts[0], parts[2]]) == [parts[0], parts[2]]


def test_what_does_not_fit_is_compressed_and_what_still_does_not_is_left_out():
    def shrink(one, room):
        assert room > 0
        return replace(one, text=" ".join(one.text.split()[:50]), compressed=True)

    first, second, third = (candidate(f"{n}.md", relevance=1 - n / 10, words=100) for n in range(3))
    found = packed([first, second, third], 155, shrink)
    assert [(one.path, one.compressed) for one in found.chosen] == [("0.md", False), ("1.md", True)]
    assert [one.candidate.path for one in found.left_out] == ["2.md"]


def test_a_later_round_never_displaces_an_earlier_one():
    packer = Packer(130, WORDS, lambda one: one.text)
    packer.add([candidate("Match.md", relevance=0.2)], nothing_shorter, nothing_shorter)
    packer.add(
        [candidate("Near.md", relevance=0.9), candidate("Other.md", relevance=0.8)],
        nothing_shorter,
        nothing_shorter,
        per_note=1,
    )
    found = packer.finished()
    assert {one.path for one in found.chosen} == {"Match.md", "Near.md"}


def test_a_round_leaves_the_rest_of_its_share_to_the_next():
    packer = Packer(200, WORDS, lambda one: one.text)
    packer.add([candidate("A.md"), candidate("B.md")], nothing_shorter, nothing_shorter, share=0.5)
    packer.add([candidate("C.md"), candidate("D.md")], nothing_shorter, nothing_shorter)
    assert {one.path for one in packer.finished().chosen} == {"A.md", "C.md", "D.md"}


@pytest.mark.parametrize("of_file", [True, False])
def test_source_code_counts_twice_and_boilerplate_half(of_file):
    lines = text_of("c", 58).replace(" ", "\n")
    text = lines if of_file else f"```\n{lines}\n```"
    code = candidate("Code.md", relevance=0.3, text=text, is_source=of_file)
    prose, template = candidate("Prose.md", relevance=0.5), candidate("T.md", relevance=0.6, boilerplate=1.0)
    found = packed([prose, template, code], 70, order="density")
    assert [one.path for one in found.chosen] == ["Code.md"]
    assert [one.candidate.path for one in found.left_out] == ["Prose.md", "T.md"]


def halved(one, _room):
    words = one.text.split()
    return replace(one, text=" ".join(words[: len(words) // 2]), end=one.start + len(one.text) // 2)


@pytest.mark.parametrize("order", ["relevance", "density"])
def test_of_a_best_passage_that_does_not_fit_the_best_part_is_packed(order):
    (one,) = packed([candidate("Class.py", words=519)], 397, order=order, cut=halved).chosen
    assert len(one.text.split()) == 259


def test_an_answer_that_is_too_long_is_cut_before_what_is_none_comes():
    found = packed(
        [candidate("Class.py", words=100)], 60, cut=halved, further=[candidate("Other.md", words=50)]
    )
    assert [one.path for one in found.chosen] == ["Class.py"]


def test_a_passage_stands_in_one_slot_alone():
    text, parts = section()
    packer = Packer(1_000, WORDS, lambda one: one.text)
    packer.add([replace(parts[1], slot="first")], nothing_shorter, nothing_shorter)
    packer.add(
        [whole_section([replace(part, slot="second") for part in parts])], nothing_shorter, nothing_shorter
    )
    found = packer.finished()
    assert [one.slot for one in found.chosen] == ["first"]
    assert {(one.candidate.start, one.reason) for one in found.left_out} == {
        (part.start, "alike") for part in parts
    }
    assert text.count(parts[1].text) == 1


@pytest.mark.parametrize("text", ["", "one", "two words", "知识库很好"])
def test_short_texts_repeat_only_themselves(text):
    known = Duplicates()
    known.add("entirely different words are written here")
    assert not known.has(text)
    known.add(text)
    assert known.has(text)
