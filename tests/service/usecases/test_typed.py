"""What people type finds what is written, whatever letters it is written with, and a misspelt word is corrected."""

from __future__ import annotations

import pytest

from pipelines.embedding.models import find_model
from pipelines.question import read_question
from pipelines.search.thresholds import band_of
from queue_config.settings import Settings
from service.mcp.library import Library
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

SELF = "# Self\n\nThe self will do what the self will.\n"
NOTES = {
    "Agnostics.md": "# Notable agnostics\n\nList: Ada Quill, Will Self, Tom Brandt.\n",
    "Self will.md": SELF * 6,
    "Book - The Salt Road.md": "Some lines about caravans.\n",
    "Salt.md": "# Salt\n\nBook about salt. The road is long. Salt road book the the the.\n" * 5,
    "accent.md": "# Résumé of Łukasz Ørsted\n\nnaïve coöperation façade Straße\n",
    "letters.md": "# Letters\n\nA trip to Łódź. The ﬁnancial oﬃce was closed.\n",
    "version.md": "# Versions\n\nUpgrade to v2.10.3 of foo_bar-baz and set MAX_RETRIES=5, see RFC-2119 and port 8080.\n",
    "C# vs C++.md": "# C# vs C++\n\nGenerics in C# and templates in C++, .NET and F#.\n",
    "antique.md": "# One\n\nAn antique car of 1970.\n",
    "antique2.md": "# Two\n\nAn antique car of 1931.\n",
    "ssh.md": "# Remote\n\n```\n- first run `ssh -T git@example.org` then push\n```\n",
    "latin.md": "# Café\n\nlatinbody déjà vu\n",
    "dup.md": "---\ntags: [first]\ntags: [second]\n---\n\ndupbody\n",
    "secret.md": "---\nprivate: true\n---\n# Secret\n\nThe chrysanthemum blooms.\n",
}


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    base = tmp_path_factory.mktemp("typed")
    (base / "vault").mkdir()
    for path, text in NOTES.items():
        (base / "vault" / path).write_text(text, encoding="utf-8")
    resources = Resources(Settings(vault=base / "vault", state=base / "state"))
    index_once(resources, lambda *_: None)
    return View(resources, wait_for_model=True)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ('"will self"', "Agnostics.md"),
        ('"the salt road"', "Book - The Salt Road.md"),
        ("Book - The Salt Road", "Book - The Salt Road.md"),
    ],
)
def test_words_in_a_row_find_the_note_that_has_them_in_its_text_or_its_name(questions, query, path):
    found = [hit.path for hit in questions.search(read_question(query), 10).results]
    assert found[0] == path
    if query.startswith('"'):
        assert found == [path]


@pytest.mark.parametrize(
    ("query", "path", "marked"),
    [
        ("Strasse", "accent.md", "Straße"),
        ("cooperation", "accent.md", "coöperation"),
        ("Lodz", "letters.md", "Łódź"),
        ("financial", "letters.md", "ﬁnancial"),
        ("office", "letters.md", "oﬃce"),
        ("OFFICES", "letters.md", None),
        (".NET", "C# vs C++.md", "NET"),
        ("v2.10.3", "version.md", "v2.10.3"),
        ("foo_bar", "version.md", None),
        ("MAX_RETRIES", "version.md", "MAX_RETRIES"),
    ],
)
def test_a_word_is_found_and_marked_as_the_note_writes_it(questions, query, path, marked):
    hit = questions.search(read_question(query), 10).results[0]
    assert hit.path == path
    if marked:
        assert marked in [hit.excerpt[start:end] for start, end in hit.marks]


@pytest.mark.parametrize(
    ("query", "path", "matches"),
    [
        ("Book - The Salt Road", "Book - The Salt Road.md", {"strong"}),
        ('"the salt road"', "Book - The Salt Road.md", {"strong"}),
        ('"will self"', "Agnostics.md", {"strong"}),
        ('"ssh -T git"', "ssh.md", {"strong"}),
        ('"antique car" -1970', "antique2.md", {"strong"}),
        ("v2.10.3", "version.md", {"strong"}),
        ("foo_bar", "version.md", {"strong"}),
        ("MAX_RETRIES", "version.md", {"strong"}),
        ("deja vu", "latin.md", {"strong"}),
        (".NET", "C# vs C++.md", {"weak", "strong"}),
        ("Strasse", "accent.md", {"weak", "strong"}),
        ("tag:second", "dup.md", {None}),
        ("#second", "dup.md", {None}),
    ],
)
def test_what_a_note_has_word_for_word_is_an_answer(questions, query, path, matches):
    answer = questions.search(read_question(query), 10)
    assert (answer.results[0].path, answer.match in matches) == (path, True)
    assert answer.answers >= 1
    if query.startswith(('"', "tag:", "#")):
        assert [hit.path for hit in answer.results] == [path]


def test_what_no_note_says_has_no_answer(questions):
    answer = questions.search(read_question("how do I bake sourdough bread"), 10)
    assert (answer.match, answer.answers) == ("none", 0)


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("antiqeu car", "antique car"),
        ("Antiqeu car", "Antique car"),
        ("carvans", "caravans"),
        ('"the slat road"', '"the salt road"'),
        ("notabel agnostics?", "notable agnostics?"),
        ("coopration", "coöperation"),
        ("antique car", None),
        ("claude", None),
        ("personnel kettle", None),
        ("what about quantum chromodynamcs", None),
        ("wie sind die Haeuser gebaut worden", None),
        ("-antiqeu car", None),
        ("v2.10.4 antiqe_car ANTIQEU", None),
        ("chrysanthemmum", "chrysanthemum"),
        ("ﾞﾞﾞﾞ", None),
    ],
)
def test_a_misspelt_word_is_corrected_by_the_words_of_notes_and_others_are_left_alone(
    questions, query, meant
):
    assert questions.search(read_question(query), 3).did_you_mean == meant


def test_agents_are_offered_no_word_that_only_a_private_note_has(questions):
    library = Library(questions)
    assert library.view.search(read_question("chrysanthemmum"), 3).did_you_mean is None


def test_without_a_model_nothing_is_corrected_and_no_similarity_is_known(questions):
    answer = View(questions.resources).search(read_question("antiqeu car"), 3)
    assert answer.did_you_mean is None
    assert {hit.similarity for hit in answer.results} == {None}


def test_each_hit_says_how_near_it_is_to_the_question(questions):
    answer = questions.search(read_question("Book - The Salt Road"), 10)
    similarities = [hit.similarity for hit in answer.results]
    assert all(-1 <= one <= 1 for one in similarities)
    assert similarities == [round(one, 4) for one in similarities]
    assert [hit.band for hit in answer.results] == [
        band_of(find_model(None).name, one) for one in similarities
    ]
    assert len({hit.band for hit in answer.results}) > 1
