"""What is asked of the caches, without a server around it."""

from __future__ import annotations

import shutil

import pytest

from pipelines.errors import FilterError, ModelUnavailableError
from pipelines.filters import Filters, parse_filters
from pipelines.question import read_question
from queue_config.settings import Settings
from service.usecases.browsing import list_notes
from service.usecases.context import Contexts
from service.usecases.explain import explain
from service.usecases.links import Traversal
from service.usecases.maintenance import index_once
from service.usecases.search import View
from service.usecases.tags import Tags
from service.usecases.titles import TitleSearch
from tests.tiny import break_in_memory
from workers.complaints import model_reported
from workers.models import LAST_QUERY_FILE
from workers.resources import Resources


def test_a_question_is_answered_although_it_cannot_be_noted_that_it_was_asked(vault, tmp_path, tiny_model):
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    resources.caches()
    (resources.place.state / LAST_QUERY_FILE).symlink_to("/nowhere/at/all")
    assert View(resources).search(read_question("the garden"), 3).count == 0


def test_a_search_tells_how_long_each_of_its_steps_took(vault, tmp_path, tiny_model):
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    resources.caches()
    questions, told = View(resources, wait_for_model=True), {}
    questions.observe = told.__setitem__
    questions.search(read_question("the garden"), 3)
    assert list(told) == ["encode", "words", "knn", "fusion", "graph", "excerpts", "total"]
    assert sum(told.values()) - told["total"] <= told["total"]


@pytest.mark.parametrize(("k", "available"), [(2, False), (3, True)])
def test_deep_retrieval_is_offered_where_fewer_than_k_notes_are_above_the_noise(
    vault, tmp_path, tiny_model, k, available
):
    for name in ("A", "B"):
        (vault / f"{name}.md").write_text("garden soil")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    assert (
        View(resources, wait_for_model=True).search(read_question("garden soil"), k).deep_available
        is available
    )
    # While the model loads no cosine is known.
    assert not View(resources).search(read_question("garden soil"), k).deep_available


DOMAINS = """
notes: {legacy: true, taxonomy: Words.md}
work: {path: work, lexical: {weight: 0.3}}
"""
NOTES = {
    "_domains.yaml": DOMAINS,
    "Words.md": "# The vocabulary\n\n- `garden`: soil and worms\n- see [[Soil]]",
    "Soil.md": "# Soil\n\nThe garden has soil with worms, see [[Words]] and [[Worms]].",
    "Worms.md": "# Worms\n\nWorms live in garden soil.",
    "work/_taxonomy.md": "- `meeting`: soil, worms, garden",
    "work/Meeting.md": "---\naliases: [Standup]\n---\n# Meeting\n\nWe spoke of garden soil.",
    "work/_notes.md": "# Garden\n\nA note with an underscore, of soil.",
}


@pytest.fixture
def questions(vault, tmp_path, tiny_model):
    (vault / "work").mkdir()
    for path, text in NOTES.items():
        (vault / path).write_text(text)
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    return View(resources, wait_for_model=True)


def found(questions, query):
    return [hit.path for hit in questions.search(read_question(query), 10).results]


def test_configuration_is_found_by_its_name_alone_and_stays_a_note_for_links(questions):
    assert set(found(questions, "garden soil worms")) == {
        "Soil.md",
        "Worms.md",
        "work/Meeting.md",
        "work/_notes.md",
    }
    assert found(questions, "the vocabulary")[0] == found(questions, "words")[0] == "Words.md"
    assert found(questions, "taxonomy")[0] == "work/_taxonomy.md"
    assert questions.why("Words.md")["state"] == "indexed"
    assert [link["path"] for link in questions.node("Words.md").backlinks] == ["Soil.md"]


def test_configuration_is_like_no_note_and_lies_on_no_way(questions):
    similar = TitleSearch(questions).similar("Soil.md", 10).results
    assert {hit.path for hit in similar} == {"Worms.md", "work/Meeting.md", "work/_notes.md"}
    walk = Traversal(questions).traverse("Soil.md", 3, read_question(""))
    assert "Words.md" not in {note.path for note in (*walk.nodes, *walk.dropped)}


