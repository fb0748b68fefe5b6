"""A note's title, alias or file name, typed as the question, puts the note first."""

from __future__ import annotations

import string
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.cache.cache import SqliteCache
from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.fusion import NoteHit
from pipelines.search.names import (
    NoteNames,
    lift_by_words,
    share_of_words,
    terms_of,
    with_titles,
    words_of_name,
)
from pipelines.search.rank import Source, depth_for, rank_notes
from pipelines.sqlite import TOKENIZER, stem
from tests.pipelines.conftest import housed

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DOMAIN = Domain("vault", "", legacy=True, graph_mode="off")
NOTES = {
    "moats.md": "---\ntitle: Moats and Pricing Power\naliases: [Wettbewerbsvorteil]\n---\nOn firms.",
    "Occam.md": "# Occam's razor\n\nFewer things.",
    "cafe.md": "---\ntitle: Café Größe\n---\nA place.",
    "lodz.md": "---\ntitle: Łódź, ﬁnancial oﬃce\n---\nA town.",
    "c.md": "# C\n\nA language.",
    "cpp.md": "# C++\n\nAnother language, and C.",
    "csharp.md": "# C#\n\nYet another language than C++.",
    "home.md": "# 🏠 Home\n\nStart here.",
    "house.md": "---\ntitle: 🏠\n---\nOnly a sign.",
    "豆腐.md": "---\ntitle: 豆腐 与 发酵食品\n---\n食品。",
    "daily.md": "---\ntitle: Daily note -template\n---\nOf a template.",
    "journal/2024-01-31.md": "# A winter day\n\nSnow.",
    "Empty idea.md": "",
    "drafts/1.md": "---\naliases: [Leere Notiz]\n---\n\n",
    "***.md": "",
    "_taxonomy.md": "# Tags\n\n- snow\n- language",
    **{
        f"noise/{n}.md": f"# Noise {n}\n\n" + "Home, moats and pricing power, C, C++, razor. " * 8
        for n in range(9)
    },
}
NAMES = {
    "moats and pricing power": "moats.md",
    "Wettbewerbsvorteil": "moats.md",
    "moats": "moats.md",
    "moats.md": "moats.md",
    "Occams Razor": "Occam.md",
    "Occam’s razor?": "Occam.md",
    "cafe grosse": "cafe.md",
    "CAFÉ GRÖSSE": "cafe.md",
    "Ｃafe\u0301 Größe!": "cafe.md",
    "lodz financial office": "lodz.md",
    "c": "c.md",
    "C++": "cpp.md",
    "c#": "csharp.md",
    "home": "home.md",
    "🏠": "house.md",
    "豆腐与发酵食品": "豆腐.md",
    "「豆腐」与 发酵食品": "豆腐.md",
    '"Moats and pricing power"': "moats.md",
    "daily note -template": "daily.md",
    "2024-01-31": "journal/2024-01-31.md",
    "empty idea": "Empty idea.md",
    "leere notiz": "drafts/1.md",
    "***": "***.md",
    "taxonomy": "_taxonomy.md",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("named"), tiny_embedder, NOTES) as house:
        yield house


def ranked(house, query, domain=DOMAIN, **given):
    vector = house.embedder._embedder.encode_query(query)
    return rank_notes(Source(domain, house.cache, vector, **given), read_question(query), depth_for(10), NOW)


@pytest.mark.parametrize(("query", "path"), NAMES.items())
def test_a_name_typed_as_the_question_puts_its_note_first(house, query, path):
    for domain in (DOMAIN, replace(DOMAIN, fusion="rrf", lexical_weight=0.3)):
        ranking = ranked(house, query, domain)
        first = ranking.hits[0]
        assert first.path == path
        assert first.signals["title"] > 0
        assert first.score == pytest.approx(sum(first.signals.values())) == first.scores["titled"]
        assert ranking.ranks_of(path)["named"] == 1


def test_a_name_within_a_question_counts_by_its_words_and_not_as_a_name(house):
    ranking = ranked(house, "moats and pricing power of home")
    assert "named" not in ranking.layers
    assert all("title" not in hit.signals for hit in ranking.hits)
    assert ranking.hits[0].path == "moats.md"
    assert ranking.hits[0].score == pytest.approx(ranking.hits[0].scores["called"])
    assert ranking.ranks_of("moats.md")["called"] == 1


GLOSSARY = (
    "# Glossary\n\n## Alias\n\nAn alias is an alternative name of a note.\n\n## Fold\n\nTo hide a part."
)
ALIASES = "# Aliases\n\nA note is found by any alias that you write as an alternative into its properties."


