"""Answers as a person reads them in a terminal."""

from __future__ import annotations

import io

import pytest

from service.cli.console import Terminal
from service.cli.render import line_of, print_communities, print_links, print_search, print_status, section_of
from service.usecases.text import REFINING

HIT = {
    "title": "Soil",
    "section": "",
    "path": "Soil.md",
    "lines": [1, 2],
    "stale": False,
    "excerpt": "alive",
    "match": "strong",
    "marks": [],
    "signals": None,
    "layers": None,
    "alike": [],
}
INDEX = {
    "pending": 0,
    "oldest_pending_s": 0.0,
    "vectors_pending": 0,
    "waits": None,
    "failed": {},
    "model_ready": True,
    "model_problem": None,
}


def said(printing, answer, **how):
    terminal = Terminal()
    terminal.file = io.StringIO()
    terminal.width = 120
    printing(terminal, answer, **how)
    return terminal.file.getvalue()


NEAR = HIT | {"match": "none"}


def answer(match, results=(HIT,), **index):
    return {
        "results": list(results),
        "count": len(results),
        "answers": sum(hit["match"] != "none" for hit in results),
        "match": match,
        "took_ms": 3,
        "reason": None,
        "deep_available": match in ("weak", "none"),
        "index": INDEX | index,
    }


@pytest.mark.parametrize(
    ("path", "place", "line"),
    [
        ("a.md", None, 9),
        ("a.html", None, 1),
        ("a.csv", {"kind": "rows", "first": 22}, 22),
        ("a.py", {"kind": "symbol", "first": 0}, 9),
        ("a.yaml", {"kind": "key", "first": 16}, 16),
        ("a.json", {"kind": "key", "first": 0}, 1),
        ("a.json", {"kind": "rows", "first": 22}, 1),
    ],
)
def test_an_editor_opens_a_hit_at_a_line_of_its_file_and_not_of_its_extracted_text(path, place, line):
    assert line_of(HIT | {"path": path, "lines": [9, 12], "place": place}) == line


@pytest.mark.parametrize(
    ("section", "place", "shown"),
    [("Clay", None, "Clay"), ("Soil", None, ""), ("p. 3", "p. 3", ""), ("Prices", "p. 3", "Prices")],
)
def test_a_section_is_said_once(section, place, shown):
    where = {"place": {"shown": place}} if place else {}
    assert section_of(HIT | {"section": section} | where) == shown


@pytest.mark.parametrize(
    ("match", "words"),
    [("strong", "a strong match"), ("weak", "a weak match"), ("none", "no match")],
)
def test_an_answer_says_how_well_it_matches(match, words):
    text = said(print_search, answer(match, [HIT | {"match": match}]))
    assert words in text
    assert ("everindex deep" in text) == (match != "strong")


def test_without_a_match_the_answer_says_so_first_and_shows_the_nearest():
    text = said(print_search, answer("none", [NEAR | {"title": title} for title in "ABCDE"]))
    assert text.startswith("Your notes do not seem to say. The nearest are:\n 1. A\n")
    assert " 3. C" in text
    assert " 4. D" not in text
    assert "2 more notes are not close to the question; `--all` shows them" in text


def test_an_answer_of_no_note_or_without_a_judgement_says_nothing_of_a_match():
    assert said(print_search, answer("none", ())) == "0 notes in 3 ms\n"
    assert "match" not in said(print_search, answer(None))


def test_a_list_says_so_and_an_answer_names_the_filters_that_were_typed():
    def typed(name, *values, negated=False, alternative=False):
        return {"filter": name, "values": values, "negated": negated, "alternative": alternative}

    filters = [
        typed("tag", "work"),
        typed("kind", "letter", alternative=True),
        typed("property.status", "draft", "open", negated=True),
    ]
    said_of = "filters: tag work or kind letter, not status draft or open"
    asked = answer("strong") | {"order": "relevance", "filters": filters, "more": True}
    assert f"1 note in 3 ms; {said_of}; a strong match" in said(print_search, asked)
    newest = answer(None, [HIT, HIT], model_ready=False) | {
        "order": "newest",
        "filters": filters,
        "more": True,
    }
    assert " ".join(said(print_search, newest).split()).endswith(
        f"2 notes, the newest first, in 3 ms; there are more, which a higher -k shows; {said_of}"
    )


@pytest.mark.parametrize(
    ("stale", "words"),
    [(True, "changed since it was indexed"), (None, "the vault is not there"), (False, "Soil.md:1\n")],
)
def test_a_hit_says_whether_its_file_changed_and_whether_that_is_known(stale, words):
    assert words in said(print_search, answer("strong", [HIT | {"stale": stale}]))


def test_a_long_excerpt_is_indented_and_a_path_is_never_wrapped():
    long = HIT | {"path": f"{'folder/' * 20}Soil.md", "excerpt": "clay and sand " * 20}
    _head, where, *excerpt, _about = said(print_search, answer("strong", [long])).splitlines()
    assert where == f"    {long['path']}:1"
    assert len(excerpt) > 1
    assert all(line.startswith(("    clay", "    and", "    sand")) for line in excerpt)
    assert [line.rstrip() for line in excerpt] == excerpt


