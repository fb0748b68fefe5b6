"""The routes that walk along links."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from queue_config.settings import Settings
from service.app import create_app
from service.runtime.tokens import read_token
from service.usecases.evidence import Records
from service.usecases.indexing import index_once
from service.usecases.search import SearchService
from service.usecases.traversal import Traversal
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
    return SearchService(Resources(settings), wait_for_model=True)


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
    assert edge == {"kind": "citation", "source": "Soil.md", "target": "Winter.md"}
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
    answer = Traversal(questions).deep(record.id, "fast", None)
    assert (answer.question, answer.record) == ("garden tools", record.id)


def test_what_is_no_records_id_is_a_question(questions):
    answer = Traversal(questions).deep("deadbeef0000", "fast", None)
    assert (answer.question, answer.record) == ("deadbeef0000", None)
