"""A scope narrows the request that names it, in every place that takes filters, and no other."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from pipelines.errors import FilterError
from pipelines.filters import parse_filters
from pipelines.question import read_question
from pipelines.search.scopes import scopes_of
from queue_config.settings import Settings
from service.app import create_app
from service.cli.main import app as commands
from service.runtime.client import read_token
from service.usecases.audience import Audience
from service.usecases.browsing import list_notes
from service.usecases.context import Contexts
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.browser.serving import cookie_of
from tests.canaries import HIDDEN, NOTES, leaks
from workers.resources import Resources

PORT = 8746
FOLDERS = [f"f{number}" for number in range(6)]
SCOPES = "".join(f"{folder}: {{folder: {folder}}}\n" for folder in FOLDERS)
SCOPES += "odd: {tag: odd}\nlisted: {path: [f0/a.md, f1/b.md, no.md]}\nnone: {tag: nothing}\n"


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    for number, folder in enumerate(FOLDERS):
        (vault / folder).mkdir()
        for name in "ab":
            tag = "odd" if number % 2 else "even"
            (vault / folder / f"{name}.md").write_text(
                f"---\ntags: [{tag}]\n---\n# {name} {folder}\n\nGarden soil of {folder}, {name}.\n"
            )
    (vault / "_scopes.yaml").write_text(SCOPES)
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    return made


@pytest.fixture
def program(settings):
    app = create_app(settings, PORT)
    headers = {"Authorization": f"Bearer {read_token(settings.state)}"}
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers=headers)


def of(folder, names="ab"):
    return {f"{folder}/{name}.md" for name in names}


def found(program, route="/search", **params):
    asked = {} if route.startswith("/similar") else {"q": "garden soil"}
    answer = program.get(route, params={**asked, **params})
    assert answer.status_code == 200, answer.text
    rows = answer.json()["passages" if route == "/context" else "results"]
    return {row["path"] for row in rows}


CHOICES = [
    ({"scope": "f1"}, of("f1")),
    ({"scope": ["f1", "odd"]}, of("f1")),
    ({"scope": ["f1", "f2"]}, set()),
    ({"scope": "odd", "folder": ["f1", "f2"]}, of("f1")),
    ({"scope": "f0", "tag": "odd"}, set()),
    ({"scope": "listed"}, {"f0/a.md", "f1/b.md"}),
    ({"scope": "listed", "path": ["f1/b.md", "f2/a.md"]}, {"f1/b.md"}),
    ({"scope": "none"}, set()),
]


@pytest.mark.parametrize(("filters", "expected"), CHOICES)
def test_scope_and_filters_narrow_together(program, filters, expected):
    assert found(program, k=50, **filters) == expected
    assert found(program, "/context", **filters) == expected
    by_body = program.post("/search", json={"q": "garden soil", "k": 50, **filters}).json()
    assert {hit["path"] for hit in by_body["results"]} == expected
    packed = program.post("/context", json={"question": "garden soil", "filters": filters}).json()
    assert {one["path"] for one in packed["passages"]} == expected


def test_requests_with_different_scopes_at_once_do_not_see_each_others(program):
    def ask(number):
        folder = FOLDERS[number % len(FOLDERS)]
        route = ("/search", "/context")[number // len(FOLDERS) % 2]
        if number % 7 == 0:
            return route, None, found(program, "/search", k=50)
        return route, folder, found(program, route, scope=folder)

    with program, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(96)))
    for route, folder, paths in answers:
        expected = of(folder) if folder else set().union(*map(of, FOLDERS))
        assert paths == expected, route


@pytest.mark.parametrize(("filters", "expected"), CHOICES)
def test_similar_notes_are_narrowed_too(program, filters, expected):
    assert found(program, "/similar/f5/a.md", k=50, **filters) == expected - {"f5/a.md"}


def test_similar_notes_take_every_filter_of_a_search(program):
    def similar(**filters):
        return program.get("/similar/f0/a.md", params=filters)

    assert {hit["path"] for hit in similar(tag="even", k=50).json()["results"]} == (
        of("f0", "b") | of("f2") | of("f4")
    )
    nearest = similar(k=1).json()["results"][0]["cosine"]
    near = similar(min_similarity=f"{nearest - 0.0001:.5f}", k=50).json()["results"]
    assert near
    assert all(hit["cosine"] >= nearest - 0.0002 for hit in near)
    assert len(near) < len(similar(k=50).json()["results"])
    assert similar(colour="red").status_code == 422
    assert similar(domain="nope").status_code == 404


@pytest.mark.parametrize("route", ["/search", "/context", "/similar/f0/a.md"])
def test_a_scope_that_is_not_there_is_an_error_that_lists_the_names(program, vault, route):
    asked = {} if route.startswith("/similar") else {"q": "soil"}
    answer = program.get(route, params={**asked, "scope": "f9"})
    assert answer.status_code == 422
    assert "_scopes.yaml has f0, f1, f2" in answer.json()["detail"]
    (vault / "_scopes.yaml").write_text("f9:\n  foldr: x\n")
    answer = program.get(route, params={**asked, "scope": "f9"})
    assert answer.status_code == 409
    assert "_scopes.yaml:2: f9.foldr: unknown key" in answer.json()["detail"]
    assert program.get(route, params=asked).status_code == 200


def test_the_search_page_takes_a_scope_and_says_what_is_wrong_with_it(program, settings):
    headers = {"Accept": "text/html", "Cookie": "=".join(cookie_of(settings, PORT))}
    page = program.get("/", params={"q": "garden soil", "scope": "f1"}, headers=headers).text
    assert "f1/a.md" in page
    assert "f2/a.md" not in page
    assert "there is no scope" in program.get("/", params={"q": "soil", "scope": "f9"}, headers=headers).text


@pytest.mark.parametrize(
    ("command", "rows"), [(["search", "garden soil", "-k", "50"], "results"), (["list"], "notes"),
                          (["context", "garden soil"], "passages"),
                          (["list", "--like", "f0/a.md"], "results")]
)  # fmt: skip
def test_the_commands_take_scopes(settings, command, rows):
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]

    def run(*words):
        return CliRunner().invoke(commands, [*command, *words, *place, "--json"], catch_exceptions=True)

    for words in (["--scope", "odd", "--scope", "f3"], ["-f", "scope=odd", "--scope", "f3"]):
        assert {row["path"] for row in json.loads(run(*words).stdout)[rows]} == of("f3")
    assert isinstance(run("--scope", "f9").exception, FilterError)


def test_a_scope_opens_no_private_note(vault, tmp_path, tiny_model):
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    listed = "".join(f"  - {json.dumps(path)}\n" for path in [*sorted(HIDDEN), "Worms.md"])
    (vault / "_scopes.yaml").write_text(f"all:\n  path:\n{listed}open: {{tag: private}}\n")
    resources = Resources(Settings(vault=vault, state=tmp_path / "s", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    questions = View(resources, wait_for_model=True).seen_by(Audience(resources))
    for name, seen in (("all", ["Worms.md"]), ("open", [])):
        filters = parse_filters([("scope", name)], scopes_of(vault))
        answer = questions.search(read_question("garden soil", filters), 50)
        listed_notes = list_notes(questions, filters, "path")
        block = Contexts(questions).ask(read_question("garden soil", filters), budget=8_000, compress="none")
        for one in (answer, listed_notes, block):
            assert leaks(one.model_dump_json()) == []
        assert [hit.path for hit in answer.results] == seen
        assert [note.path for note in listed_notes.notes] == seen