def test_what_is_no_answer_is_left_out_and_counted():
    three = answer("strong", [HIT, *(NEAR | {"title": title} for title in ("River", "Moon"))])
    text = said(print_search, three)
    assert "Soil" in text
    assert "River" not in text
    assert "2 more notes are not close to the question; `--all` shows them\n1 note in 3 ms" in text
    assert "Moon" in said(print_search, three, every=True)
    assert "`--all`" not in said(print_search, three, every=True)
    two = answer("strong", [HIT, NEAR])
    assert "1 more note is not close to the question; `--all` shows it" in said(print_search, two)


def test_copies_are_counted_and_some_are_named():
    copies = [{"path": f"copy {number}.md"} for number in range(5)]
    assert "+1 alike: copy 0.md\n" in said(print_search, answer("strong", [HIT | {"alike": copies[:1]}]))
    named = "+5 alike: copy 0.md, copy 1.md, copy 2.md, …\n"
    assert named in said(print_search, answer("strong", [HIT | {"alike": copies}]))


def test_what_an_answer_counts_has_the_right_number():
    assert "1 note in 3 ms" in said(print_search, answer("strong"))
    assert "1 saved note is not indexed yet" in said(print_search, answer("strong", pending=1))
    assert "2 saved notes are not indexed yet" in said(print_search, answer("strong", pending=2))
    assert "1 passage is not searched" in said(print_search, answer("strong", vectors_pending=1))
    isolated = {"communities": [], "isolated": {"fitness": 1, "finance": 2, "x": 0}, "methods": {}}
    lines = "fitness: 1 note belongs to no community\nfinance: 2 notes belong to no community\n"
    assert said(print_communities, isolated) == lines


def test_the_methods_of_ranking_are_said_once_for_domains_that_are_ranked_alike():
    louvain, leiden = (
        {"communities": "louvain", "centrality": "eigenvector"},
        {"communities": "leiden", "centrality": "degree"},
    )
    answer = {"communities": [], "isolated": {}, "methods": {"a": louvain, "b": louvain}}
    line = "communities by Louvain's method, centrality by eigenvector"
    assert said(print_communities, answer) == f"{line}\n"
    answer["methods"]["c"] = leiden
    assert said(print_communities, answer) == (
        f"a, b: {line}\nc: communities by Leiden's method, centrality by degree\n"
    )


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "(about 1 text to embed)"), (5, "embed, about 1 min)"), (600, "about 10 min)")],
)
def test_a_status_says_what_reembed_would_cost(seconds, shown):
    cost = {"change": "the index has passages of 200 words", "texts": 1, "seconds": seconds}
    line = said(print_status, state_of({"reembed": cost}), parked=[])
    assert "nutrition: the index has passages of 200 words; `everindex reembed` switches" in line
    assert shown in line
    assert "reembed" not in said(print_status, state_of({"reembed": None}), parked=[])


def state_of(domain):
    counts = dict.fromkeys(("notes", "chunks", "vectors", "pending", "parked", "ignored", "warned"), 0)
    return {
        "running": True,
        "vault": "/v",
        "domains": {"nutrition": counts | {"model": "org/all-MiniLM-L6-v2", "seconds_left": None} | domain},
        "pending": 0,
        "vectors_pending": 0,
        "last_reconcile": None,
        "watcher": None,
        "problems": [],
    }


def test_a_status_says_that_close_notes_may_change_places_while_sentences_wait_for_vectors():
    assert REFINING in said(print_status, state_of({}) | {"refining": True}, parked=[])
    assert REFINING not in said(print_status, state_of({}), parked=[])


def test_a_status_says_how_large_the_index_is():
    assert "the index has 61.3 MB\n" in said(print_status, state_of({"bytes": 61_300_000}), parked=[])
    assert " MB" not in said(print_status, state_of({}), parked=[])  # a service of an earlier version


def test_a_status_names_the_records_that_have_one_id():
    shared = {"shared_ids": {"EA-1": ["a.yaml", "b.yaml"]}}
    line = "2 records have the id EA-1: a.yaml, b.yaml; give each an id of its own\n"
    assert line in said(print_status, state_of({}) | shared, parked=[])


@pytest.mark.parametrize(("width", "shown"), [(80, "  all-MiniLM-L6-v2"), (120, "  org/all-MiniLM-L6-v2")])
def test_a_status_names_the_model_whole_at_any_width(width, shown):
    terminal = Terminal()
    terminal.file = io.StringIO()
    terminal.width = width
    print_status(terminal, state_of({}), [])
    assert shown in terminal.file.getvalue()


@pytest.mark.parametrize(("limit", "words"), [(2, "2 links; there may be more"), (3, "2 links\n")])
def test_a_list_of_links_that_ends_at_its_limit_says_so(limit, words):
    link = {"path": "a.md", "line": 1, "target": "b", "fragment": "", "meant": "b.md", "ambiguous": False}
    answer = {"links": [link, link], "count": 2}
    terminal = Terminal()
    terminal.file, terminal.width = io.StringIO(), 120
    print_links(terminal, answer, limit)
    assert words in terminal.file.getvalue()


def test_a_hit_that_is_explained_says_its_similarity():
    hit = HIT | {
        "signals": {"meaning": 0.5},
        "layers": [],
        "score": 0.5,
        "similarity": 0.61274,
        "band": "primary",
    }
    assert "score 0.5 = meaning 0.5; similarity 0.613 (primary)" in said(
        print_search, answer("strong", [hit])
    )


def test_a_misspelt_question_is_offered_corrected():
    assert "did you mean: soil compost\n" in said(
        print_search, answer("none", []) | {"did_you_mean": "soil compost"}
    )
