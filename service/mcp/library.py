"""What the tools work with: the use cases over one vault, and who asks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from pipelines.errors import CursorError
from pipelines.filters import Filters
from pipelines.search.scopes import filters_of
from pipelines.vault.files import note_key
from service.mcp.schemas import Filtered, Freshness, Paged, freshness_of, warnings_of
from service.runtime.client import read_token
from service.schemas.search import TitleHit
from service.usecases.audience import agents
from service.usecases.changes import IndexRequests
from service.usecases.context import Contexts
from service.usecases.evidence import Records
from service.usecases.links import Traversal
from service.usecases.search import View
from service.usecases.tags import Proposing
from service.usecases.titles import TitleSearch

# Cursors: where an answer continues, sealed so that a client can only give them back.
#
# A cursor carries a code (HMAC) under a key of this vault, over the state and over what was asked. A cursor that
# was altered, made up, or taken from another request is refused.


_CODE = 16
_LONGEST = 1_000
_OTHER = (
    "this cursor does not continue this request: give back the cursor of the last answer, unchanged, with the same "
    "arguments; or leave it out to begin again"
)


def cursor_key(token: str) -> bytes:
    """Return the key that seals a vault's cursors, from its token."""
    return hmac.digest(token.encode(), b"cursor of an agent", hashlib.sha256)


def seal(key: bytes, asked: str, state: dict[str, Any]) -> str:
    """Return the cursor for a state that continues what was asked."""
    text = json.dumps(state, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(_code(key, asked, text) + text).decode().rstrip("=")


def unseal(key: bytes, asked: str, cursor: str) -> dict[str, Any]:
    """Return the state in a cursor. Raises CursorError."""
    try:
        data = base64.b64decode(cursor[:_LONGEST] + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CursorError(_OTHER) from None
    code, text = data[:_CODE], data[_CODE:]
    if not hmac.compare_digest(code, _code(key, asked, text)):
        raise CursorError(_OTHER)
    state: dict[str, Any] = json.loads(text)
    return state


def _code(key: bytes, asked: str, text: bytes) -> bytes:
    # The length keeps what was asked and the state apart.
    bound = asked.encode(errors="surrogatepass")
    return hmac.digest(key, len(bound).to_bytes(8, "big") + bound + text, hashlib.sha256)[:_CODE]


Entry = TypeVar("Entry")
_LONGEST_CLIENT = 100


def shown_name(client: str | None) -> str:
    """Return what a client calls itself in one short, printable line; empty if it does not say."""
    return "".join(c for c in client or "" if c.isprintable()).strip()[:_LONGEST_CLIENT]


class Library:
    """The use cases over one vault as a client sees them, and the key of its cursors.

    `client` is the name that the client gives itself. It sees no private notes, unless the settings name it.
    """

    def __init__(self, view: View, client: str = "unknown") -> None:
        self.client = client
        self.view = view.seen_by(agents(view.resources, client))
        self.names = TitleSearch(self.view)
        self.traversal = Traversal(self.view)
        self.contexts = Contexts(self.view, self.view.audience)
        self.records = Records(self.view)
        self.proposing = Proposing(self.view)
        self.index_requests = IndexRequests(self.view)
        self._key = cursor_key(read_token(view.resources.place.state))
        self._by_audience = {self.view.audience: self}

    def for_client(self, name: str | None) -> Library:
        """Return this library for a client of that name, which is any text."""
        client = shown_name(name) or self.client
        audience = agents(self.view.resources, client)
        if audience not in self._by_audience:
            self._by_audience[audience] = Library(self.view, client)
        own = copy(self._by_audience[audience])
        own.client = client
        return own

    def titles(self, name: str, most: int) -> list[TitleHit]:
        """Return notes by a name that is being typed."""
        return self.names.titles(name, most).results

    def filters(self, asked: Filtered) -> Filters:
        """Return the filters among a tool's arguments. Raises FilterError, ScopesFileError."""
        return filters_of(self.view.resources.root, asked.filters())

    def freshness(self) -> tuple[Freshness, list[str]]:
        """Return how far the index is behind, and what limits answers."""
        index = self.view.index_state()
        return freshness_of(index), warnings_of(index)

    def version_of(self, path: str) -> str | None:
        """Return what changes with each version of a note that is indexed; None if there is no such note."""
        path = note_key(path)
        for domain, cache in self.view.readers():
            row = cache.ledger.row(path)
            if row is not None and row.wanted_hash is not None and self.view.audience.sees(domain.slug, path):
                return row.indexed_hash
        return None

    def paths(self) -> frozenset[str]:
        """Return the paths of all notes."""
        return frozenset(path for paths in self.by_domain().values() for path in paths)

    def settling(self) -> frozenset[str]:
        """Return the paths of notes that are about to change: who may see a newer version is not known before."""
        return frozenset(path for _, cache in self.view.readers() for path in cache.notes.settling())

    def by_domain(self) -> dict[str, frozenset[str]]:
        """Return the paths of the notes of each domain."""
        return {
            domain.slug: frozenset(cache.notes.names()) - self.view.audience.hidden(domain.slug)
            for domain, cache in self.view.readers()
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


# A request of a client: who sends it, in which session.


Request = ServerRequestContext[Any]
_SESSION = "mcp-session-id"


def asked_by(library: Library, request: Request) -> Library:
    """Return the library as the client of a request sees it, by the name in its envelope or handshake."""
    said = request.session.client_params
    return library.for_client(said.client_info.name if said and said.client_info else None)


def session_of(request: Request) -> str:
    """Return the name of the session of the earlier era in which a request came; standard streams have one."""
    headers = getattr(request.request, "headers", {})
    return str(headers.get(_SESSION, ""))


def refused(text: str, **data: str) -> MCPError:
    """Return the error for a request that cannot be answered as it is."""
    return MCPError(INVALID_PARAMS, text, data or None)
