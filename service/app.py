"""The query worker: questions over read-only caches, as JSON."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import structlog
from fastapi import FastAPI
from starlette.routing import Route

from pipelines.errors import EverindexError, StorageUnavailableError
from pipelines.indexing.reconcile import last_comparison
from queue_config.logs import Trouble
from queue_config.settings import Settings
from service.answering import COMPARE_SECONDS, FOLLOW_SECONDS, MODELS_SECONDS, Answerers
from service.http.auth import Guard, Sessions
from service.http.errors import add_problems
from service.http.limits import THREADS, Limits
from service.http.metrics import add_metrics
from service.http.openapi import describe
from service.http.routes import (
    add_changes,
    add_context,
    add_evidence,
    add_graph,
    add_names,
    add_requests,
    add_search,
    add_traversal,
)
from service.http.routes_chat import add_chat
from service.http.routes_ops import add_operations, add_tags
from service.http.server import STOPPING, serve
from service.mcp.endpoint import PATH, Endpoint
from service.runtime.client import LOOPBACK, announced, read_token
from service.runtime.sockets import bind
from service.usecases.memory import keep_tables
from service.usecases.operations import Operations
from service.usecases.search import View
from service.usecases.tags import Tags
from service.web.browse import add_browsing
from service.web.chat import add_chat_page
from service.web.files import add_files
from service.web.ops import add_ops
from service.web.search import add_pages, graph_page, make_templates
from workers.complaints import Complaint, model_reported
from workers.heartbeat import heartbeat, process_name
from workers.jobs import return_memory, share_arenas
from workers.resources import Resources

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

_RETRY_SECONDS = 30.0
_LONGEST_PAUSE = 0.5
# How often the server is asked for commits of which nothing was heard.
_UNHEARD_SECONDS = 1.0
# Not for longer: without a worker, a model that cannot be loaded would never be reported.
_WORDS_FIRST_SECONDS = 10.0
_KEEP_SECONDS = 1.0

log = structlog.get_logger()


def run_server(settings: Settings, host: str = LOOPBACK, names: Sequence[str] = ()) -> None:
    """Serve until SIGTERM or SIGINT; running requests are answered first.

    `names` are further hosts that it serves besides the loopback ones, as clients send them: `notes.example:8741`.
    """
    share_arenas()
    resources = Resources(settings)
    listener = bind(settings.port, host)
    port = listener.getsockname()[1]
    app = _app_of(resources, port, names)
    # uvicorn raises the signal again after it has stopped; the clean-up below must happen all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ExitStack() as stack:
        try:
            stack.enter_context(announced(resources.place.state, port, process_name()))
        except OSError as error:
            log.warning("the command line cannot find this service", reason=str(error))
        serve(app, listener)


def create_app(settings: Settings, port: int, names: Sequence[str] = ()) -> Guard:
    """Build the query worker's application for 127.0.0.1:`port`, and for the allowed host names.

    The guard is the outermost middleware, so that the answer to an unexpected error has its headers, too.
    """
    return _app_of(Resources(settings), port, names)


def _app_of(resources: Resources, port: int, names: Sequence[str]) -> Guard:
    resources.check_models()
    view = View(resources)
    answerers = Answerers(view)
    view.spread = answerers.answer
    place = resources.place
    sessions = Sessions(read_token(place.state), place.state, place.identity.vault_id, port)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        stopping = threading.Event()
        works = [_keep_models_loaded, _follow_commits]
        if resources.settings.store is not None:
            works.append(_keep_tables)
        for work in works:
            threading.Thread(target=work, args=(view, stopping), daemon=True).start()
        with heartbeat(view.resources.store, "query", version("everindex")), closing(sessions):
            try:
                yield
            finally:
                stopping.set()
                answerers.close()
                resources.embedders.close()
                for close in closing_last:
                    await close()

    app = FastAPI(
        title="Everindex",
        version=version("everindex"),
        lifespan=lifespan,
        # FastAPI's documentation pages load scripts from the network.
        docs_url=None,
        redoc_url=None,
    )
    app.state.is_local = not names
    closing_last = _add_routes(app, view, sessions)
    add_problems(app)
    describe(app)
    app.add_middleware(Limits)
    return Guard(app, sessions=sessions, port=port, names=names)


def _add_routes(app: FastAPI, view: View, sessions: Sessions) -> list[Callable[[], Awaitable[None]]]:
    """Add all routes, and return what closes the connections that they keep."""
    resources = view.resources
    templates = make_templates(resources.root)
    add_pages(app, view, sessions, templates)
    add_files(app, view)
    add_graph(app, view, partial(graph_page, templates))
    add_traversal(app, view)
    add_names(app, view)
    add_evidence(app, view)
    add_context(app, view)
    add_changes(app, view)
    queue = resources.queue()
    tags, operations = Tags(view, queue), Operations(resources, queue)
    add_tags(app, tags)
    add_operations(app, operations)
    view.observe = add_metrics(app, operations).observe
    add_ops(app, templates, view, operations, tags)
    add_browsing(app, view, templates)
    add_search(app, view, queue)
    add_requests(app, view, operations.tasks)
    chats = add_chat(app, view)
    add_chat_page(app, templates, chats)
    agents = Endpoint(partial(_server_for_agents, view), STOPPING)
    app.router.routes.append(Route(PATH, agents, include_in_schema=False))
    return [agents.close, chats.close]


def _server_for_agents(view: View) -> Server[Any]:
    from service.mcp.library import Library  # noqa: PLC0415 - likewise
    from service.mcp.server import make_server  # noqa: PLC0415 - it loads the MCP library

    return make_server(Library(view))


def _keep_models_loaded(view: View, stopping: threading.Event) -> None:
    """Load the models and memory indexes of the caches, now and whenever another cache becomes current.

    The words of a first index come before, for some seconds: loading would take time from them, and no text has a
    vector yet.
    """
    until = time.monotonic() + _WORDS_FIRST_SECONDS
    while not stopping.is_set():
        try:
            with model_reported(view.resources, "query", lambda: True):
                if time.monotonic() > until or not _is_first_index(view):
                    view.load_models()
            if view.resources.embedders.rest():
                return_memory()
        except StorageUnavailableError:
            pass  # the thread that follows commits says so
        except Exception:
            # Search by word continues, and every answer says that search by meaning is missing.
            log.exception("no search by meaning: the model cannot be loaded")
            stopping.wait(_RETRY_SECONDS)
        stopping.wait(MODELS_SECONDS)


def _is_first_index(view: View) -> bool:
    """Say whether the first notes are being indexed by words: no text has a vector yet."""
    is_compared = last_comparison(view.resources.state()) is not None
    return all(
        not cache.vectors.has_any() and (not is_compared or cache.leases.has_pending("words", "together"))
        for _, cache in view.readers()
    )


def _follow_commits(view: View, stopping: threading.Event) -> None:
    """Keep the memory indexes up to date with the caches, and compare a part of them at intervals."""
    trouble = Trouble("questions are answered from the file")
    compared, commits = time.monotonic(), view.resources.commits()
    while not stopping.is_set():
        began = time.monotonic()
        try:
            if commits:
                commits.wait(_UNHEARD_SECONDS)
                began = time.monotonic()
            view.resources.follow()
            view.follow_commits()
            if time.monotonic() - compared >= COMPARE_SECONDS:
                compared = time.monotonic()
                view.check_memory()
            trouble.over()
        except (
            EverindexError,
            OSError,
        ) as error:  # for example a state folder that cannot be read for a moment
            trouble.met(str(error))
            stopping.wait(_LONGEST_PAUSE)
        # While thousands of notes are indexed, following each commit would take the time from indexing.
        stopping.wait(min(max(FOLLOW_SECONDS, 4 * (time.monotonic() - began)), _LONGEST_PAUSE))
    if commits:
        commits.close()


def _keep_tables(view: View, stopping: threading.Event) -> None:
    """Make what the tables of vectors in PostgreSQL lack; it may wait for minutes, unlike what follows commits."""
    complaint = Complaint(view.resources, "the search by meaning in PostgreSQL")
    while not stopping.wait(_KEEP_SECONDS):
        try:
            keep_tables(view.resources, view.memory)
            complaint.over()
        except Exception as error:  # noqa: BLE001 - whatever it is, the file is read instead
            complaint.met(f"{error}; until then the file is read for each question")
