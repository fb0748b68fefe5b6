"""The pages a person opens: a search box with its answers, and a note as it is on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from pipelines import vault
from pipelines.errors import FilterError, NoteError
from pipelines.markdown import decode
from pipelines.retrieval.filters import HAS, parse_filters
from service.answers import SearchAnswer
from service.limits import LONGEST_QUERY
from service.questions import Questions
from service.security import COOKIE, SCRIPTED_POLICY, WORKER_POLICY, Sessions

_SHOWN = 20
_PAGES = ("/", "/graph", "/ops")
_FILTERS = ("domain", "folder", "tag", "author", "kind", "since", "until", "community", "has")
_WORKER = "graph-layout.js"


def mark(text: str, marks: list[tuple[int, int]]) -> Markup:
    """Return a text as HTML with `<mark>` around the given ranges; everything else is escaped."""
    parts, at = [Markup()], 0
    for start, end in marks:
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup().join([*parts, escape(text[at:])])


class _Static(StaticFiles):
    """The files of `service/static`."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file; the map's worker with the policy that it needs."""
        response = await super().get_response(path, scope)
        if path == _WORKER:
            response.headers["Content-Security-Policy"] = WORKER_POLICY
        return response


def make_templates(root: Path) -> Environment:
    """Return the templates of a vault's pages."""
    templates = Environment(
        loader=PackageLoader("service"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    templates.filters["mark"] = mark
    templates.filters["quote"] = quote
    templates.globals["obsidian"] = lambda path: obsidian_link(root, path)
    return templates


def graph_page(templates: Environment) -> HTMLResponse:
    """Return the map. Its script asks the same address again, for JSON."""
    return HTMLResponse(
        templates.get_template("graph.html").render(),
        headers={"Content-Security-Policy": SCRIPTED_POLICY, "Vary": "Accept"},
    )


def add_pages(app: FastAPI, questions: Questions, sessions: Sessions, templates: Environment) -> None:
    """Add the HTML routes, and those that sign a browser in."""
    app.mount("/static", _Static(packages=[("service", "static")]), name="static")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def search_page(
        request: Request, q: Annotated[str, Query(max_length=LONGEST_QUERY)] = ""
    ) -> HTMLResponse:
        """Show the search box and, for a question, its answers, each with what every layer made of it."""
        # A form sends every field, also those that were left empty.
        given = {name: request.query_params.get(name, "") for name in _FILTERS}
        answer, problem = _answer(questions, q, given)
        text = templates.get_template("search.html").render(
            q=q,
            answer=answer,
            problem=problem,
            given=given,
            filtered=any(given.values()),
            domains=[domain.slug for domain in questions.resources.domains()],
            has=HAS,
            index=answer.index if answer else questions.index_state(),
            notes=sum(counts.notes for counts in questions.health().domains.values()),
            root=questions.resources.root,
        )
        return HTMLResponse(text, 422 if problem else 200)

    @app.get("/notes/{path:path}", response_class=HTMLResponse, include_in_schema=False)
    def note_page(path: str) -> str:
        """Show a note's text as it is on disk. The path is a key of the ledger, never opened as given."""
        path = vault.note_key(path)
        for _, cache in questions.readers():
            known = cache.ledger.stat_of([path]).get(path)
            if known:
                text = _text(questions, known[0])
                return templates.get_template("note.html").render(
                    path=path, text=text, root=questions.resources.root
                )
        raise HTTPException(404, questions.why(path))

    @app.post("/session", include_in_schema=False)
    def session() -> dict[str, str]:
        """Give a program that has the token a one-time code for its user's browser."""
        return {"code": sessions.new_code()}

    @app.get("/open/{code}", include_in_schema=False)
    def open_browser(code: str, to: str = "/") -> Response:
        """Sign a browser in with a one-time code, and show it one of our pages."""
        cookie = sessions.redeem(code)
        if cookie is None:
            return PlainTextResponse("This link was used or is too old; run `everindex open`.\n", 401)
        response = RedirectResponse(to if to in _PAGES else "/", status_code=303)
        response.set_cookie(COOKIE, cookie, max_age=30 * 24 * 3600, httponly=True, samesite="strict")
        return response


def _answer(questions: Questions, q: str, given: dict[str, str]) -> tuple[SearchAnswer | None, str | None]:
    """Return the answer, or why a filter cannot be used."""
    if not q.strip():
        return None, None
    try:
        filters = parse_filters([pair for pair in given.items() if pair[1].strip()])
        return questions.search(q, _SHOWN, filters, explain=True), None
    except FilterError as error:
        return None, str(error)
    except HTTPException as error:  # an unknown domain
        return None, str(error.detail)


def _text(questions: Questions, raw: str) -> str:
    try:
        content = vault.read(questions.resources.root, raw, questions.resources.settings.max_note_bytes)
    except NoteError as error:
        raise HTTPException(404, str(error)) from error
    return decode(content.data)[0]


def obsidian_link(root: Path, path: str) -> str:
    """Return the link that opens a note in Obsidian."""
    return f"obsidian://open?path={quote(str(root / path), safe='')}"
