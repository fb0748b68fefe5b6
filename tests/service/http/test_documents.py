"""A document is answered like a note, and every answer says where in it the passage is."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.runtime.client import read_token
from tests.working import indexed

PORT = 8742
ROWS = "product,price\n" + "".join(f"apple sort {n},{n}\n" for n in range(2, 30))
CANVAS = json.dumps(
    {
        "nodes": [
            {"id": "g", "type": "group", "label": "Autumn", "x": 0, "y": 0, "width": 90, "height": 90},
            {"id": "a", "type": "text", "text": "Press the pears.", "x": 9, "y": 9, "width": 9, "height": 9},
        ]
    }
)
FILES = {
    "_domains.yaml": "vault:\n  legacy: true\n  formats: [md, txt, canvas, csv]\n",
    "Soil.md": "# Soil\n\nHealthy soil. See [[prices.csv]].\n",
    "prices.csv": ROWS,
    "Year.canvas": CANVAS,
    "list.txt": "Buy milk.\n\nAnd quince.\n",
    "broken.canvas": "{",
    "report.pdf": "not wanted",
}


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return indexed(vault, tmp_path / "state", tiny_model, FILES)


@pytest.fixture
def program(settings):
    client = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    client.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return client


def hit(program, path, query):
    results = program.get("/search", params={"q": query}).json()["results"]
    return next(one for one in results if one["path"] == path)


def test_a_hit_in_a_table_says_the_rows(program):
    found = hit(program, "prices.csv", '"apple sort 25"')
    assert found["place"] == {"kind": "rows", "name": "", "first": 22, "last": 29, "shown": "rows 22-29"}
    assert found["section"] == "rows 22-29"


def test_a_hit_in_a_text_file_says_the_lines(program):
    found = hit(program, "list.txt", "quince")
    assert (found["place"], found["lines"]) == (None, [1, 3])


def test_a_note_of_a_document_has_its_passages_with_their_places_and_its_backlinks(program):
    node = program.get("/node/prices.csv").json()
    assert {chunk["place"]["shown"] for chunk in node["chunks"]} == {"rows 2-21", "rows 22-29"}
    assert [link["path"] for link in node["backlinks"]] == ["Soil.md"]


def test_a_quote_is_verified_against_what_was_read_and_its_place_is_given(program):
    quotes = [
        {"path": "prices.csv", "quote": "apple sort 25 | 25"},
        {"path": "prices.csv", "quote": "apple sort 99 | 99"},
        {"path": "Soil.md", "quote": "Healthy soil."},
    ]
    answer = program.post("/verify", json={"quotes": quotes}).json()["quotes"]
    assert [one["citation_verified"] for one in answer] == [True, False, True]
    assert [one["place"] and one["place"]["shown"] for one in answer] == ["rows 22-29", None, None]


def test_a_record_says_where_its_passages_are(program):
    record = program.post("/v1/rx", json={"question": '"apple sort 25"'}).json()
    shown = program.get(f"/v1/rx/{record['id']}").json()["evidence"]
    assert [(one["path"], one["place"]["shown"]) for one in shown] == [("prices.csv", "rows 22-29")]


def test_a_context_names_the_place_beside_the_lines(program):
    answer = program.get("/context", params={"q": "apple sort 25", "budget": 500}).json()
    passage = next(one for one in answer["passages"] if one["path"] == "prices.csv")
    assert passage["place"].startswith("rows ")
    assert f"`{passage['place']}`" in answer["block"]


def test_the_page_of_a_document_shows_its_parts_under_their_places(program):
    page = program.get("/notes/prices.csv").text
    assert "<h2>rows 22-29</h2>" in page
    assert "apple sort 25 | 25" in page
    assert "Raw text" not in page


def test_what_is_not_indexed_says_why(program):
    said = {path: program.get(f"/why/{path}").json() for path in ("broken.canvas", "report.pdf")}
    assert said["broken.canvas"]["state"] == "parked"
    assert said["report.pdf"]["state"] == "ignored"
    assert "`formats: [" in said["report.pdf"]["cure"]


def test_the_health_counts_the_files_that_could_be_indexed(program):
    assert program.get("/health").json()["other_files"] == {"pdf": 1}
