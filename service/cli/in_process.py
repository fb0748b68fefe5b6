"""The service's answers where none runs: the same use cases, over caches that this process opens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.question import Question, read_question
from pipelines.search.scopes import filters_of
from service.runtime.lock import is_watched
from service.schemas.notes import PathState
from service.schemas.search import SearchRequest
from service.usecases.search import View

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pipelines.filters import Filters
    from workers.resources import Resources


class InProcess:
    """Answers what `Service.call` answers to questions and for one note (`/index`, `/notes`); workers do the rest."""

    def __init__(self, resources: Resources) -> None:
        self.root = resources.root
        self._view = View(resources, wait_for_model=True)

    @property
    def behind(self) -> str:
        """Why answers may lack what was saved last."""
        return _why_behind(self._view.resources)

    def call(
        self,
        _method: str,
        path: str,
        more: Sequence[tuple[str, str]] = (),
        body: BaseModel | None = None,
        /,
        **named: Any,
    ) -> Any:
        """Return the JSON of a route's answer; `more` are filters. Raises the errors of the route's use case."""
        route, _, subject = path.removeprefix("/").partition("/")
        if route in ("search", "context") and body:
            more, named = _as_parameters(body)
        asked = _RouteRequest(route, unquote(subject), filters_of(self.root, more), named, body)
        answer = _ROUTES[route](self._view, asked)
        return answer if isinstance(answer, dict) else answer.model_dump(mode="json")


def _as_parameters(body: BaseModel) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return the filters and the other parameters that the body of a question stands for."""
    if isinstance(body, SearchRequest):
        return body.filters, body.model_dump(include=set(SearchRequest.model_fields))
    from service.schemas.context import ContextRequest  # noqa: PLC0415

    asked = ContextRequest.model_validate(body)
    named = asked.model_dump(exclude={"filters"})
    return asked.given_filters, {"q": named.pop("question"), **named}


def _why_behind(resources: Resources) -> str:
    if is_watched(resources.place.state):
        return "Everindex starts just now; until its query worker answers, what is saved now may be missing"
    return "Everindex is not running, so notes saved since are missing; `everindex up` starts it"


@dataclass(frozen=True, slots=True)
class _RouteRequest:
    """A request: its route, the note or recipe that its path names, filters, and other parameters."""

    route: str
    subject: str
    filters: Filters
    named: dict[str, Any]
    body: Any = None

    def question(self) -> Question:
        """Return the question, read; it is no parameter any more."""
        return read_question(
            self.named.pop("q", None) or "", self.filters, rerank=self.named.pop("rerank", None)
        )


# Below, each route loads its own use case: to load all of them takes longer than to answer.


def _search(view: View, asked: _RouteRequest) -> dict[str, Any]:
    # The answer says what cannot be asked, in a form for people.
    logging.getLogger(View.__module__).setLevel(logging.ERROR)
    question, also = asked.question(), asked.named.pop("also", ())
    others = [read_question(one, asked.filters, rerank=question.rerank) for one in also]
    found = view.search(question, asked.named.pop("k"), also=others, **asked.named)
    answer = found.model_dump(mode="json")
    answer["index"]["waits"] = answer["index"]["waits"] or _why_behind(view.resources)
    return answer


def _parked(view: View, _: _RouteRequest) -> BaseModel:
    from service.usecases.operations import Parked  # noqa: PLC0415

    return Parked(view.resources).shown()


def _why(view: View, asked: _RouteRequest) -> dict[str, Any]:
    return PathState(**view.why(asked.subject)).model_dump(mode="json", exclude_unset=True)


def _index(view: View, asked: _RouteRequest) -> BaseModel:
    from service.usecases.changes import index_here  # noqa: PLC0415

    return index_here(view, asked.named["path"], force=bool(asked.named["force"]))


def _log(view: View, asked: _RouteRequest) -> BaseModel:
    from service.usecases.notes import log_of_note  # noqa: PLC0415

    return log_of_note(view, asked.subject, asked.named["limit"])


def _names(view: View, asked: _RouteRequest) -> BaseModel:
    from service.usecases.titles import TitleSearch  # noqa: PLC0415

    names = TitleSearch(view)
    if asked.route == "titles":
        return names.titles(asked.named["q"], asked.named["limit"])
    return names.similar(asked.subject, asked.named["k"], asked.filters)


def _write(view: View, asked: _RouteRequest) -> BaseModel:
    from service.usecases.changes import write_note  # noqa: PLC0415

    return write_note(view, asked.body)


def _links(view: View, asked: _RouteRequest) -> BaseModel:
    from service.usecases.links import Links  # noqa: PLC0415

    named = {"types" if name == "type" else name: value for name, value in asked.named.items()}
    answer: BaseModel = getattr(Links(view), asked.route)(**named)
    return answer


def _walk(view: View, asked: _RouteRequest) -> BaseModel:
    from service.usecases.links import Traversal  # noqa: PLC0415

    walks, named = Traversal(view), asked.named
    if asked.route == "deep":
        return walks.deep(asked.question(), named["mode"])
    return walks.traverse(asked.subject, named["depth"], asked.question(), named.get("type", ()))


def _context(view: View, asked: _RouteRequest) -> BaseModel:
    from service.schemas.context import DEFAULT_BUDGET, DEFAULT_COMPRESSION  # noqa: PLC0415
    from service.usecases.context import Contexts, context_by_recipe  # noqa: PLC0415

    contexts = Contexts(view)
    if asked.subject:
        return context_by_recipe(contexts, asked.subject, **asked.named)
    question = asked.question()
    wanted = {"budget": DEFAULT_BUDGET, "compress": DEFAULT_COMPRESSION, **asked.named}
    return contexts.ask(question, **wanted)


_ROUTES: dict[str, Callable[[View, _RouteRequest], BaseModel | dict[str, Any]]] = {
    "search": _search,
    "health": lambda view, _: view.health(view.resources.queue()),
    "ops": _parked,
    "node": lambda view, asked: view.node(asked.subject),
    "why": _why,
    "log": _log,
    "index": _index,
    "titles": _names,
    "similar": _names,
    "links": _links,
    "orphans": _links,
    "communities": _links,
    "traverse": _walk,
    "deep": _walk,
    "context": _context,
    "embed": lambda view, asked: view.embed(asked.body),
    "notes": _write,
}
