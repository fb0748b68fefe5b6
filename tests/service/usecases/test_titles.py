"""Notes by name and notes like a note, as the routes and the commands answer."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from queue_config.settings import Settings
from service.app import create_app
from service.cli.main import app as commands
from service.runtime.client import read_token
from service.usecases.maintenance import index_once
from service.usecases.search import View
from service.usecases.titles import TitleSearch
from workers.resources import Resources

PORT = 8742
NOTES = {
    "Garden/Soil.md": "# Soil\n\nEarth, worms and roots.\n\n## Clay\n\nHeavy and wet.\n",
    "Garden/Compost.md": "---\naliases: [Black gold]\n---\nRotten leaves feed worms.\n",
    "Winter.md": "Cold and dark.\n",
    "Books/Émile.md": "A book.\n",
    "Empty.md": "",
}


@pytest.fixture
def configured(vault, tmp_path, tiny_model):
    return Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))


@pytest.fixture
def index(vault, configured):
    """Write notes and index them, as often as one likes."""

    def write(notes):
        for path, text in notes.items():
            (vault / path).parent.mkdir(parents=True, exist_ok=True)
            (vault / path).write_text(text)
        index_once(Resources(configured), lambda *_: None)

    write(NOTES)
    return write


@pytest.fixture
def program(index, configured):  # noqa: ARG001 - indexed before it starts
    app = create_app(configured, PORT)
    token = read_token(configured.state)
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers={"Authorization": f"Bearer {token}"})


def named(program, query):
    return [hit["path"] for hit in program.get("/titles", params={"q": query}).json()["results"]]


def test_a_title_is_found_as_it_is_typed_and_the_hit_says_what_matched(program):
    answer = program.get("/titles", params={"q": "black g"}).json()
    assert answer == {
        "query": "black g",
        "count": 1,
        "results": [
            {
                "path": "Garden/Compost.md",
                "title": "Compost",
                "domain": "vault",
                "matched": "alias",
                "name": "Black gold",
            }
        ],
    }
    assert named(program, "emile") == ["Books/Émile.md"]
    assert named(program, "garden/so") == ["Garden/Soil.md"]
    assert named(program, "wintre") == ["Winter.md"]


def test_a_note_that_comes_changes_its_name_or_goes_is_followed_at_once(program, vault, index):
    assert named(program, "shed") == []
    index({"Shed.md": "Tools.", "Winter.md": "# Summer\n\nWarm."})
    assert named(program, "shed") == ["Shed.md"]
    assert named(program, "summer") == ["Winter.md"]
    (vault / "Shed.md").unlink()
    assert named(program, "shed") == []  # not removed from the index yet
    index({})
    assert named(program, "shed") == []


def test_every_thread_sees_the_change_that_another_saw_first(index, configured):
    names = TitleSearch(View(Resources(configured)))
    answers = []

    def ask():
        answers.append(names.titles("shed", 5).count)

    ask()
    index({"Shed.md": "Tools."})
    for _ in range(2):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    ask()
    assert answers == [0, 1, 1, 1]


def test_a_domain_that_goes_and_comes_back_is_found_by_every_thread(vault, index, configured):
    both = "home:\n  legacy: true\ngarden:\n  path: Garden\n"
    (vault / "_domains.yaml").write_text(both)
    index({})
    names = TitleSearch(View(Resources(configured)))
    with ThreadPoolExecutor(1) as other:
        assert other.submit(names.titles, "soil", 5).result().count == 1
        (vault / "_domains.yaml").write_text("home:\n  legacy: true\n")
        assert names.titles("soil", 5).count == 0
        (vault / "_domains.yaml").write_text(both)
        assert other.submit(names.titles, "soil", 5).result().count == 1


def test_notes_like_a_note_come_nearest_first_once_each_and_without_itself(program, configured):
    answer = program.get("/similar/Garden/Soil.md", params={"k": 2}).json()
    cache = Resources(configured).caches()["vault"]
    rows = cache.con.execute(
        "SELECT path, embedding FROM vault_chunk c JOIN vault_vector USING (text_hash)"
    ).fetchall()
    vectors = [(path, np.frombuffer(blob, "<f4")) for path, blob in rows]
    mean = np.mean([vector for path, vector in vectors if path == "Garden/Soil.md"], axis=0)
    assert len([path for path, _ in vectors if path == "Garden/Soil.md"]) == 2
    best = {}
    for path, vector in vectors:
        if path != "Garden/Soil.md":
            best[path] = max(best.get(path, -1), float(vector @ mean / np.linalg.norm(mean)))
    expected = sorted(best, key=best.get, reverse=True)[:2]
    assert [hit["path"] for hit in answer["results"]] == expected
    assert [hit["cosine"] for hit in answer["results"]] == pytest.approx(
        [best[p] for p in expected], abs=1e-3
    )
    assert (answer["count"], answer["reason"]) == (2, None)


def test_a_hit_names_the_nearest_passage(program, index):
    index({"Twin.md": "# Twin\n\nSomething else.\n\n## Cold\n\n" + NOTES["Winter.md"]})
    hit = program.get("/similar/Winter.md").json()["results"][0]
    assert (hit["path"], hit["section"], hit["lines"]) == ("Twin.md", "Cold", [5, 7])


def test_a_hit_in_a_document_says_where_it_is_as_a_search_does(program, vault, configured, monkeypatch):
    (vault / "_domains.yaml").write_text("notes:\n  legacy: true\n  formats: [md, csv]\n")
    (vault / "Frost.csv").write_text("season,weather\nwinter,cold and dark\n")
    index_once(Resources(configured), lambda *_: None)
    hit = next(
        hit for hit in program.get("/similar/Winter.md").json()["results"] if hit["path"] == "Frost.csv"
    )
    assert hit["place"]["shown"] == "row 2"
    monkeypatch.setenv("EMBEDDING_MODEL", configured.embedding_model)
    where = ["--vault", str(vault), "--state", str(configured.state)]
    assert (
        "  Frost.csv row 2  " in CliRunner().invoke(commands, ["list", "--like", "Winter.md", *where]).output
    )


def test_other_domains_of_the_same_model_answer_too(vault, index, program):
    (vault / "_domains.yaml").write_text("home:\n  legacy: true\ngarden:\n  path: Garden\n")
    index({})
    hits = program.get("/similar/Winter.md").json()["results"]
    assert {hit["domain"] for hit in hits} == {"home", "garden"}
    assert [hit["cosine"] for hit in hits] == sorted((hit["cosine"] for hit in hits), reverse=True)
    assert {hit["domain"] for hit in program.get("/titles", params={"q": "soil"}).json()["results"]} == {
        "garden"
    }


def test_a_long_note_does_not_crowd_the_others_out(program, index):
    index({"Long.md": "# Long\n\n" + "\n\n".join(f"## {n}\n\nCold and dark." for n in range(40))})
    near = program.get("/similar/Winter.md", params={"k": 4}).json()["results"]
    assert len({hit["path"] for hit in near}) == 4
    assert len(program.get("/similar/Long.md", params={"k": 4}).json()["results"]) == 4


def test_a_note_without_text_is_compared_by_its_title(program):
    near = program.get("/similar/Empty.md").json()["results"]
    assert near
    assert "Empty.md" in {hit["path"] for hit in program.get(f"/similar/{near[0]['path']}").json()["results"]}


def test_a_note_without_vectors_has_no_answer_and_a_reason(program, configured):
    Resources(configured).caches()["vault"].con.execute("DELETE FROM vault_vector")
    answer = program.get("/similar/Winter.md").json()
    assert answer["results"] == []
    assert "no vectors yet" in answer["reason"]


def test_a_note_whose_file_is_gone_is_not_served(program, vault):
    (vault / "Garden" / "Compost.md").unlink()
    paths = [hit["path"] for hit in program.get("/similar/Garden/Soil.md").json()["results"]]
    assert sorted(paths) == ["Books/Émile.md", "Empty.md", "Winter.md"]


def test_an_unknown_path_is_answered_as_everywhere(program):
    response = program.get("/similar/nowhere.md")
    assert response.status_code == 404
    assert response.json()["detail"] == program.get("/node/nowhere.md").json()["detail"]


@pytest.mark.parametrize("path", ["/titles", "/titles?q=", "/titles?q=a&limit=0", "/similar/Winter.md?k=0"])
def test_what_cannot_be_asked_is_refused(program, path):
    assert program.get(path).status_code == 422


def test_the_commands_answer_what_the_routes_do(program, vault, configured, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", configured.embedding_model)
    where = ["--vault", str(vault), "--state", str(configured.state)]

    def run(*words):
        done = CliRunner().invoke(commands, [*words, *where])
        assert done.exit_code == 0, done.output
        return done.output

    assert json.loads(run("list", "soil", "--json")) == program.get("/titles", params={"q": "soil"}).json()
    near = program.get("/similar/Winter.md", params={"k": 3}).json()
    assert json.loads(run("list", "--like", "Winter.md", "-k", "3", "--json")) == near
    assert "Garden/Compost.md  Compost  also Black gold" in run("list", "black")
    assert "No note has a similar name." in run("list", "xylophone")
    assert near["results"][0]["path"] in run("list", "--like", "Winter.md")


@pytest.mark.usefixtures("index")
def test_the_command_says_what_is_known_of_a_path_that_is_not_indexed(vault, configured, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", configured.embedding_model)
    where = ["--vault", str(vault), "--state", str(configured.state)]
    done = CliRunner().invoke(commands, ["list", "--like", "nowhere.md", *where])
    assert "nowhere.md is unknown" in str(done.exception)
