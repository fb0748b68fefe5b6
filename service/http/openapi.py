"""Complete `/openapi.json` beyond the routes: authentication, and every error that may be returned."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.routing import APIRoute

from pipelines.filters import HAS
from pipelines.formats import NAMES as FORMATS
from service.http.errors import MEDIA_TYPE, Problem

_TAGS = {
    "Search": "Find notes and passages, and say why.",
    "Notes": "A note, its state, its history; write one, or stop indexing it.",
    "Links": "Links, walks along them, and the map.",
    "Conversations": "Answers of a model, whose quotes are checked.",
    "Evidence": "Quotes that are verified, and records of what was found.",
    "Tags": "Proposed tags, and changes to notes.",
    "Operations": "What the service does, and what waits.",
}
_OPERATIONS = {
    "Search": {
        "GET /search": "search",
        "POST /search": "search_by_body",
        "GET /titles": "titles",
        "GET /similar/{path}": "similar",
        "GET /explain": "explain",
        "GET /context": "context",
        "POST /context": "context_by_body",
        "GET /context/{recipe}": "context_by_recipe",
        "POST /embed": "embed",
    },
    "Notes": {
        "GET /node/{path}": "note",
        "GET /why/{path}": "why",
        "GET /log/{path}": "log",
        "POST /index": "index",
        "POST /notes": "write_note",
        "DELETE /documents/{path}": "stop_indexing",
        "POST /retry": "retry",
        "POST /reload": "reload",
        "POST /confirm-deletions": "confirm_deletions",
    },
    "Links": {
        "GET /links": "links",
        "GET /orphans": "orphans",
        "GET /communities": "communities",
        "GET /graph": "graph",
        "GET /traverse/{path}": "traverse",
        "GET /deep": "deep",
    },
    "Conversations": {
        "POST /chat": "ask",
        "GET /chats": "conversations",
        "GET /chats/{chat}": "conversation",
        "DELETE /chats/{chat}": "delete_conversation",
        "POST /chats/{chat}/note": "save_conversation",
    },
    "Evidence": {
        "POST /verify": "verify",
        "POST /v1/rx": "create_record",
        "POST /v1/rx/deep": "write_record",
        "GET /v1/rx": "records",
        "GET /v1/rx/{record_id}": "record",
        "DELETE /v1/rx/{record_id}": "delete_record",
    },
    "Tags": {
        "GET /proposals": "proposals",
        "POST /proposals/ask": "ask_for_proposals",
        "POST /proposals/decide": "decide",
        "POST /proposals/undo": "undo_decisions",
        "GET /missing-tags": "missing_tags",
        "POST /promote": "promote",
        "POST /apply-renames": "apply_renames",
        "GET /changes": "changes",
        "POST /changes/undo": "undo_change",
    },
    "Operations": {
        "GET /health": "health",
        "GET /ready": "ready",
        "GET /metrics": "metrics",
        "GET /ops/overview.json": "overview",
        "GET /ops/jobs.json": "jobs",
        "GET /ops/jobs/{number}.json": "job",
        "GET /ops/series.json": "series",
        "GET /ops/queue.json": "queue",
        "POST /ops/queue/pause": "pause",
        "POST /ops/queue/resume": "resume",
        "POST /ops/queue/empty": "empty_queue",
        "GET /ops/parked.json": "parked",
        "POST /ops/parked/retry": "retry_parked",
        "POST /ops/parked/forget": "forget_parked",
    },
}
"""The id of each operation, which clients make a function's name of, by its tag."""
_NAMED = {
    operation: (tag, name)
    for tag, operations in _OPERATIONS.items()
    for operation, name in operations.items()
}