@pytest.mark.parametrize("query", ["alias of a note", "what is an alias", "ALIAS of notes"])
def test_the_note_about_nothing_else_comes_before_a_glossary_in_any_form_of_its_name(house, query):
    house.write("Glossary.md", GLOSSARY)
    house.write("Aliases.md", ALIASES)
    house.index()
    first, second = ranked(house, query).hits[:2]
    assert (first.path, second.path) == ("Aliases.md", "Glossary.md")
    assert first.signals["name_words"] > 0
    without = ranked(house, query, without=frozenset({"name_words"}))
    assert "called" not in without.layers
    assert without.hits[0].path == "Glossary.md"


@pytest.mark.parametrize(
    ("query", "has_it"),
    [
        ("pricing power of firms", True),
        ("with what pricing power do some firms hold on for long", False),
        ("firms", False),
        ("with", False),
        ("豆腐怎么做好吃", True),
        ("豆怎么做腐好吃", False),
        ("在家里怎么做豆腐才会又嫩又好吃而且不容易碎掉", False),
    ],
)
def test_words_of_names_count_in_short_questions(house, query, has_it):
    hits = ranked(house, query).hits
    assert any(hit.signals.get("name_words") for hit in hits if "noise" not in hit.path) is has_it


@pytest.mark.parametrize(
    ("name", "question", "share"),
    [
        ("Aliases", "alias", 1.0),
        ("Daily notes", "daily note", 1.0),
        ("Daily notes", "note", 0.25),
        ("GitHub Pages", "the github page", 1.0),
        ("Café", "CAFE", 1.0),
        ("C++", "c++", 1.0),
        ("C++", "c#", 0.25 / 2),
        ("标签", "如何设置标签", 1 / 5),
        ("标签", "签标", 0.0),
        ("What is it", "what is it", 0.0),
    ],
)
def test_a_name_is_asked_for_by_the_share_of_its_words_in_any_form(name, question, share):
    asked = dict.fromkeys(terms_of(question), 1.0)
    assert share_of_words(list(terms_of(name)), asked) == pytest.approx(share)


@settings(max_examples=100)
@given(st.text(st.sampled_from(string.ascii_letters + "éñøжя0123456789"), min_size=1, max_size=12))
def test_a_word_is_stemmed_as_the_index_stems_it_and_once_is_enough(house, word):
    own = house.cache.con.execute("SELECT sql FROM sqlite_master WHERE name = 'vault_chunk_fts'").get
    assert f"tokenize = '{' '.join(TOKENIZER)}'" in own
    assert stem(stem(word)) == stem(word) == stem(word.upper())


_idfs = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 9.0), min_size=1)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True), _idfs, st.sampled_from("abcdef"))
def test_a_name_counts_more_the_more_of_it_is_asked_for_and_the_rarer_that_is(name, telling, word):
    share = share_of_words(name, telling)
    assert 0.0 <= share <= 1.0 + 1e-9
    assert (share > 0) is (not telling.keys().isdisjoint(name))
    if word in name and word in telling:
        assert share_of_words(name, telling | {word: 2 * telling[word]}) >= share - 1e-9
        assert share_of_words([*name, "z"], telling) < share
    elif word in telling:
        assert share_of_words(name, telling | {word: 2 * telling[word]}) <= share + 1e-9


def test_the_words_of_a_name_add_at_most_their_worth_and_no_note():
    hits = [NoteHit("a", 1, {"meaning": 0.9}), NoteHit("b", 2, {"meaning": 0.8})]
    first, second = lift_by_words(hits, {"b": 1.0, "c": 1.0})
    assert (first.path, first.signals["name_words"]) == ("b", pytest.approx(0.3 * 0.9))
    assert (second.signals, second.scores) == ({"meaning": 0.9}, {"called": 0.9})


def test_a_filter_holds_for_named_notes(house):
    ids = [i for i, path in house.cache.con.execute("SELECT id, path FROM vault_chunk") if "noise" in path]
    assert all("noise" in hit.path for hit in ranked(house, "moats and pricing power", only=ids).hits)


def test_what_configures_a_domain_is_found_by_its_name_alone(house):
    assert "_taxonomy.md" not in {hit.path for hit in ranked(house, "snow language").hits}
    assert ranked(house, "tags").hits[0].path == "_taxonomy.md"


