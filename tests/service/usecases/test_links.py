"""The map: JSON for a program, a page for a browser, and nothing loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from queue_config.settings import Settings
from service.app import create_app
from service.runtime.client import read_token
from service.usecases.links import Links
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.browser.serving import cookie_of
from workers.resources import Resources

PORT = 8741
STATIC = Path(__file__).parents[3] / "service" / "web" / "static"
OURS = sorted(STATIC.glob("graph*.js"))
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def state(vault, tmp_path, tiny_model):
    """The state folder of an indexed vault of three linked notes and an isolated one."""
    for name, text in {
        "Garden/Soil": "[[Compost]] and [[Compost|again]], cites [[Winter]]",
        "Garden/Compost": "back to [[Soil]]",
        "Winter": "cold",
        "Alone": "no link",
    }.items():
        file = vault / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    return tmp_path / "state"


@pytest.fixture
def stranger(vault, state, tiny_model):
    """A program without the token."""
    app = create_app(Settings(vault=vault, state=state, embedding_model=str(tiny_model)), PORT)
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}")


@pytest.fixture
def program(stranger, state):
    stranger.headers["Authorization"] = f"Bearer {read_token(state)}"
    return stranger


@pytest.fixture
def browser(stranger, vault, state):
    stranger.headers.update(
        BROWSER | {"Cookie": "=".join(cookie_of(Settings(vault=vault, state=state), PORT))}
    )
    return stranger


def policy(response):
    parts = (part.split() for part in response.headers["content-security-policy"].split(";"))
    return {name: sources for name, *sources in parts}


def test_a_note_whose_file_is_gone_links_to_nothing_and_is_not_shown(program, vault):
    (vault / "Garden" / "Soil.md").unlink()
    assert program.get("/node/Winter.md").json()["backlinks"] == []
    assert program.get("/node/Garden/Soil.md").status_code == 404
    assert "Garden/Soil.md" not in {link["path"] for link in program.get("/links").json()["links"]}
    shown = program.get("/graph", headers={"Accept": "application/json"}).json()
    assert {node["path"] for node in shown["nodes"]} == {"Garden/Compost.md", "Winter.md"}
    assert {edge["source"] for edge in shown["edges"]} <= {"Garden/Compost.md"}


def test_orphans_are_notes_that_are_there(program, vault):
    assert program.get("/orphans").json()["paths"] == ["Alone.md"]
    (vault / "Alone.md").unlink()
    assert program.get("/orphans").json()["paths"] == []


@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
def test_a_program_gets_notes_and_edges(program, accept):
    response = program.get("/graph", headers={"Accept": accept})
    assert response.headers["content-type"] == "application/json"
    assert response.headers["vary"] == "Accept"
    answer = response.json()
    assert [node["path"] for node in answer["nodes"]] == ["Garden/Compost.md", "Garden/Soil.md", "Winter.md"]
    assert {
        "source": "Garden/Soil.md",
        "target": "Garden/Compost.md",
        "kind": "wikilink",
        "count": 2,
        "type": None,
        "relation": None,
    } in answer["edges"]
    assert answer["truncated"] is False


def test_what_is_left_out_is_reported(program):
    answer = program.get("/graph", params={"limit": 2}).json()
    assert (len(answer["nodes"]), answer["truncated"]) == (2, True)


def test_a_program_gets_errors_for_an_unknown_domain_and_a_bad_limit(program):
    assert program.get("/graph", params={"domain": "none"}).status_code == 404
    assert program.get("/graph", params={"limit": 0}).status_code == 422


def test_linked_notes_are_drawn_before_they_have_ranks(program, vault, state, tiny_model):
    caches = Resources(Settings(vault=vault, state=state, embedding_model=str(tiny_model))).caches()
    caches["vault"].con.execute("DELETE FROM vault_rank")
    nodes = program.get("/graph").json()["nodes"]
    assert [node["path"] for node in nodes] == ["Garden/Compost.md", "Garden/Soil.md", "Winter.md"]
    assert {(node["pagerank"], node["community"]) for node in nodes} == {(None, None)}
    assert program.get("/graph", params={"community": 1}).json()["nodes"] == []


def test_a_browser_gets_the_map_which_may_run_our_scripts_only(browser):
    response = browser.get("/graph", params={"domain": "vault", "community": 1})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["vary"] == "Accept"
    assert 'id="map"' in response.text
    rules = policy(response)
    assert rules["default-src"] == ["'none'"]
    for name in ("script-src", "worker-src", "connect-src", "style-src"):
        assert rules[name] == ["'self'"]
    assert "unsafe" not in str(rules)
    assert "blob:" not in str(rules)


def test_the_page_brings_no_script_or_style_of_its_own(browser):
    page = browser.get("/graph").text
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []


def test_other_pages_run_our_own_scripts_and_no_other(browser):
    for path in ("/", "/notes/Winter.md"):
        response = browser.get(path)
        assert response.status_code == 200
        assert policy(response)["script-src"] == ["'self'"]
        for script in re.findall(r"<script[^>]*>", response.text):
            assert re.fullmatch(r'<script type="module" src="/static/[a-z-]+\.js\?v=[0-9a-f]{12}">', script)
        assert re.findall(r"<style|\sstyle=|\son\w+=", response.text) == []
    assert "script-src" not in policy(browser.get("/static/graph.js"))


def test_the_map_needs_the_token_or_the_cookie(stranger):
    assert stranger.get("/graph").status_code == 401
    assert stranger.get("/graph", headers=BROWSER).status_code == 401
    assert stranger.get("/static/graph.js").status_code == 401
    assert stranger.get("/static/vendor/sigma.min.js").status_code == 401


def test_everything_that_page_and_scripts_name_is_served(browser):
    texts = [browser.get("/graph").text, *(path.read_text() for path in OURS)]
    named = {name for text in texts for name in re.findall(r'"(/static/[^"?]+)', text)}
    assert {f"/static/{path.name}" for path in OURS} < named
    assert len([name for name in named if "/vendor/" in name]) == 3
    for name in named:
        response = browser.get(name)
        assert (name, response.status_code) == (name, 200)
        if name.endswith(".js"):
            assert "javascript" in response.headers["content-type"]


def test_the_layouts_worker_may_load_our_scripts_and_nothing_else(browser):
    assert policy(browser.get("/static/graph-layout.js")) == {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
    }


def test_nothing_refers_to_another_host(browser):
    elsewhere = re.compile(r"(?:https?|wss?):|[\"'(`]//\w")
    for text in (browser.get("/graph").text, *(p.read_text() for p in (*OURS, STATIC / "graph.css"))):
        assert elsewhere.findall(text) == []


# Names of XML, and addresses in comments and messages of Mermaid, which runs where the policy allows no request.
NAMES = {"www.w3.org"}
SAID = {"mermaid.tiny.js": NAMES | {
    "chevrotain.io", "github.com", "lodash.com", "openjsf.org", "underscorejs.org", "en.wikipedia.org", "langium.org"
}}  # fmt: skip


@pytest.mark.parametrize("path", sorted((STATIC / "vendor").glob("*.js")), ids=lambda path: path.name)
def test_a_vendor_file_loads_nothing_and_has_its_licence_and_its_line(path):
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://([\w.]+)", text)) <= SAID.get(path.name, NAMES)
    assert re.findall(r"\beval\(|new Function\(|XMLHttpRequest|WebSocket|sendBeacon", text) == []
    readme = (STATIC / "vendor" / "README.md").read_text(encoding="utf-8")
    ((scope, name),) = re.findall(rf"`{re.escape(path.name)}`[^|]*\| \[(?:@([\w-]+)/)?([\w-]+)\]", readme)
    licence = (STATIC / "vendor" / f"{scope or name}.LICENSE.txt").read_text(encoding="utf-8")
    assert "Permission is hereby granted, free of charge" in licence


def test_the_search_page_leads_to_the_map_and_back(browser):
    assert 'href="/graph"' in browser.get("/").text
    assert 'href="/"' in browser.get("/graph").text


def test_what_a_source_file_imports_from_elsewhere_is_reported_as_broken_nowhere(vault, tmp_path, tiny_model):
    (vault / "_domains.yaml").write_text("notes: {legacy: true, formats: [md, code]}\n")
    (vault / "app.py").write_text("import numpy\n\nOPEN_ON_SUNDAYS = True\n")
    (vault / "Numpy.md").write_text("[[nowhere]]")
    resources = Resources(Settings(vault=vault, state=tmp_path / "other", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    questions = View(resources)
    links = Links(questions)
    assert [link.target for link in links.links("broken", None, 10).links] == ["nowhere"]
    written = {link.target: link for link in links.links("any", None, 10).links}
    assert (written["numpy.py"].meant, written["numpy.py"].suggestions) == (None, [])
    assert questions.node("app.py").unresolved == []
    assert [link["target"] for link in questions.node("Numpy.md").unresolved] == ["nowhere"]


def test_a_link_to_a_note_that_was_renamed_names_its_new_path(vault, tmp_path, tiny_model):
    (vault / "Home.md").write_text("[[Köln]]\n")
    (vault / "Köln.md").write_text("# A city\n\nOn the Rhine.\n")
    resources = Resources(Settings(vault=vault, state=tmp_path / "other", embedding_model=str(tiny_model)))
    for old, new in (("Köln", "Cologne"), ("Cologne", "Rhine/Colonia")):
        index_once(resources, lambda *_: None)
        (vault / new).parent.mkdir(exist_ok=True)
        (vault / f"{old}.md").rename(vault / f"{new}.md")
    index_once(resources, lambda *_: None)
    (broken,) = Links(View(resources)).links("broken", None, 10).links
    assert (broken.target, broken.suggestions) == ("Köln", ["Rhine/Colonia.md"])