def test_configuration_gets_no_tags(questions):
    tags = Tags(questions, questions.resources.queue())
    assert {"Words.md", "work/_taxonomy.md"}.isdisjoint(tags.ask(None, None).paths)
    asked = tags.ask("Words.md", None)
    assert asked.paths == []
    assert asked.problems == ["Words.md configures the domain notes, and gets no tags"]


def test_a_domain_without_a_vocabulary_is_named_and_its_notes_are_not_asked_for(questions):
    (questions.resources.root / "Words.md").unlink()
    tags = Tags(questions, questions.resources.queue())
    asked = tags.ask("Soil.md", None)
    assert asked.paths == []
    assert asked.problems == [
        "notes has no vocabulary, so no tags are proposed; write Words.md, or run `everindex init`"
    ]


def test_a_name_comes_first_over_all_domains(questions):
    for name, path in {"meeting": "work/Meeting.md", "STANDUP": "work/Meeting.md", "soil": "Soil.md"}.items():
        hit = questions.ranked(read_question(name), 10).found[0]
        assert hit.hit.path == path
        assert hit.hit.signals["title"] > 0


def test_quotes_and_minus_signs_hold_in_every_domain(questions):
    assert set(found(questions, '"garden soil"')) == {"Worms.md", "work/Meeting.md"}
    assert set(found(questions, "garden -worms")) == {"work/Meeting.md", "work/_notes.md"}
    answer = questions.search(read_question('"no such phrase"'), 10)
    assert answer.results == []
    assert answer.reason.startswith('no note has the phrase "no such phrase"')
    assert questions.search(read_question("garden"), 10).reason is None
    assert questions.search(read_question("-garden"), 10).reason.startswith(
        "the question says only what to leave out"
    )


NO_NOTE = Filters(since="9999-12-31")


@pytest.mark.parametrize(
    ("query", "filters", "reason"),
    [
        ("garden", Filters(folders=("none",)), "no note is in the folder none"),
        ("garden", NO_NOTE, "no note passes the filters"),
        ("garden -meetings", NO_NOTE, "no note passes the filters"),
        ('"garden soil"', NO_NOTE, "no note passes the filters"),
        ("garden -soil", Filters(folders=("work",)), 'every note that passes the filters has "soil", which'),
        ('"worms live"', Filters(domains=("work",)), "no note that passes the filters has the phrase"),
        (
            "garden -garden",
            Filters(domains=("work",)),
            'every note that passes the filters has "garden", which',
        ),
    ],
)
def test_an_empty_answer_says_why_for_the_domains_and_notes_that_were_asked(
    questions, query, filters, reason
):
    answer = questions.search(read_question(query, filters), 10)
    assert answer.results == []
    assert answer.reason.startswith(reason)


def test_minus_signs_are_no_reason_where_no_note_has_the_words(questions):
    by_words = View(questions.resources)
    assert by_words.search(read_question("zzzz -qqqq"), 10).results == []
    assert by_words.search(read_question("zzzz -qqqq"), 10).reason is None


def test_minus_signs_are_no_reason_in_an_empty_vault(vault, tmp_path, tiny_model):
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    resources.caches()
    for query in ("zzzz -qqqq", '"zzzz"'):
        answer = View(resources).search(read_question(query), 10)
        assert (answer.results, answer.reason) == ([], None)


def test_a_note_that_quotes_leave_out_is_explained(questions):
    assert explain(questions, read_question('"garden soil"'), "Soil.md", 10).reason.startswith(
        "it lacks the phrase"
    )
    assert explain(questions, read_question("garden -worms"), "Soil.md", 10).reason.startswith(
        "it has what the question leaves"
    )