def test_a_name_that_many_notes_have_names_none_of_them(house):
    names = NoteNames()
    for number in range(12):
        house.write(f"many/{number}/index.md", f"# Number {number}")
    house.write("two/a.md", "# Twice")
    house.write("two/b.md", "---\naliases: [twice]\n---\nAgain.")
    house.index()
    assert names.called(house.cache, read_question("index")) == {}
    assert names.called(house.cache, read_question("twice")) == {"two/a.md": 1.2, "two/b.md": 1.15 / 2}


def test_names_follow_the_notes(house):
    names = NoteNames()
    assert names.called(house.cache, read_question("A fleeting thing")) == {}
    house.save("fleeting.md", "# A fleeting thing")
    assert names.called(house.cache, read_question("a fleeting thing")).keys() == {"fleeting.md"}
    house.save("fleeting.md", "---\naliases: [passing]\n---\n# Another thing")
    assert names.called(house.cache, read_question("A fleeting thing")) == {}
    assert names.called(house.cache, read_question("Passing")).keys() == {"fleeting.md"}
    (house.root / "fleeting.md").rename(house.root / "moved.md")
    house.index()
    assert names.called(house.cache, read_question("passing")) == {"moved.md": 1.15}


def test_a_question_in_an_older_state_of_the_index_reads_no_name_again(house):
    names, reader = NoteNames(), SqliteCache.open(house.cache.path)
    with reader.snapshot():
        assert names.called(reader, read_question("A fleeting thing")) == {}
        house.save("fleeting.md", "# A fleeting thing")
        names.follow(house.cache)
        statements: list[str] = []
        reader.con.exec_trace = lambda _, statement, __: statements.append(statement) or True
        names.follow(reader)
        assert statements
        assert not any("vault_node" in statement for statement in statements)
    reader.close()
    assert names.called(house.cache, read_question("a fleeting thing")).keys() == {"fleeting.md"}


_words = st.text(st.sampled_from(string.ascii_letters + "éßñøжя豆腐が한"), min_size=1, max_size=8)


@settings(max_examples=200)
@given(st.lists(_words, min_size=1, max_size=4), st.sampled_from(["NFC", "NFD", "NFKC"]), st.data())
def test_case_form_and_punctuation_make_no_other_name(words, form, data):
    between = data.draw(st.sampled_from([" ", "-", "_", ", ", " / ", " (", ": "]))
    typed = unicodedata.normalize(form, between.join(words))
    typed = data.draw(st.sampled_from([typed, f"{typed}?", f'"{typed}"', f"  {typed}. ", f"#{typed}"]))
    assert words_of_name(typed.upper().lower()) == words_of_name(" ".join(words).upper().lower())
    assert words_of_name(typed) == words_of_name(" ".join(words))


@given(st.lists(st.tuples(st.floats(0, 2), st.sampled_from([0.0, 1.1, 1.2])), min_size=1, max_size=8))
def test_a_title_is_worth_a_bounded_share_of_the_best_score_however_often_it_is_given(given_hits):
    hits = [
        NoteHit(f"{n}", n, {"meaning": score}, {"named": named} if named else {})
        for n, (score, named) in enumerate(given_hits)
    ]
    once = with_titles(hits)
    assert with_titles(once) == once
    best = max(score for score, _ in given_hits) or 1.0
    for hit, (score, named) in zip(once, given_hits, strict=True):
        assert hit.score == pytest.approx(score + named * best) == hit.scores["titled"]
    firsts = [hit for hit, (_, named) in zip(once, given_hits, strict=True) if named]
    if len(firsts) == 1:
        assert max(once, key=lambda hit: hit.score) is firsts[0]


_titled = st.lists(
    st.tuples(
        st.lists(_words, min_size=1, max_size=3).map(" ".join), st.sampled_from(["", "\n \n", "Of noise."])
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda note: words_of_name(note[0]),
)


@settings(max_examples=15)
@given(_titled, st.sampled_from(["rrf", "convex"]))
def test_any_note_with_a_title_of_its_own_comes_first_for_it_with_text_or_without(house, notes, fusion):
    files = [file.stem for file in house.root.rglob("*.md") if not file.name.startswith("any-")]
    taken = {words_of_name(name) for name in (*NAMES, *files)}
    notes = [(title, body) for title, body in notes if words_of_name(title) not in taken]
    for number in range(6):
        (house.root / f"any-{number}-any.md").unlink(missing_ok=True)
    for number, (title, body) in enumerate(notes):
        house.write(f"any-{number}-any.md", f"---\ntitle: '{title}'\n---\n{body}")
    house.index()
    for number, (title, _) in enumerate(notes):
        assert ranked(house, title, replace(DOMAIN, fusion=fusion)).hits[0].path == f"any-{number}-any.md"
