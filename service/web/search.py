"""The search page, and what all pages share: their static files and their templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlencode

from anyio import to_thread
from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pipelines.errors import DomainNotFoundError, FilterError, ScopesFileError
from pipelines.filters import HAS, is_filter
from pipelines.formats import NAMES as FORMATS
from pipelines.question import Operator, Question, read_question
from pipelines.search.scopes import filters_of
from pipelines.vault.obsidian import is_vault, open_link
from service.http.auth import (
    CODE_SECONDS,
    FORM_HEADERS,
    PHONE_CODE_SECONDS,
    SCRIPTED_POLICY,
    SESSION_SECONDS,
    SIGN_IN,
    TRIES_SECONDS,
    Sessions,
)
from service.http.errors import (
    AT_PHONE,
    LOADER,
    NEW_PHONE_CODE,
    SIGNED_IN,
    Static,
    message_page,
    problem,
    static_address,
    wants_page,
)
from service.http.phone import add_phone
from service.schemas.links import KeptNode
from service.schemas.notes import ListAnswer
from service.schemas.search import FARTHEST_OFFSET, LONGEST_QUERY, SearchAnswer, TitleHit
from service.usecases.browsing import SUGGESTED, Browsing, list_notes
from service.usecases.links import Links, Traversal
from service.usecases.search import View
from service.usecases.status import count_notes
from service.usecases.text import REFINING, as_sum, named_so
from service.usecases.titles import TitleSearch

# The routes that sign a browser in and out.


_PAGES = ("/", "/browse", "/graph", "/ops")
_LONGEST_FORM = 2_000  # bytes


def add_signing_in(app: FastAPI, sessions: Sessions) -> None:
    """Add the routes."""

    @app.post("/session", include_in_schema=False, response_model=None)
    def session(request: Request, to: str = "/", *, page: bool = False) -> dict[str, str] | Response:
        """Give a program that has the token a one-time code, or the file of a page that opens with one."""
        if not sessions.knows_program(request.headers):
            return problem(request.scope, 403, "a code is given to programs that show the token")
        return {"page": str(sessions.new_page(_page_named(to)))} if page else {"code": sessions.new_code()}

    @app.get("/open/{code}", include_in_schema=False)
    def open_browser(request: Request, code: str, to: str = "/") -> Response:
        """Sign a browser in with a one-time code, and show it one of our pages.

        The page goes on by itself. A redirect would belong to the site or file that led here, and a browser sends a
        strict cookie only where our own page leads to the next.
        """
        at_phone = getattr(request.state, AT_PHONE)
        cookie = sessions.redeem_at_phone(code) if at_phone else sessions.redeem(code)
        if cookie is None:
            return _no_code(request)
        text = message_page("Signed in", "Everindex opens.", signed_in=False, goes_to=_page_named(to))
        return with_session(HTMLResponse(text), request, cookie)

    @app.post(SIGN_IN, include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        """Sign a browser in with the token of a form."""
        form = parse_qs((await request.body())[:_LONGEST_FORM].decode("utf-8", "replace"))
        given = form.get("token", [""])[0].strip()
        cookie = await to_thread.run_sync(sessions.redeem_token, given)
        if cookie is None:
            return _no_token(request, slowed=sessions.is_slowed())
        return with_session(RedirectResponse("/", 303), request, cookie)

    @app.post("/sign-out", include_in_schema=False)
    def sign_out(request: Request, response: Response) -> dict[str, bool]:
        """End the session of the browser that asks."""
        sessions.sign_out(request.headers)
        response.delete_cookie(sessions.cookie, httponly=True, samesite="strict")
        return {"signed_in": False}

    def with_session(response: Response, request: Request, value: str) -> Response:
        # A phone's ends with the command that let it in; behind a TLS proxy a cookie is sent over TLS alone.
        seconds = None if getattr(request.state, AT_PHONE) else SESSION_SECONDS
        secure = request.headers.get("origin", "").startswith("https:")
        response.set_cookie(
            sessions.cookie, value, max_age=seconds, httponly=True, samesite="strict", secure=secure
        )
        return response


def _no_token(request: Request, *, slowed: bool) -> Response:
    """Answer a wrong token, or one too many of them."""
    if slowed:
        why = "Too many wrong tokens were tried. Wait a minute, or run `everindex open` on that machine."
        status, title, headers = 429, "Wait a minute", {"Retry-After": f"{TRIES_SECONDS:.0f}"}
    else:
        why = "Copy the whole line, and try again; or run `everindex open` on that machine."
        status, title, headers = 401, "That is not the token", {}
    if not wants_page(request.scope):
        return problem(request.scope, status, why, headers)
    page = message_page(title, why, signed_in=False, takes_token=not slowed)
    return HTMLResponse(page, status, {**headers, **FORM_HEADERS, "Vary": "Accept"})


def _no_code(request: Request) -> Response:
    """Answer a link that was used or is too old: its user needs another link."""
    why = f"A link signs in once, within {CODE_SECONDS:.0f} seconds. Run `everindex open` for a new one."
    if getattr(request.state, AT_PHONE):
        why = f"A code signs in once, within {PHONE_CODE_SECONDS:.0f} seconds. {NEW_PHONE_CODE}"
    if not wants_page(request.scope):
        return problem(request.scope, 401, f"this link was used, or is too old. {why}")
    signed_in = bool(request.scope.get("state", {}).get(SIGNED_IN))
    page = message_page("This link was used, or is too old", why, signed_in=signed_in)
    return HTMLResponse(page, 401, {"Vary": "Accept"})


def _page_named(path: str) -> str:
    return path if path in _PAGES else "/"


# The page that draws the map of links.


def graph_page(templates: Environment) -> HTMLResponse:
    """Return the map. Its script asks the same address again, for JSON."""
    return HTMLResponse(
        templates.get_template("graph.html").render(),
        headers={"Content-Security-Policy": SCRIPTED_POLICY, "Vary": "Accept"},
    )


_SHOWN = 20
_TITLES = 5
_LINKED = 20
_MOST_COMMUNITIES = 100
_LONGEST_NAME = 500
_DIGITS = 8
_ONCE = ("since", "until")
_SCRIPTED = {"Content-Security-Policy": SCRIPTED_POLICY}
_Question = Annotated[str, Query(max_length=LONGEST_QUERY)]


def mark(text: str, marks: list[tuple[int, int]]) -> Markup:
    """Return a text as HTML with `<mark>` around the given ranges; everything else is escaped."""
    parts, at = [Markup()], 0
    for start, end in marks:
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup().join([*parts, escape(text[at:])])


def with_code(text: str) -> Markup:
    """Return a message as HTML, with `<code>` for what is between backticks; everything else is escaped."""
    parts = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if at % 2 and at < len(parts) - 1 else escape(part)
        for at, part in enumerate(parts)
    )


def make_templates(root: Path) -> Environment:
    """Return the templates of a vault's pages."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(__package__), LOADER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    templates.filters["mark"] = mark
    templates.filters["as_sum"] = as_sum
    templates.filters["code"] = with_code
    templates.filters["quote"] = quote
    templates.globals["named_so"] = lambda file: named_so(file.model_dump())
    templates.globals["refining"] = REFINING
    templates.globals["static"] = static_address
    templates.globals["obsidian"] = lambda path: open_link(root, path) if is_vault(root) else None
    return templates


