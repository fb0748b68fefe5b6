"""What the README promises, on the example vault with the embedded model."""

from __future__ import annotations

import re
from collections import defaultdict
from statistics import fmean

import httpx
import pytest

from pipelines.notes.markdown import parse_note
from pipelines.search.evaluate import ndcg, read_judged
from pipelines.vault.files import is_note

from .conftest import EXAMPLES

README = (EXAMPLES.parents[1] / "README.md").read_text(encoding="utf-8")
FILTERS_PAGE = (EXAMPLES.parents[1] / "docs/using.md").read_text(encoding="utf-8")
IDENTIFIERS = {
    "E4042-B": "learning/Error Codes.md",
    "ERR_SOCKET_TIMEOUT": "learning/Incident - The Slow Tuesday.md",
    "§3 Absatz 2": "learning/Mietrecht Notiz.md",
    "getUserById": "learning/Naming Things in Code.md",
    "retry_with_backoff": "learning/Incident - The Slow Tuesday.md",
    "C++": "learning/C++ Notes.md",
    "979-9-4207-1183-2": "learning/The Patient Ledger.md",
    "VO2max": "fitness/VO2max.md",
    "1RM": "fitness/Estimating 1RM.md",
    "NMSH": "Companies/Northmere Shipping.md",
    "豆腐": "nutrition/豆腐与发酵食品.md",
}
PARAPHRASES = {
    "how do I stop lying awake at night": ("fitness", "fitness/Protecting Sleep.md"),
    "why can some firms raise what they charge without losing customers": (
        "finance",
        "Concepts/Moats and Pricing Power.md",
    ),
    "remember things for longer by reviewing at growing intervals": (
        "learning",
        "learning/Spaced Repetition.md",
    ),
    "cheap warm vegetarian dinner": ("nutrition", "nutrition/Lentil Stew.md"),
    "paying well below what you think something is worth": ("finance", "Concepts/Margin of Safety.md"),
    "taking an easy week to recover from hard lifting": ("fitness", "fitness/Deload Weeks.md"),
    "how late in the day can I still drink espresso": ("nutrition", "nutrition/Caffeine.md"),
}


@pytest.mark.parametrize(("query", "path"), IDENTIFIERS.items())
def test_an_exact_identifier_leads_to_its_note(example, query, path):
    answer = example.json("search", query)
    assert answer["results"][0]["path"] == path


def test_every_unique_title_and_alias_leads_to_its_note_over_all_domains(example):
    having = defaultdict(set)
    for file in EXAMPLES.rglob("*.md"):
        path = file.relative_to(EXAMPLES).as_posix()
        if not path.endswith("_taxonomy.md"):
            note = parse_note(path, file.read_text(encoding="utf-8"))
            for name in (note.title, *note.aliases):
                having[name.casefold()].add(path)
    names = {name: paths.pop() for name, paths in having.items() if len(paths) == 1}
    assert len(names) > 90
    firsts = {name: example.get("/search", q=name, k=1).json()["results"][0]["path"] for name in names}
    assert {name: path for name, path in firsts.items() if path != names[name]} == {}


@pytest.mark.parametrize(("query", "domain", "path"), [(q, d, p) for q, (d, p) in PARAPHRASES.items()])
def test_a_paraphrase_finds_its_note_among_its_domains_first_three(example, query, domain, path):
    answer = example.json("search", query, "-k", "3", "--domain", domain)
    assert path in [hit["path"] for hit in answer["results"]]


def test_an_answer_has_the_promised_shape(example):
    answer = example.get("/search", q="pricing power", k=3).json()
    about = {"query", "count", "offset", "answers", "more", "took_ms", "match", "deep_available", "reason"}
    about |= {"not_reranked", "unindexed", "not_indexed"}
    assert answer.keys() == {"results", "index", "text", "order", "filters", "did_you_mean", *about}
    assert answer["index"].pop("generation")
    answer["index"].pop("refining")  # the sentences may still get their vectors
    assert answer["index"] == {
        "pending": 0,
        "oldest_pending_s": 0.0,
        "vectors_pending": 0,
        "model_ready": True,
        "by_words": False,
        "model_problem": None,
        "failed": {},
        "waits": None,
        "held": None,
    }
    assert answer["count"] == len(answer["results"]) == 3
    hit = answer["results"][0]
    promised = {
        "path",
        "title",
        "section",
        "excerpt",
        "score",
        "match",
        "similarity",
        "lines",
        "modified",
        "stale",
    }
    assert hit.keys() >= promised
    assert hit["stale"] is False


def test_a_note_is_one_hit_and_its_lines_hold_its_section(example):
    answer = example.get("/search", q="clear writing habits short sentences", k=10).json()
    paths = [hit["path"] for hit in answer["results"]]
    assert len(paths) == len(set(paths))
    for hit in (one for one in answer["results"] if one["place"] is None):
        lines = (EXAMPLES / hit["path"]).read_text(encoding="utf-8").splitlines()
        first, last = hit["lines"]
        assert 1 <= first <= last <= len(lines)


def test_status_adds_up_to_the_files_on_disk(example):
    domains = example.json("status")["domains"].values()
    counted = sum(d["notes"] + d["parked"] + d["ignored"] + d["pending"] for d in domains)
    files = [path.name for path in example.root.rglob("*") if is_note(path.name)]
    assert counted == len([name for name in files if not name.startswith("_")])
    assert all(d["chunks"] == d["vectors"] for d in domains)


