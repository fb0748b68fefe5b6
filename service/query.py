"""The query worker: questions over read-only caches, as JSON."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Any

import anyio.to_thread
import structlog
from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import JSONResponse
from redis.exceptions import RedisError
from starlette.requests import Request

from pipelines import vault
from pipelines.errors import EverindexError, FilterError
from pipelines.retrieval.filters import parse_filters
from queue_config.queue import QueueUnavailableError
from queue_config.settings import Settings
from service.answers import Explanation, Health, NodeAnswer, Ready, ReloadAnswer, RetryAnswer, SearchAnswer
from service.evidence import add_evidence
from service.graph import Graph, add_graph
from service.names import Names, add_names
from service.pages import add_pages, make_templates
from service.questions import Questions
from service.security import Guard, Sessions, read_token
from service.tags import Tags, add_tags
from service.traversal import Traversal, add_traversal
from workers.resources import Resources
from workers.tasks import make_tasks

LONGEST_QUERY = 4_000
_MOST_RESULTS = 200
_RELOAD_SECONDS = 120.0
_THREADS = 8
_LOOK_SECONDS = 0.5
_RETRY_SECONDS = 30.0

log = structlog.get_logger()


def create_app(settings: Settings, port: int) -> Guard:
    """Build the query worker's application for the address 127.0.0.1:`port`.

    The guard stands outside everything, so that an unexpected error has its headers, too.
    """
    resources = Resources(settings)
    resources.check_models()
    questions = Questions(resources)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        threading.Thread(target=_keep_models_loaded, args=(questions,), daemon=True).start()
        yield

    sessions = Sessions(read_token(resources.place.state))
    app = FastAPI(
        title="Everindex",
        version=version("everindex"),
        lifespan=lifespan,
        # Their pages load scripts from a network.
        docs_url=None,
        redoc_url=None,
    )
    templates = make_templates(resources.root)
    add_pages(app, questions, sessions, templates)
    add_graph(app, Graph(questions), templates)
    add_traversal(app, Traversal(questions))
    add_names(app, Names(questions))
    add_evidence(app, questions)
    add_tags(app, Tags(resources))

    @app.exception_handler(EverindexError)
    def explain(_: Request, error: EverindexError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 503 if error.retry_helps else 500)

    @app.exception_handler(FilterError)
    def refuse(_: Request, error: FilterError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(QueueUnavailableError)
    @app.exception_handler(RedisError)
    def put_off(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": f"the queue cannot be reached ({error}); try again when it can"}, 503)

    _add_questions(app, questions)
    _add_requests(app, resources, questions)
    return Guard(app, sessions=sessions, port=port)


def _add_questions(app: FastAPI, questions: Questions) -> None:
    @app.get("/health")
    def health() -> Health:
        """Say that the process lives, what it serves, and how far the index is behind."""
        return questions.health()

    @app.get("/ready")
    def ready() -> Ready:
        """Say whether everything known is indexed, with percent and time left if not."""
        return questions.ready()

    @app.get("/search")
    def search_notes(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY)],
        request: Request,
        k: Annotated[int, Query(ge=1, le=_MOST_RESULTS)] = 10,
        *,
        explain: bool = False,
    ) -> SearchAnswer:
        """Find notes by meaning and by exact word; one hit a note, best first, with each layer's say if asked.

        Every other parameter is a filter: domain, folder, tag, author, kind, since, until, community, has,
        property.<name>.
        """
        given = [pair for pair in request.query_params.multi_items() if pair[0] not in ("q", "k", "explain")]
        return questions.search(q, k, parse_filters(given), explain=explain)

    @app.get("/explain")
    def explain_note(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY)],
        path: str,
        k: Annotated[int, Query(ge=1, le=_MOST_RESULTS)] = 10,
    ) -> Explanation:
        """Say why a note is among the answers to a question, or is not."""
        return questions.explain(q, path, k)

    @app.get("/node/{path:path}")
    def node(path: str) -> NodeAnswer:
        """Return a note's row, links and chunks."""
        return questions.node(path)

    @app.get("/why/{path:path}")
    def why_path(path: str) -> dict[str, Any]:
        """Say whether a path is indexed, pending, parked, ignored or unknown, and why."""
        return questions.why(path)


def _add_requests(app: FastAPI, resources: Resources, questions: Questions) -> None:
    tasks = make_tasks(resources.queue(), resources)

    def compare(*, confirmed: bool) -> ReloadAnswer:
        """Let a worker compare disk and index, and wait for what it found."""
        resources.require_present()
        request = secrets.token_hex(8)
        tasks.reconcile_vault(request, confirmed)
        deadline = time.monotonic() + _RELOAD_SECONDS
        while time.monotonic() < deadline:
            answer = resources.state().heard(f"reload:{request}")
            if answer:
                resources.state().forget(f"reload:{request}")
                return ReloadAnswer(found=answer.value)
            time.sleep(0.02)
        raise HTTPException(504, "no worker took it; it waits on the queue (is a worker running?)")

    @app.post("/reload")
    def reload() -> ReloadAnswer:
        """Compare the whole vault with the index; return what differed."""
        return compare(confirmed=False)

    @app.post("/retry")
    def retry(path: str | None = None) -> RetryAnswer:
        """Let parked notes (or one) be tried again; return which."""
        parked = questions.parked(path)
        if path is not None and not parked:
            raise HTTPException(404, questions.why(path))
        tasks.retry_parked(vault.note_key(path) if path else None)
        return RetryAnswer(paths=parked)

    @app.post("/confirm-deletions")
    def confirm_deletions() -> ReloadAnswer:
        """Let the mass deletions go that are held; return what was removed."""
        return compare(confirmed=True)


def _keep_models_loaded(questions: Questions) -> None:
    """Load what the caches need, now and whenever another cache becomes current."""
    while True:
        try:
            questions.load_models()
        except Exception:
            # Words are still searched, and every answer says that meaning is not.
            log.exception("no search by meaning: the model cannot be loaded")
            time.sleep(_RETRY_SECONDS)
        time.sleep(_LOOK_SECONDS)
