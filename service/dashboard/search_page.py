"""The pages a person opens: a search box with its answers, and a note as it is on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from pipelines import vault
from pipelines.errors import DomainNotFoundError, FilterError, NoteError, NotFoundError
from pipelines.filters import HAS, parse_filters
from pipelines.markdown import decode
from service.dashboard.signing_in import add_signing_in
from service.http.security import SCRIPTED_POLICY, WORKER_POLICY
from service.http.sessions import Sessions
from service.usecases.health import count_notes
from service.usecases.phrases import as_sum
from service.usecases.schemas.search import FARTHEST_OFFSET, LONGEST_QUERY, SearchAnswer
from service.usecases.search import SearchService

_SHOWN = 20
_DIGITS = 8
_FILTERS = ("domain", "folder", "tag", "author", "kind", "since", "until", "community", "has")
_WORKER = "graph-layout.js"
_SCRIPTED = {"Content-Security-Policy": SCRIPTED_POLICY}


def mark(text: str, marks: list[tuple[int, int]]) -> Markup:
    """Return a text as HTML with `<mark>` around the given ranges; everything else is escaped."""
    parts, at = [Markup()], 0
    for start, end in marks:
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup().join([*parts, escape(text[at:])])


class _Static(StaticFiles):
    """The files of `service/dashboard/static`."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file; the map's worker with the policy that it needs."""
        response = await super().get_response(path, scope)
        if path == _WORKER:
            response.headers["Content-Security-Policy"] = WORKER_POLICY
        return response


def make_templates(root: Path) -> Environment:
    """Return the templates of a vault's pages."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("service.dashboard"), PackageLoader("service.http")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    templates.filters["mark"] = mark
    templates.filters["as_sum"] = as_sum
    templates.filters["quote"] = quote
    templates.globals["obsidian"] = lambda path: obsidian_link(root, path)
    return templates


def add_pages(app: FastAPI, questions: SearchService, sessions: Sessions, templates: Environment) -> None:
    """Add the HTML routes, and those that sign a browser in."""
    app.mount("/static", _Static(packages=[("service.dashboard", "static")]), name="static")
    _add_search_page(app, questions, templates)
    _add_note_page(app, questions, templates)
    add_signing_in(app, sessions)


def _add_search_page(app: FastAPI, questions: SearchService, templates: Environment) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def search_page(
        request: Request, q: Annotated[str, Query(max_length=LONGEST_QUERY)] = ""
    ) -> HTMLResponse:
        """Show the search box and, for a question, its answers, each with what every layer made of it."""
        # A form sends every field, also those that were left empty.
        given = {name: request.query_params.get(name, "") for name in _FILTERS}
        offset = _offset(request)
        answer, complaint = _answer(questions, q, given, offset)
        results, answers = (answer.results, answer.answers) if answer else ([], 0)
        # Who asks for a further page asks for what is no answer, too.
        end = len(results) if offset else answers
        since = request.query_params.get("generation", "")
        text = templates.get_template("search.html").render(
            q=q,
            answer=answer,
            shown=results[:end],
            rest=results[end:],
            next=_next_page(q, given, answer) if answer else "",
            changed=bool(answer and since and since != answer.index.generation),
            problem=complaint,
            given=given,
            filtered=any(given.values()),
            domains=[domain.slug for domain in questions.resources.domains()],
            has=HAS,
            index=answer.index if answer else questions.index_state(),
            notes=count_notes(questions.readers()),
            root=questions.resources.root,
        )
        return HTMLResponse(text, 422 if complaint else 200, _SCRIPTED)


def _add_note_page(app: FastAPI, questions: SearchService, templates: Environment) -> None:
    @app.get("/notes/{path:path}", response_class=HTMLResponse, include_in_schema=False)
    def note_page(path: str) -> HTMLResponse:
        """Show a note's text as it is on disk. The path is a key of the ledger, never opened as given."""
        path = vault.note_key(path)
        for _, cache in questions.readers():
            known = cache.ledger.stat_of([path]).get(path)
            if known:
                text = _text(questions, known[0])
                page = templates.get_template("note.html")
                return HTMLResponse(
                    page.render(path=path, text=text, root=questions.resources.root), headers=_SCRIPTED
                )
        raise questions.no_such_note(path)


def _offset(request: Request) -> int:
    """Return how many results come before the page; 0 where the address says nothing sensible."""
    given = request.query_params.get("offset", "")
    return (
        min(int(given), FARTHEST_OFFSET)
        if given.isascii() and given.isdecimal() and len(given) < _DIGITS
        else 0
    )


def _next_page(q: str, given: dict[str, str], answer: SearchAnswer) -> str:
    """Return the query of the next page's address."""
    asked = {"q": q} | {name: value for name, value in given.items() if value}
    generation = answer.index.generation
    return urlencode(asked | {"offset": answer.offset + _SHOWN, "generation": generation})


def _answer(
    questions: SearchService, q: str, given: dict[str, str], offset: int
) -> tuple[SearchAnswer | None, str | None]:
    """Return the answer, or why a filter cannot be used."""
    if not q.strip():
        return None, None
    try:
        filters = parse_filters([pair for pair in given.items() if pair[1].strip()])
        return questions.search(q, _SHOWN, filters, explain=True, offset=offset), None
    except (FilterError, DomainNotFoundError) as error:
        return None, str(error)


def _text(questions: SearchService, raw: str) -> str:
    try:
        content = vault.read(questions.resources.root, raw, questions.resources.settings.max_note_bytes)
    except NoteError as error:
        raise NotFoundError(str(error)) from error
    return decode(content.data)[0]


def obsidian_link(root: Path, path: str) -> str:
    """Return the link that opens a note in Obsidian."""
    return f"obsidian://open?path={quote(str(root / path), safe='')}"
