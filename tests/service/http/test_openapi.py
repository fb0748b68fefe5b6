"""What `/openapi.json` promises, and whether a real server keeps it.

Less than a minute of schemathesis here; EVERINDEX_SCHEMATHESIS_SECONDS=1200 gives it longer, by hand.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from starlette.testclient import TestClient

from pipelines.filters import NAMES
from pipelines.search.scopes import filters_of
from queue_config.settings import Settings
from service.app import create_app
from service.runtime.client import read_token
from service.schemas.search import LONGEST_QUERY, MOST_RESULTS
from tests.sweeps import share
from tests.whole.conftest import EXAMPLES, User

PORT = 8741
SECONDS = int(os.environ.get("EVERINDEX_SCHEMATHESIS_SECONDS") or share(20, 120))
METHODS = ("get", "put", "post", "delete", "patch")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "ignored_auth",
)


# Answers whose rooms give no example yet.
WITHOUT_EXAMPLE = {
    *("GET /links", "GET /orphans", "GET /communities", "GET /graph", "GET /traverse/{path}", "GET /deep"),
    *("GET /titles", "GET /similar/{path}", "GET /why/{path}", "POST /verify"),
    *("GET /v1/rx", "POST /v1/rx", "POST /v1/rx/deep", "GET /v1/rx/{record_id}", "DELETE /v1/rx/{record_id}"),
    *(
        "GET /proposals",
        "POST /proposals/decide",
        "POST /proposals/ask",
        "POST /promote",
        "POST /apply-renames",
    ),
    *("GET /changes", "POST /changes/undo"),
    *("GET /chats", "GET /chats/{chat}", "DELETE /chats/{chat}", "POST /chats/{chat}/note"),
}


@pytest.fixture
def app(vault, tmp_path):
    return create_app(Settings(vault=vault, state=tmp_path / "state"), PORT)


@pytest.fixture
def client(app, tmp_path):
    client = TestClient(app, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False)
    client.headers["Authorization"] = f"Bearer {read_token(tmp_path / 'state')}"
    return client


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


def operations(document):
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    }


def test_every_route_says_what_it_answers_and_for_what(document):
    for name, operation in operations(document).items():
        assert operation["description"], name
        for status, answer in operation["responses"].items():
            if status.startswith("2"):
                (content,) = answer["content"].values()
                assert content["schema"], name


def test_json_answers_have_examples_that_keep_to_their_schemas(document):
    without = set()
    for name, operation in operations(document).items():
        for status, answer in operation["responses"].items():
            schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
            if not status.startswith("2") or not schema:
                continue
            for kind in schema.get("anyOf", [schema]):
                examples = document["components"]["schemas"].get(kind.get("$ref", "").rpartition("/")[2], {})
                if not examples.get("examples"):
                    without.add(name)
                for one in examples.get("examples", ()):
                    jsonschema_rs.validate(kind | {"components": document["components"]}, one)
                    assert one.keys() == examples["properties"].keys(), name
    assert without == WITHOUT_EXAMPLE


def test_ids_are_plain_and_unique_and_every_operation_is_in_one_group(document):
    every = operations(document).values()
    ids = [one["operationId"] for one in every]
    assert len(set(ids)) == len(ids)
    assert [one for one in ids if not re.fullmatch(r"[a-z]+(_[a-z]+)*", one)] == []
    groups = [tag["name"] for tag in document["tags"]]
    assert [
        one["operationId"] for one in every if len(one["tags"]) != 1 or one["tags"][0] not in groups
    ] == []


def test_every_body_has_an_example_that_keeps_to_its_schema(document):
    for name, operation in operations(document).items():
        if "requestBody" not in operation:
            continue
        (content,) = operation["requestBody"]["content"].values()
        kind = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
        examples = [*kind.get("examples", ()), *([content["example"]] if "example" in content else [])]
        assert examples, name
        for one in examples:
            jsonschema_rs.validate(content["schema"] | {"components": document["components"]}, one)


def test_every_filter_is_a_parameter_with_an_example_that_is_one(document, vault):
    (vault / "_scopes.yaml").write_text("project-x: {tag: active}\n")
    filtered = [one for one in operations(document).values() if "scope" in names(one)]
    assert {one["operationId"] for one in filtered} == {"search", "context", "similar", "traverse", "deep"}
    for operation in filtered:
        assert names(operation) >= {*NAMES, "filters"}
    described = operations(document)["GET /search"]["parameters"]
    examples = {one["name"]: one["example"] for one in described if "example" in one}
    more = examples.pop("filters")
    for name, value in examples.items():
        for one in value if isinstance(value, list) else [value]:
            filters_of(vault, [(name, str(one))])
    filters_of(vault, list(more.items()))


def names(operation):
    return {one["name"] for one in operation.get("parameters", ())}


def test_every_route_declares_its_errors_as_problem_documents(document):
    shared = document["components"]["responses"]
    for name, operation in operations(document).items():
        declared = operation["responses"]
        wanted = {"400", "401", "403", "404", "422", "431", "500", "503"}
        if not name.startswith("GET"):
            wanted |= {"408", "413", "415"}
        assert wanted <= declared.keys(), name
        for status in wanted - {"503"}:
            assert declared[status] == {"$ref": f"#/components/responses/{status}"}, name
    for answer in shared.values():
        assert answer["content"] == {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        }


def test_what_is_referred_to_is_there_and_nothing_else_is_left_over(document):
    text = json.dumps(document)
    for kind in ("schemas", "responses"):
        for name in document["components"][kind]:
            assert f'"#/components/{kind}/{name}"' in text, name
    assert "HTTPValidationError" not in text


def test_only_health_is_open(document):
    assert document["security"] == [{"token": []}]
    assert [name for name, one in operations(document).items() if "security" in one] == ["GET /health"]


def test_no_route_takes_more_than_the_limits(document):
    most = {"q": ("maxLength", LONGEST_QUERY), "k": ("maximum", MOST_RESULTS), "depth": ("maximum", 4)}
    seen = set()
    for name, operation in operations(document).items():
        for parameter in operation.get("parameters", ()):
            if parameter["name"] in most:
                key, limit = most[parameter["name"]]
                schemas = [parameter["schema"], *parameter["schema"].get("anyOf", ())]
                assert max(schema[key] for schema in schemas if key in schema) <= limit, name
                seen.add(parameter["name"])
    assert seen == most.keys()


# Errors


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing/here", 404),
        ("DELETE", "/search", 405),
        ("GET", "/search", 422),
        ("GET", "/search?q=x&k=9999", 422),
        ("GET", "/search?q=x&colour=red", 422),
        ("GET", "/search?q=x&domain=nosuch", 404),
        ("GET", "/node/no%20such.md", 404),
        ("GET", "/v1/rx/none", 404),
        ("POST", "/verify", 422),
        ("GET", "/%00", 400),
    ],
)
def test_an_error_is_a_problem_document(client, method, path, status):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert {"type", "title", "status", "detail", "instance"} <= said.keys()
    assert said["status"] == status
    assert said["instance"] == path.partition("?")[0]


def test_errors_in_a_request_are_listed_field_by_field(client):
    said = client.get("/search", params={"q": "", "k": "many"}).json()
    assert {one["field"] for one in said["errors"]} == {"query.q", "query.k"}
    assert "query.k" in said["detail"]


def test_the_detail_of_an_unknown_note_is_what_is_known_of_it(client):
    assert client.get("/node/no.md").json()["detail"]["state"] == "unknown"


def test_half_a_surrogate_pair_is_repeated_without_harm(client):
    body = '{"quotes": [{"path": "a", "nonsense": "\\ud83d"}]}'
    answer = client.post("/verify", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


# A real server


@pytest.fixture(scope="module")
def served(tmp_path_factory, tiny_model):
    """A copy of the example vault, served with a tiny model; whatever is done to it is forgotten."""
    base = tmp_path_factory.mktemp("served")
    shutil.copytree(EXAMPLES, base / "vault")
    user = User(base, base / "vault", EMBEDDING_MODEL=str(tiny_model))
    user.up()
    yield user
    user.stop()


def test_a_client_that_is_generated_from_it_searches_with_filters(served, tmp_path):
    pytest.importorskip("openapi_python_client", reason="the development group is not installed")
    (tmp_path / "openapi.json").write_text(served.get("/openapi.json").text)
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--path", str(tmp_path / "openapi.json"), "--output-path", str(tmp_path / "everindex_client")]
    # It formats what it made with ruff.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path}
    )
    said = done.stdout + done.stderr
    # Its answer is one JSON object after another, which this generator leaves out.
    lines = said.count("Unsupported content_type application/x-ndjson")
    assert (done.returncode, said.count("WARNING"), lines) == (0, 1, 1), said
    program = f"""
