"""Change notices: tell the clients that watch a note when the index has a new version of it.

One thread follows the caches' commits while anybody watches. It looks only at the notes that are watched, as each
client sees them, so a note that a client must not see never causes a notice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from mcp.server.subscriptions import ListenHandler, ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp_types import (
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from pipelines.errors import EverindexError
from service.mcp.library import Library, Request, asked_by, session_of
from service.mcp.schemas import parse_uri

_LOOK_SECONDS = 0.2
_MOST_WATCHES = 1_000
_MOST_OF_A_SESSION = 200

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class _Watch:
    """What one client watches: paths by address, perhaps the list of notes. `seen` and `listed`: as last notified."""

    library: Library
    paths: dict[str, str]
    lists: bool
    tell: Callable[[ServerEvent], None]
    loop: asyncio.AbstractEventLoop
    seen: dict[str, str | None] = field(default_factory=dict)
    listed: frozenset[str] | None = None

    def look(self) -> None:
        """Notify the client of what has changed since the last call; the first call only records the state.

        A note that is about to change counts as it was, until the index has its new version.
        """
        first = not self.seen and self.listed is None
        settling = self.library.settling()
        found = {uri: self.library.version_of(path) for uri, path in self.paths.items()}
        listed = self.library.paths() if self.lists else None
        settling |= self.library.settling()  # a note may begin or end to change while the list is read
        for uri, now in found.items():
            if first or self.paths[uri] not in settling:
                if not first and self.seen.get(uri) != now:
                    self._tell(ResourceUpdated(uri=uri))
                self.seen[uri] = now
        if listed is not None:
            if self.listed is not None:
                listed = (listed - settling) | (self.listed & settling)
                if listed != self.listed:
                    self._tell(ResourcesListChanged())
            self.listed = listed

    def _tell(self, event: ServerEvent) -> None:
        with suppress(RuntimeError):  # the loop has just ended, and with it the client
            self.loop.call_soon_threadsafe(self.tell, event)


class Notices:
    """Who watches what."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._watches: dict[_Watch, None] = {}
        self._sessions: dict[tuple[str, str], Callable[[], None]] = {}
        self._following = False

    async def listen(
        self, request: Request, asked: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve the stream of a client of the current era."""
        wanted = asked.notifications
        library = asked_by(self._library, request)
        uris = [str(uri) for uri in wanted.resource_subscriptions or []]
        bus = _Bus(lambda tell: self.watch(library, uris, tell, lists=bool(wanted.resources_list_changed)))
        return await ListenHandler(bus)(request, asked)

    async def subscribe(self, request: Request, asked: SubscribeRequestParams) -> EmptyResult:
        """Watch a note for a session of the earlier era."""
        session, uri, loop = request.session, str(asked.uri), asyncio.get_running_loop()

        def tell(_: ServerEvent) -> None:
            sending = loop.create_task(session.send_resource_updated(uri))
            under_way.add(sending)
            sending.add_done_callback(under_way.discard)

        under_way: set[asyncio.Task[None]] = set()
        await self.unsubscribe(request, UnsubscribeRequestParams(uri=uri))
        own = [key for key in self._sessions if key[0] == session_of(request)]
        if len(own) >= _MOST_OF_A_SESSION:
            self._sessions.pop(own[0])()
        elif len(self._sessions) >= _MOST_WATCHES:  # of sessions that ended without a word
            self._sessions.pop(next(iter(self._sessions)))()
        watch = self.watch(asked_by(self._library, request), [uri], tell, lists=False)
        self._sessions[session_of(request), uri] = watch
        return EmptyResult()

    async def unsubscribe(self, request: Request, asked: UnsubscribeRequestParams) -> EmptyResult:
        """End a watch of a session of the earlier era."""
        end = self._sessions.pop((session_of(request), str(asked.uri)), None)
        if end:
            end()
        return EmptyResult()

    def watch(
        self, library: Library, uris: list[str], tell: Callable[[ServerEvent], None], *, lists: bool
    ) -> Callable[[], None]:
        """Tell what changes of these addresses from now on, in the running loop; return what ends it."""
        paths = {uri: found.path for uri in uris[:_MOST_WATCHES] if (found := parse_uri(uri))}
        watch = _Watch(library, paths, lists, tell, asyncio.get_running_loop())
        watch.look()
        with self._lock:
            self._watches[watch] = None
            if not self._following:
                self._following = True
                threading.Thread(target=self._follow, daemon=True).start()
        return lambda: self._end(watch)

    def _end(self, watch: _Watch) -> None:
        with self._lock:
            self._watches.pop(watch, None)

    def _follow(self) -> None:
        """Look after each commit, as long as anybody watches."""
        versions: object = None
        while True:
            with self._lock:
                self._watches = {watch: None for watch in self._watches if not watch.loop.is_closed()}
                watches = list(self._watches)
                if not watches:
                    self._following = False
                    return
            try:
                now = [(cache, cache.data_version()) for _, cache in self._library.view.readers()]
                if now != versions:
                    for watch in watches:
                        watch.look()
                    versions = now
            except (EverindexError, OSError) as error:
                log.warning("changes cannot be followed", reason=str(error))
            _PAUSE.wait(_LOOK_SECONDS)


_PAUSE = threading.Event()


class _Bus:
    """The one subscription of a stream, as the library's listener wants it."""

    def __init__(self, watch: Callable[[Callable[[ServerEvent], None]], Callable[[], None]]) -> None:
        self.subscribe = watch

    async def publish(self, event: ServerEvent) -> None:
        """Do nothing: what changes is seen in the caches."""