def test_one_domain_alone_answers_with_its_own_notes(example):
    hits = example.get("/search", q="protein", domain="nutrition").json()["results"]
    assert hits
    assert {hit["domain"] for hit in hits} == {"nutrition"}
    assert example.get("/search", q="protein", domain="nosuch").status_code == 404


def test_a_question_of_the_readme_finds_the_document_and_its_place(example):
    told = re.findall(r"^  \| `([^`]+)` \| `(archive/[^`]+)` \|$", README, re.MULTILINE)
    assert len(told) == 6
    for question, where in told:
        hit = example.json("search", question)["results"][0]
        assert f"{hit['path']} {hit['place']['shown']}" == where, question


def test_a_node_shows_its_frontmatter_links_and_chunks(example):
    node = example.json("show", "Companies/Kelvane Optics.md")
    assert node["domain"] == "finance"
    assert any(link["target"] == "Kelvane Factory Visit" for link in node["links"])
    text = (example.root / node["path"]).read_text(encoding="utf-8")
    for chunk in node["chunks"]:
        start, end = chunk["range"]
        assert text[start:end] == chunk["text"]


def test_an_unknown_node_says_what_is_known_of_it(example):
    answer = example.get("/node/nothing.md")
    assert answer.status_code == 404
    assert answer.json()["detail"]["state"] == "unknown"


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("Welcome.md", "indexed"),
        ("x.png", "unknown"),
        (".obsidian/x.md", "ignored"),
        ("no/such.md", "unknown"),
    ],
)
def test_why_says_how_a_path_stands(example, path, state):
    assert example.json("why", path)["state"] == state


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("fitness/pro", "fitness/Protecting Sleep.md"),
        ("cáffeine", "nutrition/Caffeine.md"),
        ("protien", "nutrition/Protein.md"),
    ],
)
def test_the_names_that_the_docs_give_find_what_they_say(example, typed, path):
    assert f"`{typed}` finds" in " ".join(FILTERS_PAGE.split())
    assert example.get("/titles", q=typed).json()["results"][0]["path"] == path


def test_every_filter_that_the_docs_give_lets_notes_of_the_example_vault_pass(example):
    rows = re.findall(r"^\| `[^|]*\|[^|]*\|[^|]*\|[^|]*\| `([^`=]+)=([^`]+)` \|$", FILTERS_PAGE, re.MULTILINE)
    assert len(rows) == 16
    for name, value in rows:
        if name == "scope":
            continue  # the example vault has no scopes
        assert example.get("/search", q="notes", **{name: value}).json()["results"], name


def test_every_route_but_health_needs_the_token(example):
    base = f"http://127.0.0.1:{example.port}"
    for path in (
        "/",
        "/search?q=x",
        "/node/Welcome.md",
        "/ready",
        "/notes/Welcome.md",
        "/openapi.json",
        "/static/site.js",
    ):
        assert httpx.get(base + path).status_code == 401, path
    assert httpx.post(base + "/reload").status_code == 401
    assert httpx.get(base + "/health").json().keys() == {"status", "version"}
    assert httpx.get(base + "/static/style.css").status_code == 200


def test_the_page_is_opened_with_a_link_that_works_once(example):
    code = httpx.post(
        f"http://127.0.0.1:{example.port}/session",
        headers={"Authorization": f"Bearer {(example.state / 'token').read_text().strip()}"},
    ).json()["code"]
    with httpx.Client(base_url=f"http://127.0.0.1:{example.port}", follow_redirects=True) as browser:
        page = browser.get(f"/open/{code}")
        assert page.status_code == 200
        assert 'content="0; url=/"' in page.text
        assert "Search the vault" in browser.get("/").text
        answers = browser.get("/", params={"q": "pricing power"}).text
        assert "<mark>" in answers
        assert "obsidian://" not in answers  # Obsidian never opened this vault
        assert "Welcome" in browser.get("/notes/Welcome.md").text
    assert httpx.get(f"http://127.0.0.1:{example.port}/open/{code}").status_code == 401


def test_a_second_up_says_that_it_runs_and_where(example):
    said = example.run("up", *example.place)
    assert "already running" in said
    assert f"127.0.0.1:{example.port}" in said


def test_search_without_a_service_answers_the_same(example, tmp_path):
    # The only difference between asking the service and the caches is who opens them.
    (example.state / "service.json").rename(tmp_path / "service.json")
    try:
        alone = example.json("search", "pricing power")
    finally:
        (tmp_path / "service.json").rename(example.state / "service.json")
    served = example.json("search", "pricing power")
    assert [h["path"] for h in alone["results"]] == [h["path"] for h in served["results"]]


def test_a_reload_of_an_unchanged_vault_finds_nothing(example):
    found = example.post("/reload").json()["found"]
    assert all(f["new"] == f["updated"] == f["removed"] == 0 for f in found.values())
    assert sum(f["unchanged"] for f in found.values()) == 75
    said = example.run("index", *example.place).splitlines()
    assert [line.partition(":")[0] for line in said] == list(found)


def test_the_judged_questions_are_answered_over_all_domains_almost_as_well_as_in_the_right_one(example):
    asked = read_judged(EXAMPLES)
    found = {q: [hit["path"] for hit in example.get("/search", q=q).json()["results"]] for q in asked}
    assert fmean(ndcg(found[query], grades) for query, grades in asked.items()) > 0.84