def test_what_is_not_wanted_is_not_part_of_the_vector(questions):
    plain, without = (
        questions.ranked(read_question(text), 10).question.vectors
        for text in ("garden soil", "garden soil -meetings")
    )
    assert all((plain[model] == without[model]).all() for model in plain)


def test_two_domains_are_one_answer(vault, tmp_path, tiny_model):
    notes = {
        "_domains.yaml": "kitchen:\n  legacy: true\nboats:\n  path: boats\n  lexical:\n    weight: 0.5\nempty:\n  path: nothing\n",
        "Bread.md": "# Bread\n\nBread needs a hot oven.",
        "Oven.md": "# Oven\n\nThe oven is hot.",
        "boats/Sail.md": "# Sail\n\nA sail and a hot oven.",
        "boats/Gone.md": "# Gone\n\nThe hot oven of a boat.",
    }
    for path, text in notes.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(text, encoding="utf-8")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    (vault / "boats/Gone.md").unlink()
    (vault / "Oven.md").write_text("# Oven\n\nIt is cold.", encoding="utf-8")
    questions = View(resources, wait_for_model=True)
    hits = questions.search(read_question("hot oven"), 10, explain=True).results
    assert {hit.path: (hit.domain, hit.stale) for hit in hits} == {
        "Bread.md": ("kitchen", False),
        "Oven.md": ("kitchen", True),
        "boats/Sail.md": ("boats", False),
    }
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(hit.layers[-1].layer == "merged" for hit in hits)
    in_memory = View(resources, wait_for_model=True)
    in_memory.load_models()
    in_memory.follow_commits()
    again = in_memory.search(read_question("hot oven"), 10).results
    assert [(hit.path, pytest.approx(hit.score, abs=1e-4)) for hit in again] == [
        (h.path, h.score) for h in hits
    ]
    for slug in ("kitchen", "boats"):
        alone = questions.search(read_question("hot oven", Filters(domains=(slug,))), 10).results
        assert [hit.path for hit in alone] == [hit.path for hit in hits if hit.domain == slug]
    assert [hit.path for hit in questions.search(read_question("hot oven"), 1).results] == [hits[0].path]


def test_a_model_that_breaks_is_a_problem_until_it_is_loaded_again_and_words_are_searched(
    vault, tmp_path, tiny_model
):
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    (vault / "a.md").write_text("garden soil")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(model)))
    index_once(resources, lambda *_: None)
    questions = View(resources)
    questions.load_models()
    assert questions.search(read_question("garden"), 3).index.model_ready
    break_in_memory(resources.embedders.get(str(model)))
    weights = model / "model.safetensors"
    kept = weights.read_bytes()
    weights.write_bytes(kept[:1000])
    (hit,) = questions.search(read_question("soil"), 3).results
    assert hit.path == "a.md"
    for _ in range(2):
        with pytest.raises(ModelUnavailableError), model_reported(resources, "query", lambda: True):
            questions.load_models()
        answer = questions.search(read_question("soil"), 3)
        assert ([hit.path for hit in answer.results], answer.index.model_ready) == (["a.md"], False)
        assert "the embedding model cannot be used" in answer.index.model_problem
        assert answer.index.model_problem in questions.health(resources.queue()).problems
    weights.write_bytes(kept)
    with model_reported(resources, "query", lambda: True):
        questions.load_models()
    answer = questions.search(read_question("garden"), 3)
    assert (answer.index.model_ready, answer.index.model_problem) == (True, None)


TAGGED = {
    "a.md": "---\ntags: [soil]\npublished: 2024-03-01\n---\n# Beds\n\nThe garden soil of the beds, a draft.",
    "b.md": "---\nkind: letter\npublished: 2025-03-01\n---\n# Letter\n\nOf garden soil and worms, a draft.",
    "c/d.md": "---\ntags: [soil/clay]\nkind: letter\npublished: 2023-03-01\n---\n# Clay\n\nThe garden has clay.",
    "c/copy.md": "---\ntags: [soil/clay]\npublished: 2022-03-01\n---\n# Clay\n\nThe garden has clay.",
}


