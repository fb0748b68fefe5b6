"""Pages with a single message: an error, or that this browser is signed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import Headers
from starlette.types import Scope

from service.http.static_files import static_address

SIGNED_IN = "signed_in"
"""In a request's state: whether the request had the token or a session's cookie."""

_NOT_SIGNED_IN = "Run `everindex open` in a terminal on this machine: it opens this page, signed in."
_TITLES = {
    401: "This browser is not signed in",
    404: "Not found",
    500: "Something went wrong",
    503: "Not available just now",
}
_UNINDEXED = "Not in the index"
_NO_PAGE = "There is no page at this address."
_COMMAND = re.compile(r"`([^`]+)`")


def wants_page(scope: Scope) -> bool:
    """Say whether a request was made by a browser, for a person."""
    return "text/html" in Headers(scope=scope).get("accept", "")


def error_page(scope: Scope, status: int, detail: Any) -> str:
    """Return an error as a page; `detail` is a sentence, or the answer of `why` for a path."""
    signed_in = bool(scope.get("state", {}).get(SIGNED_IN))
    note, is_known = None, False
    if status == HTTPStatus.UNAUTHORIZED:
        detail = _NOT_SIGNED_IN
    elif isinstance(detail, Mapping):
        reason, note = detail.get("reason"), detail.get("renamed_to")
        is_known = detail.get("state") != "unknown"
        detail = f"{detail.get('path')} is {detail.get('state')}{f': {reason}' if reason else ''}"
    elif status == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = _NO_PAGE  # no route: the framework says no more
    title = _UNINDEXED if is_known else _TITLES.get(status, HTTPStatus(status).phrase)
    return message_page(title, _shown(str(detail)), signed_in=signed_in, note=note)


def message_page(
    title: str, text: str, *, signed_in: bool, goes_to: str | None = None, note: str | None = None
) -> str:
    """Return a page of a title and a sentence; the browser goes on to `goes_to` at once.

    Where the sentence ends with the path of `note`, the path is a link to the note's page.
    """
    before = text.removesuffix(note) if note else text
    facts = {"text": before, "note": note if before != text else None}
    template = _templates().get_template("message.html")
    return template.render(title=title, signed_in=signed_in, goes_to=goes_to, **facts)


def _shown(text: str) -> str:
    # A URL may hold a lone surrogate, which is not valid UTF-8.
    return text.encode("utf-8", "replace").decode()


def _with_commands(text: str) -> Markup:
    """Return a text as HTML, with text between backticks as code."""
    parts = _COMMAND.split(text)
    return Markup().join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


@lru_cache(maxsize=1)
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("service.http"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    templates.filters |= {"commands": _with_commands, "quote": quote}
    templates.globals["static"] = static_address
    return templates