_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_DAY = {"type": "string", "format": "date"}
_FILTERS: tuple[tuple[str, dict[str, Any], str, Any], ...] = (
    ("tag", _TEXTS, "notes with all these tags, or tags nested in them", ["valuation"]),
    ("folder", _TEXTS, "notes in one of these folders, or below", ["Filings/KLVN"]),
    ("kind", _TEXTS, "notes whose property `kind` has one of these values", ["letter"]),
    ("author", _TEXTS, "notes by one of these authors", ["Ottilie Farrowgate"]),
    ("since", _DAY, "notes that are dated this day or later", "2025-01-31"),
    ("until", _DAY, "notes that are dated this day or earlier", "2025-12-31"),
    ("domain", _TEXTS, "notes of one of these domains", ["finance"]),
    (
        "format",
        {"type": "array", "items": {"type": "string", "enum": list(FORMATS)}},
        "files of these formats",
        ["pdf"],
    ),
    (
        "has",
        {"type": "array", "items": {"type": "string", "enum": list(HAS)}},
        "notes with all of these",
        ["task"],
    ),
    ("section", _TEXTS, "passages below a heading with one of these texts", ["risks"]),
    ("path", _TEXTS, "notes at one of these paths, or whose paths contain it", ["nutrition/Protein.md"]),
    ("title", _TEXTS, "notes with all of these texts in their titles", ["protein"]),
    ("file", _TEXTS, "notes with all of these texts in their files' names", ["2025-10"]),
    (
        "community",
        {"type": "array", "items": {"type": "integer"}},
        "notes of one of these communities of links",
        [3],
    ),
    ("scope", _TEXTS, "notes that pass all of these scopes of `_scopes.yaml`", ["project-x"]),
    (
        "min_similarity",
        {"type": "string"},
        "passages as near to the question as this cosine or band",
        "primary",
    ),
    (
        "filters",
        {"type": "object", "additionalProperties": {"type": "string"}},
        "more filters by name: `property.<name>`; `-tag` and the like, which leave out the notes that pass",
        {"property.kind": "Concept", "-tag": "draft"},
    ),
)
"""Name, schema, description and example of each filter: `filters_of` reads them from the address itself."""
_BODIES: dict[str, dict[str, Any]] = {
    "POST /context": {"question": "what is a moat worth", "budget": 2_000, "filters": {"tag": ["valuation"]}},
    "POST /chat": {"question": "what is a moat worth", "scope": [{"kind": "folder", "value": "Concepts"}]},
    "POST /verify": {"quotes": [{"path": "Concepts/Moats.md", "quote": "A moat is worth what it keeps out"}]},
    "POST /v1/rx": {"question": "what is a moat worth", "k": 10},
    "POST /v1/rx/deep": {
        "id": "20260131-7f3a",
        "citations": [{"path": "Concepts/Moats.md", "quote": "A moat is worth what it keeps out"}],
        "notes": "Two notes agree.",
    },
    "POST /notes": {"title": "A call with Nadia", "text": "She repots in March.", "kind": "call"},
    "POST /proposals/decide": {"accept": [12, 13], "reject": [14]},
    "POST /proposals/undo": {"ids": [12]},
}
"""An example of each body whose model has none."""
_FILTERED = ("GET /search", "GET /context", "GET /similar/{path}", "GET /traverse/{path}", "GET /deep")

_ANY = (400, 401, 403, 404, 409, 414, 422, 431, 500, 503)
_WITH_BODY = (408, 413, 415, 504)
_OPEN = ("/health",)
_METHODS = ("get", "put", "post", "delete", "patch")
_SCHEMA = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Complete the application's OpenAPI document. Call this after the routes are added."""
    plain = app.openapi

    def complete() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(plain())
            _restore_examples(app, app.openapi_schema["components"]["schemas"])
        return app.openapi_schema

    app.openapi = complete  # type: ignore[method-assign]  # the way that FastAPI's manual gives


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for ours in ("HTTPValidationError", "ValidationError"):
        schemas.pop(ours, None)  # a problem document is returned instead
    problem = Problem.model_json_schema(ref_template=_SCHEMA)
    schemas |= problem.pop("$defs")
    schemas["Problem"] = problem
    components["responses"] = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": _SCHEMA.format(model="Problem")}}},
        }
        for status in (*_ANY, *_WITH_BODY)
    }
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "the file `token` in the state folder"}
    }
    document["security"] = [{"token": []}]
    document["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items()]
    for path, operations in document["paths"].items():
        for method in operations.keys() & set(_METHODS):
            _declare_errors(path, method, operations[method])
            _name(f"{method.upper()} {path}", operations[method])
            for answer in operations[method]["responses"].values():
                _of_lines(answer)
    return document


def _name(operation: str, described: dict[str, Any]) -> None:
    """Give an operation its tag, its id, and the filters that it takes."""
    if operation in _NAMED:
        tag, described["operationId"] = _NAMED[operation]
        described["tags"] = [tag]
    # The first sentence: FastAPI makes a summary of the function's name.
    described["summary"] = described.get("description", "").partition("\n")[0].rstrip(".")
    if operation in _BODIES:
        described["requestBody"]["content"]["application/json"]["example"] = _BODIES[operation]
    if operation in _FILTERED:
        described["parameters"] = [*described["parameters"], *(_filter(*one) for one in _FILTERS)]


def _of_lines(answer: dict[str, Any]) -> None:
    """Describe an answer of lines by the schema of a line: FastAPI adds that what is no JSON is a text."""
    for content in answer.get("content", {}).values():
        if "oneOf" in content.get("schema", {}):
            content["schema"].pop("type", None)


def _filter(name: str, schema: dict[str, Any], description: str, example: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "schema": schema,
        "description": description,
        "example": example,
        # A repeated parameter, and for `filters` one parameter for each of its keys.
        "style": "form",
        "explode": True,
    }


def _restore_examples(app: FastAPI, schemas: dict[str, Any]) -> None:
    # FastAPI drops nulls, even in an example, where null is a value.
    for route in app.routes:
        answered: Any = route.response_model if isinstance(route, APIRoute) else None
        for model in get_args(answered) or (answered,):
            if extra := getattr(model, "model_config", {}).get("json_schema_extra"):
                schemas[model.__name__] |= extra


def _declare_errors(path: str, method: str, operation: dict[str, Any]) -> None:
    if path in _OPEN:
        operation["security"] = []
    answers = operation["responses"]
    if _SCHEMA.format(model="HTTPValidationError") in str(answers.get("422")):
        del answers["422"]
    for status in (*_ANY, *(() if method == "get" else _WITH_BODY)):
        answers.setdefault(str(status), {"$ref": f"#/components/responses/{status}"})
