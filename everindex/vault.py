"""A vault in a Python program: its running service answers, or else its index, read in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from functools import partial, wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)
from urllib.parse import quote

from pipelines.errors import FilterError, ServiceError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from service.cli.in_process import InProcess
    from service.cli.options import Client
    from service.runtime.client import Service
    from service.schemas.context import ContextAnswer
    from service.schemas.notes import IndexAnswer, NodeAnswer
    from service.schemas.operations import Health
    from service.schemas.search import SearchAnswer, SimilarAnswer

Value: TypeAlias = str | int | float | date
Values: TypeAlias = Value | Sequence[Value] | None
"""One value of a filter, or several; None: the filter is not given."""

Answer = TypeVar("Answer", bound="BaseModel")
P = ParamSpec("P")
T = TypeVar("T")

_ENDING_SECONDS = 5.0
_LOOK_SECONDS = 0.05


class FilterOptions(TypedDict, total=False):
    """The filters of `docs/using.md`, as keywords.

    `properties` are those of the frontmatter: `properties={"ticker": "NVDA"}`. The notes that pass a filter in
    `without` are left out: `without={"tag": "draft"}`.
    """

    scope: Values
    domain: Values
    folder: Values
    tag: Values
    author: Values
    kind: Values
    format: Values
    since: str | date | None
    until: str | date | None
    community: Values
    has: Values
    section: Values
    path: Values
    title: Values
    file: Values
    min_similarity: float | Literal["duplicate", "primary", "supporting", "weak"] | None
    properties: Mapping[str, Values]
    without: FilterOptions


class NoteLinks(NamedTuple):
    """A note's links: to other notes and files, from other notes, and those that lead nowhere."""

    outlinks: list[dict[str, Any]]
    backlinks: list[dict[str, Any]]
    unresolved: list[dict[str, Any]]


