"""Where no service runs, a command gets the answers that a service would give."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.cli.in_process import _ROUTES, InProcess
from service.runtime.client import read_token
from service.schemas.context import ContextRequest
from service.schemas.search import EmbedRequest, SearchRequest
from tests.whole.conftest import wait_for
from tests.working import indexed
from workers.resources import Resources

PORT = 8747
NOTES = {
    "Sleep/Protecting Sleep.md": "---\naliases: [Rest]\n---\n# How to sleep\n\nDarkness helps. [[Nowhere]]\n",
    "Soil.md": "# Soil\n\nIt is alive: worms dig. (needs:: [[Protecting Sleep]])\n",
    "Attic/Soil.md": "---\nkind: review\n---\n# Soil\n\nAn older one. [[Protecting Sleep]]\n",
    "Alone.md": "No note links here.\n",
    "Attic/Long.md": "long " * 10_000,
    "_contexts.yaml": "brief: {slots: [{query: '{title}', neighbours: links}]}\n",
    "_scopes.yaml": "old: {folder: Attic}\n",
}
REQUESTS = [
    ("/search", [], {"q": "worms in the soil", "k": 3, "explain": True, "fold": True}),
    (
        "/search",
        [("scope", "old"), ("kind", "review")],
        {"q": "soil", "k": 9, "explain": False, "fold": False},
    ),
    ("/titles", [], {"q": "soil", "limit": 5}),
    ("/similar/Soil.md", [], {"k": 5}),
    ("/similar/Sleep/Protecting%20Sleep.md", [("folder", "Attic")], {"k": 5}),
    ("/node/Sleep/Protecting%20Sleep.md", [], {}),
    ("/why/Soil.md", [], {}),
    ("/why/Attic/Long.md", [], {}),
    ("/why/Attic", [], {}),
    ("/log/Soil.md", [], {"limit": 3}),
    ("/links", [], {"state": "any", "domain": None, "limit": 10}),
    ("/links", [], {"state": "broken", "domain": "vault", "limit": 1}),
    ("/links", [], {"state": "any", "domain": None, "limit": 10, "type": ("Needs", "is")}),
    ("/orphans", [], {"domain": None}),
    ("/communities", [], {"domain": None}),
    ("/traverse/Soil.md", [("-folder", "Attic")], {"depth": 2, "q": None}),
    ("/traverse/Soil.md", [], {"depth": 1, "q": "darkness"}),
    ("/traverse/Soil.md", [], {"depth": 1, "q": None, "type": ("needs",)}),
    ("/deep", [], {"q": "worms", "mode": "compare"}),
    ("/context", [("folder", "Attic")], {"q": "older soil", "budget": 500, "order": "density"}),
    ("/context", [], {"q": "worms"}),
    ("/context/brief", [], {"about": "Soil.md"}),
    ("/health", [], {}),
    ("/ops/parked.json", [], {}),
]


BODIES = [
    ("/search", SearchRequest.model_validate({"q": "soil", "k": 2, "-folder": "Attic", "path": ["Soil.md"]})),
    ("/search", SearchRequest.model_validate({"q": "soil", "also": ["worms", "older soil"]})),
    ("/context", ContextRequest(question="older soil", budget=500, filters={"folder": ["Attic"]})),
    ("/embed", EmbedRequest(text="worms")),
    ("/embed", EmbedRequest(text="worms", question=True, domain="vault")),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory, tiny_model):
    base = tmp_path_factory.mktemp("asked")
    (base / "vault").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVERINDEX_MAX_NOTE_MB", "0.04")
        yield indexed(base / "vault", base / "state", tiny_model, NOTES)


@pytest.fixture(scope="module")
def service(settings):
    headers = {"Authorization": f"Bearer {read_token(settings.state)}"}
    app = create_app(settings, PORT)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers=headers) as client:
        wait_for(lambda: client.get("/ready").json()["model_ready"], "it has loaded its model")
        yield client


@pytest.fixture(scope="module")
def here(settings):
    client = InProcess(Resources(settings))
    client.call("GET", "/search", q="soil", k=1)  # loads the model, as the service has
    return client


def without_times(answer):
    """Return an answer without what the moment or the process decides."""
    if isinstance(answer, list):
        return [without_times(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    varies = ("_s", "_ms", "waits", "processes")
    return {name: without_times(value) for name, value in answer.items() if not name.endswith(varies)}


@pytest.mark.parametrize(("path", "filters", "named"), REQUESTS)
def test_the_answer_is_the_one_that_the_service_gives(here, service, path, filters, named):
    wanted = [
        (name, str(one).lower() if one in (True, False) else one)
        for name, value in named.items()
        for one in (value if isinstance(value, tuple) else (value,))
    ]
    answer = service.get(path, params=[*((n, v) for n, v in wanted if v is not None), *filters])
    assert answer.status_code == 200
    said = here.call("GET", path, filters, **named)
    assert without_times(said) == without_times(answer.json())
    assert list(said) == list(answer.json())


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_a_body_is_answered_as_the_service_answers_it(here, service, path, body):
    answer = service.post(path, json=body.model_dump())
    assert answer.status_code == 200
    assert without_times(here.call("POST", path, (), body)) == without_times(answer.json())


def test_every_route_is_compared():
    paths = {path for path, _, _ in REQUESTS} | {path for path, _ in BODIES}
    assert {path.split("/")[1] for path in paths} == set(_ROUTES) - {"index", "notes"}  # they write
