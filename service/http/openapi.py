"""Complete `/openapi.json` beyond the routes: authentication, and every error that may be returned."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.routing import APIRoute

from service.http.errors import MEDIA_TYPE, Problem

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
    for path, operations in document["paths"].items():
        for method in operations.keys() & set(_METHODS):
            _declare_errors(path, method, operations[method])
    return document


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