def add_pages(
    app: FastAPI,
    view: View,
    sessions: Sessions,
    templates: Environment,
) -> None:
    """Add the HTML routes, and those that sign a browser in."""
    app.mount("/static", Static(), name="static")
    _add_search_page(app, view, templates)
    add_signing_in(app, sessions)
    add_phone(app, sessions)


@dataclass(frozen=True, slots=True)
class _SearchParameters:
    """The parameters in the address of the search page: question, filters, page, and whether to follow links.

    `question` is without these `filters`, which may be such as cannot be used.
    """

    question: Question
    filters: tuple[tuple[str, str], ...]
    offset: int
    generation: str
    deep: bool

    @property
    def q(self) -> str:
        """Return the question as it was typed."""
        return self.question.typed

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the filters in use, beside the question and in it."""
        return [*self.filters, *(pair for one in self.question.operators for pair in one.pairs)]

    def address_without(self, operator: Operator) -> str:
        """Return the address of the same question without one of its operators."""
        return self.address(q=self.question.without(operator))

    def address(
        self, *changed: tuple[str, object], without: tuple[str, str] | None = None, q: str | None = None
    ) -> str:
        """Return the address of this question or another, with more in it, or without one of its filters."""
        kept = [pair for pair in self.filters if pair != without]
        return f"/?{urlencode([('q', self.q if q is None else q), *kept, *changed])}"


class _SearchPage:
    """The search page, as a whole and in the parts that its script requests while the user types."""

    def __init__(self, view: View, templates: Environment) -> None:
        self._view = view
        self._traversal = Traversal(view)
        self._browsing = Browsing(view)
        self._graph = Links(view)
        self._names = TitleSearch(view)
        self._templates = templates

    def page(self, asked: _SearchParameters) -> HTMLResponse:
        """Show the whole page."""
        return self._shown(
            "search.html",
            asked,
            titles=[] if asked.filters or asked.offset else self._titles(asked.question),
            domains=[domain.slug for domain in self._view.resources.domains()],
            has=HAS,
            formats=FORMATS,
            offered={name: [] for name in SUGGESTED},
            communities=[],
            longest=SUGGESTED,
        )

    def answers(self, asked: _SearchParameters) -> HTMLResponse:
        """Show the parts that depend on the answers."""
        return self._shown("search/answers.html", asked)

    def titles(self, question: Question) -> HTMLResponse:
        """Show the notes that have such a name."""
        return HTMLResponse(
            self._templates.get_template("search/titles.html").render(titles=self._titles(question))
        )

    def passage(self, path: str, at: Sequence[int]) -> HTMLResponse:
        """Show a whole passage. Raises NoteNotFoundError."""
        template = self._templates.get_template("search/passage.html")
        return HTMLResponse(template.render(passage=self._browsing.passage(path, at)))

    def filter_values(self) -> HTMLResponse:
        """Show the suggestions for the fields of the filters."""
        template = self._templates.get_template("search/filter-values.html")
        communities = self._graph.communities(None).communities[:_MOST_COMMUNITIES]
        return HTMLResponse(template.render(offered=self._browsing.filter_values(), communities=communities))

    def _titles(self, question: Question) -> list[TitleHit]:
        # A question that leaves words out asks for passages: no note that has such a word may be offered by its name.
        leaves_out = question.operators or question.asked != question.text
        is_name = 0 < len(question.typed) <= _LONGEST_NAME and not leaves_out
        return self._names.titles(question.typed, _TITLES).results if is_name else []

    def _shown(self, template: str, asked: _SearchParameters, **context: Any) -> HTMLResponse:
        answer, listed, complaint = self._answer(asked)
        results = answer.results if answer else []
        # A further page includes results that are no answers, too.
        shown = [hit for hit in results if asked.offset or hit.match != "none"]
        start = None if answer or listed or complaint else self._browsing.start()
        index = answer.index if answer else self._view.index_state()
        text = self._templates.get_template(template).render(
            asked=asked,
            answer=answer,
            shown=shown,
            rest=[hit for hit in results if hit not in shown],
            facets=self._browsing.facets(shown, asked.pairs, datetime.now(UTC).date()),
            linked=self._linked(asked, answer) if answer and asked.deep else None,
            listed=listed,
            start=start,
            topics=self._browsing.topics(index.generation) if start else [],
            changed=bool(answer and asked.generation and asked.generation != answer.index.generation),
            problem=complaint,
            shown_at_once=_SHOWN,
            index=index,
            notes=count_notes(self._view.resources, self._view.readers()),
            root=self._view.resources.root,
            divided=len(self._view.resources.domains()) > 1,
            **context,
        )
        return HTMLResponse(text, 422 if complaint else 200, _SCRIPTED)

    def _linked(self, asked: _SearchParameters, answer: SearchAnswer) -> list[KeptNode]:
        """Return the notes that a walk along links finds besides the answers, most similar first."""
        known = {hit.path for hit in answer.results}
        question = asked.question.within(filters_of(self._view.resources.root, asked.filters))
        walks = [one.deep for one in self._traversal.deep(question, "deep").domains]
        nodes = [node for walk in walks if walk for node in walk.nodes if node.path not in known]
        return sorted(nodes, key=lambda node: -(node.similarity or 0))[:_LINKED]

    def _answer(self, asked: _SearchParameters) -> tuple[SearchAnswer | None, ListAnswer | None, str | None]:
        """Return the answer; for filters alone, the notes that pass; or why a filter cannot be used."""
        if not (asked.filters or asked.q.strip()):
            return None, None, None
        try:
            question = asked.question.within(filters_of(self._view.resources.root, asked.filters))
            if question.text.strip():
                answer = self._view.search(question, _SHOWN, explain=True, offset=asked.offset)
                return answer, None, None
            return None, list_notes(self._view, question.filters, "date"), None
        except (FilterError, DomainNotFoundError, ScopesFileError) as error:
            return None, None, str(error)


def _add_search_page(app: FastAPI, view: View, templates: Environment) -> None:
    page = _SearchPage(view, templates)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def search_page(request: Request, q: _Question = "") -> HTMLResponse:
        """Show the search box and, for a question, its answers, each with what every layer made of it."""
        return page.page(_asked(q, request.query_params))

    @app.get("/parts/answers", response_class=HTMLResponse, include_in_schema=False)
    def answers(request: Request, q: _Question = "") -> HTMLResponse:
        """Show the parts of the search page that depend on the answers."""
        return page.answers(_asked(q, request.query_params))

    @app.get("/parts/titles", response_class=HTMLResponse, include_in_schema=False)
    def titles(q: _Question = "") -> HTMLResponse:
        """Show the part of the search page that names notes."""
        return page.titles(read_question(q))

    @app.get("/parts/filter-values", response_class=HTMLResponse, include_in_schema=False)
    def filter_values() -> HTMLResponse:
        """Show the tags, folders, kinds and communities that a filter accepts."""
        return page.filter_values()

    @app.get("/parts/passage", response_class=HTMLResponse, include_in_schema=False)
    def passage(
        path: str, at: Annotated[list[Annotated[int, Query(ge=0)]], Query(min_length=1)]
    ) -> HTMLResponse:
        """Show the passage of a hit."""
        return page.passage(path, at)


def _asked(q: str, given: QueryParams) -> _SearchParameters:
    # A form sends every field, including empty ones.
    pairs = [
        (name, value.strip()) for name, value in given.multi_items() if is_filter(name) and value.strip()
    ]
    last = dict(pairs)
    filters = [pair for pair in pairs if pair[0] not in _ONCE or pair[1] == last[pair[0]]]
    return _SearchParameters(
        read_question(q),
        tuple(dict.fromkeys(filters)),
        _offset(given),
        given.get("generation", ""),
        "deep" in given,
    )


def _offset(given: QueryParams) -> int:
    """Return how many results come before the page; 0 where the address says nothing sensible."""
    text = given.get("offset", "")
    is_number = text.isascii() and text.isdecimal() and len(text) < _DIGITS
    return min(int(text), FARTHEST_OFFSET) if is_number else 0
