"""What the tools work with: the use cases over one vault, and who asks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from pipelines.cache.notes import note_names, settling
from pipelines.filters import Filters
from pipelines.search.scopes import filters_of
from pipelines.vault.files import note_key
from service.mcp.answers import Freshness, freshness_of, warnings_of
from service.mcp.arguments import Filtered, Paged
from service.mcp.cursors import cursor_key, seal, unseal
from service.runtime.tokens import read_token
from service.usecases.audience import Audience, agents
from service.usecases.context import Contexts
from service.usecases.evidence import Records
from service.usecases.index_request import IndexRequests
from service.usecases.proposing import Proposing
from service.usecases.schemas.titles import TitleHit
from service.usecases.search import SearchService
from service.usecases.titles import TitleSearch
from service.usecases.traversal import Traversal

Entry = TypeVar("Entry")
_LONGEST_CLIENT = 100


class Library:
    """The use cases over one vault as a client sees them, and the key of its cursors.

    `client` is the name that the client gives itself.
    """

    client = "unknown"

    def __init__(self, questions: SearchService, names: TitleSearch, traversal: Traversal) -> None:
        self.questions = questions
        self.names = names
        self.traversal = traversal
        self.contexts = Contexts(questions)
        self.records = Records(questions)
        self.proposing = Proposing(questions)
        self.index_requests = IndexRequests(questions)
        self._key = cursor_key(read_token(questions.resources.place.state))

    def for_client(self, name: str | None) -> Library:
        """Return this library for a client of that name, which is any text."""
        shown = "".join(c for c in name or "" if c.isprintable()).strip()[:_LONGEST_CLIENT]
        own = copy(self)
        own.client = shown or self.client
        return own

    @property
    def audience(self) -> Audience:
        """Which notes the client may see: no private ones, unless the operator's settings name the client."""
        return agents(self.questions.resources, self.client)

    def titles(self, name: str, most: int) -> list[TitleHit]:
        """Return notes by a name that is being typed."""
        return self.names.titles(name, most, audience=self.audience).results

    def filters(self, asked: Filtered) -> Filters:
        """Return the filters among a tool's arguments. Raises FilterError, ScopesFileError."""
        return filters_of(self.questions.resources.root, asked.filters())

    def freshness(self) -> tuple[Freshness, list[str]]:
        """Return how far the index is behind, and what limits answers."""
        index = self.questions.index_state(audience=self.audience)
        return freshness_of(index), warnings_of(index)

    def version_of(self, path: str) -> str | None:
        """Return what changes with each version of a note that is indexed; None if there is no such note."""
        path = note_key(path)
        for domain, cache in self.questions.readers():
            row = cache.ledger.row(path)
            if row is not None and row.wanted_hash is not None and self.audience.sees(domain.slug, path):
                return row.indexed_hash
        return None

    def paths(self) -> frozenset[str]:
        """Return the paths of all notes."""
        return frozenset(path for paths in self.by_domain().values() for path in paths)

    def settling(self) -> frozenset[str]:
        """Return the paths of notes that are about to change: who may see a newer version is not known before."""
        return frozenset(path for _, cache in self.questions.readers() for path in settling(cache))

    def by_domain(self) -> dict[str, frozenset[str]]:
        """Return the paths of the notes of each domain."""
        return {
            domain.slug: frozenset(note_names(cache)) - self.audience.hidden(domain.slug)
            for domain, cache in self.questions.readers()
        }

    def turn(self, tool: str, asked: Paged) -> Turn:
        """Return which page of an answer was asked for. Raises CursorError."""
        bound = json.dumps([tool, asked.model_dump(exclude={"cursor"})], sort_keys=True)
        state = unseal(self._key, bound, asked.cursor) if asked.cursor else {}
        return Turn(self._key, bound, state)


@dataclass(frozen=True, slots=True)
class Turn:
    """A page of an answer: what was asked, and the state in the cursor."""

    key: bytes
    bound: str
    state: dict[str, Any]

    @property
    def offset(self) -> int:
        """How many entries or characters came before."""
        return int(self.state.get("offset", 0))

    def next(self, offset: int, generation: str) -> str:
        """Return the cursor of the page that begins after `offset`."""
        first = self.state.get("generation", generation)
        return seal(self.key, self.bound, {"offset": offset, "generation": first})

    def cut(self, rows: Sequence[Entry], limit: int, generation: str) -> tuple[list[Entry], str | None]:
        """Return one page of all rows, and the cursor of the next one, if there is one."""
        shown = list(rows[self.offset : self.offset + limit])
        more = len(rows) > self.offset + limit
        return shown, self.next(self.offset + limit, generation) if more else None

    def warnings(self, generation: str) -> list[str]:
        """Say if the index has changed since the first page."""
        if self.state.get("generation", generation) == generation:
            return []
        return ["the vault has changed since the first page: entries may be missing or appear twice"]