class Vault:
    """A vault, by the path of its folder.

    Each call asks the vault's running service; if there is none, this process reads the index itself, with the same
    answers and errors (`everindex.errors`). It loads the model at the first question, which takes seconds. `path` may
    be left out as with the commands: it is then in the environment, around the current folder, or the only one that
    runs. `state` is the folder of its index, if that is not where `everindex up` puts it.

    Safe to use from several threads. Raises VaultNotFoundError, NotFoundError for a vault that was never indexed,
    NotRunningError for no path where none or several run, ConfigurationError.
    """

    def __init__(self, path: str | Path | None = None, *, state: str | Path | None = None) -> None:
        self._client = _Client(path, state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index and the model, if this process has them."""
        self._client.close()

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self._client.root

    def search(self, question: str, k: int = 10, **filters: Unpack[FilterOptions]) -> SearchAnswer:
        """Return the `k` notes that answer a question best: `results`, one hit per note, and what is known of them.

        A hit has `path`, `title`, `section`, `text` (its best passage), `excerpt` (the sentences of it that answer),
        `similarity`, `match`, `date`, `kind` and `properties`. Raises FilterError, DomainNotFoundError.
        """
        from service.schemas.search import SearchAnswer, SearchRequest  # noqa: PLC0415 - importing takes longer

        if others := filters.keys() & SearchRequest.model_fields:
            raise FilterError(f"there is no filter {min(others)!r}; docs/using.md names those that there are")
        asked = _made(SearchRequest, {**_grouped(filters), "q": question, "k": k})
        return self._client.ask(SearchAnswer, "POST", "/search", (), asked)

    def similar(self, note: str | Path, k: int = 10, **filters: Unpack[FilterOptions]) -> SimilarAnswer:
        """Return the `k` notes nearest to a note, named by its path, title or alias.

        Raises NoteNotFoundError, NotComparableError, FilterError, DomainNotFoundError.
        """
        from service.schemas.search import MOST_SIMILAR, SimilarAnswer  # noqa: PLC0415 - likewise

        if not 1 <= k <= MOST_SIMILAR:
            raise FilterError(f"k is {k}; it is a number from 1 to {MOST_SIMILAR}")
        pairs = list(_pairs(filters))
        return self._client.about(
            note, lambda found: self._client.ask(SimilarAnswer, "GET", f"/similar/{quote(found)}", pairs, k=k)
        )

    def context(
        self,
        question: str,
        budget: int | None = None,
        *,
        compress: Literal["none", "light", "strong"] | None = None,
        **filters: Unpack[FilterOptions],
    ) -> ContextAnswer:
        """Return the passages that answer a question as one block of at most `budget` tokens (8,000).

        Raises FilterError, DomainNotFoundError.
        """
        from service.schemas.context import ContextAnswer, ContextRequest  # noqa: PLC0415 - likewise

        given = {"budget": budget, "compress": compress}
        asked = _made(
            ContextRequest,
            {"question": question, "filters": _grouped(filters)}
            | {name: value for name, value in given.items() if value is not None},
        )
        return self._client.ask(ContextAnswer, "POST", "/context", (), asked)

    def note(self, path: str | Path) -> NodeAnswer:
        """Return what the index has of a note: its properties, its links both ways, its passages.

        Raises NoteNotFoundError.
        """
        from service.schemas.notes import NodeAnswer  # noqa: PLC0415 - likewise

        return self._client.about(
            path, lambda found: self._client.ask(NodeAnswer, "GET", f"/node/{quote(found)}")
        )

    def links(self, note: str | Path, type: str | None = None) -> NoteLinks:  # noqa: A002 - as everywhere
        """Return a note's links both ways, all or those of a type. Raises NoteNotFoundError."""
        from service.usecases.text import of_types  # noqa: PLC0415 - likewise

        found = self.note(note)
        every = found.outlinks, found.backlinks, found.unresolved
        return NoteLinks(*(of_types(links, [type] if type else ()) for links in every))

    def index(self, path: str | Path, *, force: bool = False) -> IndexAnswer:
        """Index a note now, if it changed or with `force`; return its state and the number of its `passages`.

        Raises NoteNotFoundError for a path that is no note, AlreadyRunningError where Everindex is just starting,
        VaultNotFoundError, ModelUnavailableError.
        """
        from service.schemas.notes import IndexAnswer  # noqa: PLC0415 - likewise

        return self._client.about(
            path,
            lambda found: self._client.ask(IndexAnswer, "POST", "/index", path=found, wait=True, force=force),
        )

    def add_text(
        self,
        text: str,
        id: str,  # noqa: A002 - the property's name
        *,
        title: str | None = None,
        kind: str | None = None,
        source: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> IndexAnswer:
        """Write a text as a note into the folder that the setting `inbox` names, and index it.

        The title, which is the id unless given, names the file. With the same id again, the note that was written
        before is replaced. Raises OverruledError without an inbox or if somebody else has changed the note since,
        FilterError for what a note cannot have, NoteTooLargeError, VaultNotWritableError, VaultNotFoundError.
        """
        from service.schemas.notes import NewNote, WrittenNote  # noqa: PLC0415 - likewise

        given = {"text": text, "title": title or id, "kind": kind, "source": source}
        note = _made(NewNote, {**given, "properties": {**(properties or {}), "id": id}})
        return self.index(self._client.ask(WrittenNote, "POST", "/notes", (), note).path)

    def embed(self, text: str, *, question: bool = False, domain: str | None = None) -> list[float]:
        """Return the vector of a text, as a passage's or as a question's, by the model of the vault or of a domain.

        Raises FilterError if the domains have several models, DomainNotFoundError, ModelUnavailableError.
        """
        from service.schemas.search import EmbedAnswer, EmbedRequest  # noqa: PLC0415 - likewise

        asked = _made(EmbedRequest, {"text": text, "question": question, "domain": domain})
        return self._client.ask(EmbedAnswer, "POST", "/embed", (), asked).vector

    def status(self) -> Health:
        """Return how far the index is: notes, passages, what is pending, problems."""
        from service.schemas.operations import Health  # noqa: PLC0415 - likewise

        return self._client.ask(Health, "GET", "/health")


def _awaited(
    method: Callable[Concatenate[Vault, P], T],
) -> Callable[Concatenate[AsyncVault, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def ask(self: AsyncVault, /, *args: P.args, **kwargs: P.kwargs) -> T:
        from anyio.to_thread import run_sync  # noqa: PLC0415 - only for programs that wait so

        return await run_sync(partial(method, self._vault, *args, **kwargs))

    return ask


class AsyncVault:
    """`Vault` for asyncio and trio: the same methods, to await; each runs in a thread of anyio's."""

    def __init__(self, path: str | Path | None = None, *, state: str | Path | None = None) -> None:
        self._vault = Vault(path, state=state)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._vault.close()

    search = _awaited(Vault.search)
    similar = _awaited(Vault.similar)
    context = _awaited(Vault.context)
    note = _awaited(Vault.note)
    links = _awaited(Vault.links)
    index = _awaited(Vault.index)
    add_text = _awaited(Vault.add_text)
    embed = _awaited(Vault.embed)
    status = _awaited(Vault.status)
    close = _awaited(Vault.close)


# What answers: the service that runs at the moment of the call, or the index in this process.


class _Client:
    def __init__(self, path: str | Path | None, state: str | Path | None) -> None:
        from service.cli.options import located, vault_of  # noqa: PLC0415 - likewise
        from workers.vault_paths import locate_vault  # noqa: PLC0415 - likewise

        given = {"vault": path, "state": state}
        self._place = located({name: Path(one) for name, one in given.items() if one is not None})
        found = locate_vault(vault_of(self._place), self._place.get("state"), create=False)
        self.root, self._state = found.root, found.state
        self._opening = threading.Lock()
        self._opened: InProcess | None = None

    def close(self) -> None:
        self._opened = None

    def about(self, path: str | Path, ask: Callable[[str], T]) -> T:
        """Ask about a note by its path, title or alias. Raises NoteNotFoundError."""
        from service.cli.naming import about_note  # noqa: PLC0415 - likewise

        return about_note(cast("Client", self), str(path), ask)

    def ask(
        self,
        kind: type[Answer],
        method: str,
        path: str,
        filters: Sequence[tuple[str, str]] = (),
        body: BaseModel | None = None,
        /,
        **named: Any,
    ) -> Answer:
        """Return a route's answer as its schema."""
        from pydantic import ValidationError  # noqa: PLC0415 - likewise

        try:
            return kind.model_validate(self.call(method, path, filters, body, **named))
        except ValidationError as error:
            raise ServiceError(
                f"the answer to {path} is that of another version of Everindex ({error.errors()[0]['msg']}); stop"
                " Everindex and start it again"
            ) from error

    def call(
        self,
        method: str,
        path: str,
        filters: Sequence[tuple[str, str]] = (),
        body: BaseModel | None = None,
        /,
        **named: Any,
    ) -> Any:
        from service.runtime.client import running  # noqa: PLC0415 - likewise

        service = running(self._state)
        if service is None:
            return self._in_process().call(method, path, filters, body, **named)
        try:
            return service.call(method, path, filters, body, **named)
        except ServiceError as error:
            is_silent = error.__cause__ is not None
            # To ask again is safe: a note that was written is found by its id.
            if not is_silent or not self._ends(service):
                raise
        return self.call(method, path, filters, body, **named)

    def _ends(self, service: Service) -> bool:
        """Say whether a service that does not answer ends within seconds."""
        from service.runtime.client import running  # noqa: PLC0415 - likewise

        until = time.monotonic() + _ENDING_SECONDS
        while running(self._state) == service:
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _in_process(self) -> InProcess:
        with self._opening:
            if self._opened is None:
                from queue_config.logs import hand_over  # noqa: PLC0415 - likewise
                from service.cli.in_process import InProcess  # noqa: PLC0415 - likewise
                from service.cli.options import settings_of  # noqa: PLC0415 - likewise
                from workers.resources import Resources  # noqa: PLC0415 - likewise

                hand_over()
                self._opened = InProcess(Resources(settings_of(self._place), create=False))
            return self._opened


# Arguments, as the schemas read them.


def _made(kind: type[Answer], given: Mapping[str, Any]) -> Answer:
    """Return a request. Raises FilterError for an argument that it cannot have."""
    from pydantic import ValidationError  # noqa: PLC0415 - likewise

    try:
        return kind.model_validate(given)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise FilterError(said) from error


def _pairs(filters: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield name and value of each filter, as in a question's URL."""
    for name, value in filters.items():
        if name == "properties":
            yield from _pairs({f"property.{one}": wanted for one, wanted in value.items()})
        elif name == "without":
            yield from ((f"-{one}", wanted) for one, wanted in _pairs(value))
        elif isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, str):
            # Of no values none would do: to leave such a filter out would find what it is to keep out.
            yield from ((name, _text(one)) for one in value or [""])
        elif value is not None:
            yield name, _text(value)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _grouped(filters: Mapping[str, Any]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in _pairs(filters):
        grouped.setdefault(name, []).append(value)
    return grouped