@pytest.fixture
def tagged(vault, tmp_path, tiny_model):
    for path, text in TAGGED.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(text)
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    return View(resources, wait_for_model=True)


@pytest.mark.parametrize(
    ("operators", "pairs"),
    [
        ("tag:soil", [("tag", "soil")]),
        ("#soil -kind:letter", [("tag", "soil"), ("-kind", "letter")]),
        ("after:2024-01-01", [("since", "2024-01-01")]),
        ("path:c title:clay", [("path", "c"), ("title", "clay")]),
    ],
)
@pytest.mark.parametrize("question", ["the garden soil", '"garden soil"', "garden -worms"])
def test_an_operator_answers_as_its_filter_does(tagged, question, operators, pairs):
    typed = tagged.search(read_question(f"{question} {operators}"), 10)
    beside = tagged.search(read_question(question, parse_filters(pairs)), 10)
    assert typed.results == beside.results
    assert (typed.text, typed.answers, typed.match) == (question, beside.answers, beside.match)
    assert [(one.filter, *one.values) for one in typed.filters] == [
        (name.removeprefix("-"), value) for name, value in pairs
    ]


@pytest.mark.parametrize("query", ["tag:soil", "#soil", "#SOIL "])
def test_operators_alone_list_the_notes_that_pass_the_newest_first_and_copies_too(tagged, query):
    answer = tagged.search(read_question(query), 2)
    assert [hit.path for hit in answer.results] == ["a.md", "c/d.md"]
    assert (answer.order, answer.answers, answer.more, answer.match) == ("newest", 2, True, None)
    assert [hit.path for hit in tagged.search(read_question(query), 2, offset=2).results] == ["c/copy.md"]
    listed = list_notes(tagged, parse_filters([("tag", "soil")]), "date")
    assert [note.path for note in listed.notes] == found(tagged, query)
    assert answer.results[0].excerpt.startswith("The garden soil")


def test_what_is_left_out_beside_operators_alone_is_not_listed(tagged):
    assert found(tagged, "tag:soil -draft") == ["c/d.md", "c/copy.md"]
    assert found(tagged, "-draft") == []
    assert tagged.search(read_question("kind:letter -draft -clay"), 10).reason == (
        'every note that passes the filters has "draft" or "clay", which the question leaves out'
    )
    assert (
        tagged.search(read_question("tag:soyl"), 10).reason == "no note has the tag soyl; did you mean soil?"
    )


def test_a_list_leaves_out_a_note_whose_file_is_gone_and_a_nearness_has_nothing_to_compare(tagged, vault):
    (vault / "a.md").unlink()
    assert found(tagged, "tag:soil") == ["c/d.md", "c/copy.md"]
    with pytest.raises(FilterError, match="min_similarity"):
        tagged.search(read_question("tag:soil", parse_filters([("min_similarity", "weak")])), 10)


def test_why_a_note_is_no_answer_names_its_filters(tagged):
    assert explain(tagged, read_question("garden soil tag:soil"), "b.md", 10).reason == (
        "it does not pass the filters in the question"
    )
    assert explain(tagged, read_question("tag:soil"), "c/copy.md", 1).reason == (
        "it is number 3 of 3 candidates, the newest first, and 1 are shown"
    )


def test_a_context_and_a_deep_walk_keep_to_the_operators(tagged):
    block = Contexts(tagged).ask(read_question("garden kind:letter"), budget=500, compress="none")
    assert {one.path for one in block.passages} <= {"b.md", "c/d.md"}
    assert (block.question, [one.written for one in block.filters]) == ("garden kind:letter", ["kind:letter"])
    assert Contexts(tagged).ask(read_question("kind:letter"), budget=500, compress="none").passages
    walk = Traversal(tagged).deep(read_question("garden soil -kind:letter"), "deep").domains[0].deep
    assert {node.path for node in walk.nodes} == {"a.md", "c/copy.md"}