from everindex_client import AuthenticatedClient
from everindex_client.api.notes import note
from everindex_client.api.search import search
from everindex_client.models import SearchFilters, SearchFormatItem

client = AuthenticatedClient("http://127.0.0.1:{served.port}", {(served.state / "token").read_text().strip()!r})
found = search.sync(client=client, q="protein", k=3, folder=["nutrition"], format_=[SearchFormatItem.MD])
left = SearchFilters.from_dict({{"-folder": "nutrition"}})
others = search.sync(client=client, q="protein", k=3, filters=left)
for hit in (*found.results, None, *others.results):
    print(hit and hit.path)
print(note.sync(found.results[0].path, client=client).path)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *paths, noted = done.stdout.split("\n")[:-1]
    inside, outside = paths[: paths.index("None")], paths[paths.index("None") + 1 :]
    assert inside
    assert outside
    assert all(path.startswith("nutrition/") for path in inside)
    assert not any(path.startswith("nutrition/") for path in outside)
    assert noted == inside[0]


@pytest.mark.timeout(SECONDS + 180)
def test_nothing_that_is_generated_from_it_meets_an_undocumented_answer(served, tmp_path):
    program = Path(sys.executable).with_name("schemathesis")
    token = (served.state / "token").read_text().strip()
    command = [str(program), "run", f"http://127.0.0.1:{served.port}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {token}", "--checks", ",".join(CHECKS)]
    command += ["--max-time", str(SECONDS), "--max-examples", str(max(3, SECONDS // 10)), "--no-shrink"]
    command += ["--suppress-health-check", "all", "--request-timeout", "130"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    assert served.health()["status"] in ("ok", "degraded")  # it may have paused a domain
