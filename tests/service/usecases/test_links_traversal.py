"""The routes that walk along links."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from pipelines.question import read_question
from queue_config.settings import Settings
from service.app import create_app
from service.cli.main import app as commands
from service.runtime.client import read_token
from service.usecases.evidence import Records
from service.usecases.links import Traversal
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

PORT = 8741
DOMAINS = "main: {legacy: true}\nshed: {path: shed}\n"
NOTES = {
    "Soil": "garden soil: [[Compost]], and a cite\n\n## Sources\n\n[[Winter]]",
    "Compost": "compost for the garden, back to [[Soil]]",
    "Winter": "the winter garden, see [[shed/Tools]]",
    "Stub": "",
    "Alone": "bread and yeast",
    "shed/Tools": "garden tools, see [[Soil]] and [[shed/Ladder]]",
    "shed/Ladder": "a ladder for the garden",
}


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    (vault / "_domains.yaml").write_text(DOMAINS)
    for name, text in NOTES.items():
        file = vault / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    return made


@pytest.fixture
def program(settings):
    client = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    client.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return client


@pytest.fixture
def questions(settings):
    return View(Resources(settings), wait_for_model=True)


def paths(nodes):
    return {node["path"] for node in nodes}


def test_a_walk_returns_what_it_kept_and_dropped_with_the_edge_that_led_there(program):
    answer = program.get("/traverse/Soil.md", params={"q": "garden soil", "depth": 1}).json()
    looked_at = {node["path"]: node for node in (*answer["nodes"], *answer["dropped"])}
    assert looked_at.keys() == {"Soil.md", "Compost.md", "Winter.md"}
    first = answer["nodes"][0]
    assert (first["path"], first["hop"], first["edge"]) == ("Soil.md", 0, None)
    assert first["retain_reason"] == "seed"
    edge = looked_at["Winter.md"]["edge"]
    assert (edge["kind"], edge["source"], edge["target"], edge["type"]) == (
        *("citation", "Soil.md", "Winter.md"),
        None,
    )
    for node in looked_at.values():
        assert -1 <= node["similarity"] <= 1.0001
        assert (node["decay_weight"], node["decay_zero"]) == (1.0, False)
    assert answer["embeddings_read"] >= 3
    assert (answer["unread"], answer["stopped"], answer["calibrated"]) == (0, "depth", False)


def test_the_answer_is_a_picture(program):
    answer = program.get("/traverse/Soil.md", params={"q": "garden soil"}).json()
    shown = paths(answer["nodes"])
    assert all({edge["source"], edge["target"]} <= shown for edge in answer["edges"])
    assert {"pagerank", "community", "title", "domain", "hop"} <= answer["nodes"][0].keys()


def test_without_a_question_the_note_is_the_question(program):
    answer = program.get("/traverse/Alone.md").json()
    assert answer["query"] is None
    assert answer["nodes"][0]["similarity"] == pytest.approx(1.0, abs=1e-3)


def test_a_walk_stays_in_its_notes_domain(program):
    for path, domain in (("Winter.md", "main"), ("shed/Tools.md", "shed")):
        answer = program.get(f"/traverse/{path}", params={"depth": 4}).json()
        nodes = (*answer["nodes"], *answer["dropped"])
        assert len(nodes) > 1
        assert {node["domain"] for node in nodes} == {domain} == {answer["domain"]}
        assert {path.startswith("shed/") for path in paths(nodes)} == {domain == "shed"}


FILTERS = [
    {"path": ["Compost.md", "Winter.md"]},
    {"folder": "shed"},
    {"has": "backlink"},
    {"format": "pdf"},
    {"since": "2000-01-01", "property.status": "open"},
    {"domain": "main"},
    {"domain": "shed"},
    {"min_similarity": "0.5"},
    {"min_similarity": "-1"},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("q", ["garden soil", None])
def test_a_walk_comes_only_to_notes_that_pass_the_filters(program, filters, q):
    """The notes that `GET /search`, or `GET /similar` for a note, has with the same filters; the start always stays."""
    asked = {"q": q, "depth": 4} if q else {"depth": 4}
    answer = program.get("/traverse/Soil.md", params=asked | filters).json()
    route, found = ("/search", {"q": q, "k": 50}) if q else ("/similar/Soil.md", {"k": 50})
    passing = paths(program.get(route, params=found | filters).json()["results"])
    assert answer["nodes"][0]["path"] == "Soil.md"
    assert paths([*answer["nodes"], *answer["dropped"]]) <= passing | {"Soil.md"}
    if filters != {"min_similarity": "0.5"} and passing:
        everything = program.get("/traverse/Soil.md", params=asked).json()
        direct = {node["path"] for node in (*everything["nodes"], *everything["dropped"]) if node["hop"] == 1}
        assert paths([*answer["nodes"], *answer["dropped"]]) >= direct & passing


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_deep_retrieval_keeps_only_notes_that_pass_the_filters(program, filters):
    answer = program.get("/deep", params={"q": "garden soil", "mode": "compare"} | filters).json()
    passing = paths(program.get("/search", params={"q": "garden soil", "k": 50} | filters).json()["results"])
    walks = [walk for part in answer["domains"] for walk in (part["fast"], part["deep"])]
    assert {path for walk in walks for path in paths([*walk["nodes"], *walk["dropped"]])} <= passing
    assert bool(passing) == any(walk["nodes"] for walk in walks)


@pytest.mark.parametrize("address", ["/traverse/Soil.md?", "/deep?q=soil&"])
@pytest.mark.parametrize(("filters", "status"), [("colour=red", 422), ("since=x", 422), ("domain=none", 404)])
def test_a_filter_that_cannot_be_used_is_refused_by_a_walk_as_by_a_search(program, address, filters, status):
    assert program.get(f"{address}{filters}").status_code == status
    assert program.get(f"/search?q=soil&{filters}").status_code == status


def test_an_unknown_note_and_a_bad_depth_are_refused(program):
    unknown = program.get("/traverse/none.md")
    assert (unknown.status_code, unknown.json()["detail"]["state"]) == (404, "unknown")
    assert program.get("/traverse/Soil.md", params={"depth": 5}).status_code == 422


def test_an_empty_note_asks_by_its_title(program):
    assert program.get("/traverse/Stub.md").status_code == 200


def test_a_note_without_vectors_needs_a_question(program, settings):
    for name in ("vault_sentence", "vault_vector"):
        Resources(settings).caches()["main"].con.execute(f"DELETE FROM {name}")
    answer = program.get("/traverse/Stub.md")
    assert answer.status_code == 409
    assert "ask with a question" in answer.json()["detail"]
    assert program.get("/traverse/Stub.md", params={"q": "garden"}).status_code == 200


def test_a_note_whose_file_is_gone_is_left_out(program, settings):
    (settings.vault / "Compost.md").unlink()
    answer = program.get("/traverse/Soil.md", params={"q": "garden"}).json()
    assert "Compost.md" not in paths([*answer["nodes"], *answer["dropped"]])


def test_deep_mode_answers_domain_by_domain(program):
    answer = program.get("/deep", params={"q": "garden"}).json()
    assert (answer["question"], answer["record"], answer["mode"]) == ("garden", None, "deep")
    assert [part["domain"] for part in answer["domains"]] == ["main", "shed"]
    for part in answer["domains"]:
        assert part["fast"] is part["added"] is part["lost"] is None
        assert {node["domain"] for node in part["deep"]["nodes"]} == {part["domain"]}
        assert (part["deep"]["target"], part["deep"]["floor"]) == (50, None)
    assert answer["index"]["vectors_pending"] == 0


def test_compare_shows_both_walks_and_what_deep_adds(program):
    (part,) = program.get("/deep", params={"q": "garden", "mode": "compare", "domain": "main"}).json()[
        "domains"
    ]
    fast, deep = paths(part["fast"]["nodes"]), paths(part["deep"]["nodes"])
    assert set(part["added"]) == deep - fast
    assert set(part["lost"]) == fast - deep
    # Fast begins with three of the five, and Alone has no link.
    assert part["added"]
    assert part["deep"]["embeddings_read"] >= part["fast"]["embeddings_read"] > 0


def test_fast_mode_begins_with_three_notes(program):
    (part,) = program.get("/deep", params={"q": "garden", "mode": "fast", "domain": "main"}).json()["domains"]
    assert part["deep"] is None
    assert [node["retain_reason"] for node in part["fast"]["nodes"]].count("seed") == 3


def test_deep_mode_refuses_an_unknown_domain_and_an_unknown_mode(program):
    assert program.get("/deep", params={"q": "garden", "domain": "none"}).status_code == 404
    assert program.get("/deep", params={"q": "garden", "mode": "wide"}).status_code == 422


def test_a_records_id_stands_for_its_question(questions):
    record = Records(questions).ask("garden tools")
    answer = Traversal(questions).deep(read_question(record.id), "fast")
    assert (answer.question, answer.record) == ("garden tools", record.id)


def test_what_is_no_records_id_is_a_question(questions):
    answer = Traversal(questions).deep(read_question("deadbeef0000"), "fast")
    assert (answer.question, answer.record) == ("deadbeef0000", None)


def test_the_commands_take_the_filters_that_the_routes_take(settings, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", settings.embedding_model)
    where = ["--json", "--vault", str(settings.vault), "--state", str(settings.state)]

    def nodes(*words):
        done = CliRunner().invoke(commands, [*words, "-f", "path=Winter.md", "--domain", "main", *where])
        assert done.exit_code == 0, done.output
        answer = json.loads(done.output)
        return [
            node["path"] for node in (answer if "nodes" in answer else answer["domains"][0]["deep"])["nodes"]
        ]

    assert nodes("deep", "garden", "--from", "Soil.md") == ["Soil.md", "Winter.md"]
    assert nodes("deep", "garden") == ["Winter.md"]
