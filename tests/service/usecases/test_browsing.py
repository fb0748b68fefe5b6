"""What is offered before a question, and what narrows answers down, over real vaults."""

from __future__ import annotations

import os
from datetime import date

import pytest

from pipelines.errors import NoteNotFoundError
from pipelines.filters import Filters
from pipelines.graph.ranking import rank_domain
from pipelines.question import read_question
from queue_config.settings import Settings
from service.usecases.browsing import Browsing
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

TODAY = date(2026, 3, 1)
NOTES = {
    "Garden/Soil.md": ("---\ntags: [earth, Work/wet]\n---\nRoots. [[Compost]]", "2026-02-27"),
    "Garden/Beds/Compost.md": ("---\ntags: [earth]\n---\nLeaves. [[Soil]]", "2026-02-10"),
    "Garden/Beds/Winter.md": (
        "---\ntags: [Earth]\n---\nCold. [[Compost]] [[Compost]] [[Winter]]",
        "2025-09-01",
    ),
    "River.md": ("---\ntags: [Work/wet]\n---\nWater. [[Compost]]", "2020-01-01"),
    "fitness/Log.md": ("Sleep. [[Compost]]", "2026-02-28"),
}


@pytest.fixture
def questions(vault, tmp_path, tiny_model):
    (vault / "_domains.yaml").write_text("notes: {legacy: true}\nfitness: {}\n")
    for path, (text, day) in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
        at = date.fromisoformat(day).toordinal() * 86_400 - date(1970, 1, 1).toordinal() * 86_400
        os.utime(vault / path, (at, at))
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    for domain in resources.domains():
        rank_domain(resources.cache(domain), domain)
    return View(resources, wait_for_model=True)


@pytest.fixture
def browsing(questions):
    return Browsing(questions)


def facets(browsing, questions, *used):
    hits = questions.search(read_question("earth water sleep"), 10).results
    assert len(hits) == len(NOTES)
    found = browsing.facets(hits, used, TODAY)
    return [(one.filter, one.value, one.count) for one in found]


def test_filters_offer_what_most_notes_have_first_and_each_value_once(browsing):
    assert browsing.filter_values() == {
        "folder": ["Garden", "Garden/Beds", "fitness"],
        "tag": ["earth", "Work", "Work/wet"],
        "kind": [],
    }


def test_what_contains_a_value_is_offered_down_to_ten_levels(vault, questions, browsing):
    levels = [f"t{n}" for n in range(20)]
    (vault / "Deep.md").write_text(f"---\ntags: [{'/'.join(levels)}]\n---\nText.")
    index_once(questions.resources, lambda *_: None)
    offered = {tag for tag in browsing.filter_values()["tag"] if tag.startswith("t0")}
    assert offered == {"/".join(levels[:count]) for count in [*range(1, 11), 20]}


def test_what_changed_last_comes_first_whatever_its_domain(browsing):
    titles = [note.title for note in browsing.start().recent]
    assert titles == ["Log", "Soil", "Compost", "Winter", "River"]


def test_a_note_counts_the_other_notes_of_any_domain_that_link_to_it_each_once(browsing):
    assert [(note.title, note.links) for note in browsing.start().most_linked] == [
        ("Compost", 4),
        ("Soil", 1),
    ]


def test_a_note_whose_file_is_gone_is_not_listed(browsing, vault):
    (vault / "Garden/Beds/Compost.md").unlink()
    start = browsing.start()
    assert "Compost" not in {note.title for note in [*start.recent, *start.most_linked]}


def test_an_empty_vault_has_nothing_to_begin_with(tmp_path, tiny_model):
    (tmp_path / "empty").mkdir()
    resources = Resources(
        Settings(vault=tmp_path / "empty", state=tmp_path / "s", embedding_model=str(tiny_model))
    )
    start = Browsing(View(resources)).start()
    assert (start.recent, start.most_linked) == ([], [])


def test_answers_are_counted_by_tag_folder_and_time(browsing, questions):
    assert facets(browsing, questions) == [
        ("tag", "Earth", 3),
        ("tag", "Work/wet", 2),
        ("folder", "Garden", 3),
        ("since", "2026-02-22", 2),
        ("since", "2026-01-30", 3),
        ("since", "2025-03-01", 4),
    ]


def test_a_filter_in_use_is_not_offered_again(browsing, questions):
    used = [("tag", "#earth"), ("since", "2026-01-01")]
    assert facets(browsing, questions, *used) == [("tag", "Work/wet", 2), ("folder", "Garden", 3)]


def test_what_all_answers_have_is_not_offered_and_their_folder_offers_what_is_in_it(browsing, questions):
    hits = questions.search(read_question("earth water sleep", Filters(folders=("garden",))), 10).results
    found = [
        (one.filter, one.value, one.count) for one in browsing.facets(hits, [("folder", "Garden")], TODAY)
    ]
    assert [one for one in found if one[0] != "since"] == [("folder", "Garden/Beds", 2)]


def test_formats_narrow_down_where_the_answers_have_several(vault, questions, browsing):
    (vault / "Earth.txt").write_text("Earth and water.")
    (vault / "Sleep.txt").write_text("Sleep on the earth.")
    index_once(questions.resources, lambda *_: None)
    hits = questions.search(read_question("earth water sleep"), 10).results
    found = [(one.value, one.count) for one in browsing.facets(hits, [], TODAY) if one.filter == "format"]
    assert found == [("md", len(NOTES)), ("txt", 2)]
    assert not [one for one in browsing.facets(hits, [("format", "md")], TODAY) if one.filter == "format"]


def test_a_passage_is_shown_by_line_as_plain_text_and_says_where_it_answers(vault, questions, browsing):
    text = "# Clay\n\n**Heavy** soil, see [[Soil]].\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    (vault / "Clay.md").write_text(text)
    index_once(questions.resources, lambda *_: None)
    passage = browsing.passage("Clay.md", [text.index("**Heavy")])
    shown = [(line.text, line.answers) for line in passage.lines]
    assert ("Heavy soil, see Soil.", True) in shown
    assert not any("|" in line or "*" in line or "---" in line for line, _ in shown)
    assert [line for line, answers in shown if answers] == ["Heavy soil, see Soil."]


def test_each_line_of_a_wrapped_sentence_answers(vault, questions, browsing):
    text = (
        "Clay is heavy.\nIt holds the water of a whole winter, and in the summer it\nbreaks. Sand does not.\n"
    )
    (vault / "Clay.md").write_text(text)
    index_once(questions.resources, lambda *_: None)
    passage = browsing.passage("Clay.md", [text.index("It holds")])
    assert [line.answers for line in passage.lines] == [False, True, True]


def test_a_place_that_a_note_does_not_have_any_more_gives_no_lines(browsing):
    assert browsing.passage("River.md", [10_000]).lines == []


def test_a_passage_of_no_note_is_refused(browsing):
    with pytest.raises(NoteNotFoundError):
        browsing.passage("../outside.md", [0])
