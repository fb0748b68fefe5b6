"""`POST /search` asks what `GET /search` asks, by a JSON body."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from queue_config.settings import Settings
from service.app import create_app
from service.runtime.client import read_token
from service.usecases.maintenance import index_once
from workers.resources import Resources

PORT = 8743


@pytest.fixture
def program(vault, tmp_path, tiny_model):
    for name, front in {"a": "tags: [x]", "b": "rank: 2", "c": "rank: 3\ndone: true"}.items():
        (vault / f"{name}.md").write_text(f"---\n{front}\n---\n# {name}\n\nThe garden soil of {name}.\n")
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    app = create_app(settings, PORT)
    token = read_token(settings.state)
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers={"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({}, {"a.md", "b.md", "c.md"}),
        ({"tag": "x"}, {"a.md"}),
        ({"property.rank": 2}, {"b.md"}),
        ({"path": ["b.md", "c.md", "no.md"], "fold": False}, {"b.md", "c.md"}),
        ({"property.done": True}, {"c.md"}),
        ({"section": ["a", "c"]}, {"a.md", "c.md"}),
        ({"property.rank": [2, 3]}, {"b.md", "c.md"}),
        ({"-tag": "x"}, {"b.md", "c.md"}),
        ({"q": "garden -#x OR [rank:3]"}, {"b.md", "c.md"}),
        ({"q": "tag:x"}, {"a.md"}),
    ],
)
def test_the_body_has_the_parameters_of_the_address(program, body, found):
    answer = program.post("/search", json={"q": "garden", **body}).json()
    assert {hit["path"] for hit in answer["results"]} == found
    assert (
        answer["results"]
        == program.get(
            "/search",
            params={"q": "garden", **{name: str(v).lower() if v is True else v for name, v in body.items()}},
        ).json()["results"]
    )


def test_a_long_list_of_paths_fits(program):
    paths = [f"{'long ' * 30}{number}.md" for number in range(900)]
    answer = program.post("/search", json={"q": "garden", "path": [*paths, "a.md"]}).json()
    assert [hit["path"] for hit in answer["results"]] == ["a.md"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"q": ""},
        {"q": "a", "k": 0},
        {"q": "a", "colour": "red"},
        {"q": "a", "tag": {"a": 1}},
        {"q": "a", "tag": [[]]},
    ],
)
def test_what_is_wrong_is_refused(program, body):
    assert program.post("/search", json=body).status_code == 422
