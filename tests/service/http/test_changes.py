"""The routes that change which notes are indexed, over HTTP."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from queue_config.settings import Settings
from service.app import create_app
from service.runtime.tokens import read_token
from service.usecases.indexing import index_once
from tests.browser.serving import cookie_of
from tests.working import worker
from workers.resources import Resources

PORT = 8745


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    (vault / "Soil.md").write_text("# Soil\n\nclay\n")
    made = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(made), lambda *_: None)
    return made


@pytest.fixture
def anyone(settings):
    return TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")


@pytest.fixture
def program(anyone, settings):
    anyone.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return anyone


def test_a_note_is_found_by_the_first_search_after_the_answer(settings, vault, program):
    (vault / "Boat.md").write_text("a wherry")
    with worker(settings):
        answer = program.post("/index", params={"path": "Boat.md", "wait": 1})
        found = program.get("/search", params={"q": '"wherry"'}).json()["results"]
    assert (answer.status_code, answer.json()["findable"]) == (200, True)
    assert [hit["path"] for hit in found] == ["Boat.md"]


def test_a_note_that_waits_is_accepted(program, vault):
    (vault / "Boat.md").write_text("a wherry")
    answer = program.post("/index", params={"path": "Boat.md"})
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")


@pytest.mark.parametrize(
    ("path", "status"),
    [("", 422), ("No.md", 404), ("../Soil.md", 400), ("/Soil.md", 400), ("a\0.md", 400), ("x" * 5000, 414)],
)
def test_a_path_that_is_no_notes_is_refused(program, path, status):
    assert program.post("/index", params={"path": path}).status_code == status


def test_another_site_cannot_have_a_note_indexed(anyone, settings):
    assert anyone.post("/index?path=Soil.md").status_code == 401
    cookie = {"Cookie": "=".join(cookie_of(settings, PORT))}
    json = {"Content-Type": "application/json"}
    same = {"Sec-Fetch-Site": "same-origin"}
    for headers in (
        json,
        {"Sec-Fetch-Site": "cross-site", **json},
        {"Origin": "http://evil.example", **json},
    ):
        assert anyone.post("/index?path=Soil.md", headers={**cookie, **headers}).status_code == 403
    assert anyone.post("/index?path=Soil.md", headers={**cookie, **same}).status_code == 415
    assert anyone.post("/index?path=Soil.md", headers={**cookie, **same, **json}).status_code == 202
