"""The query worker: questions over read-only caches, as JSON."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Literal

import anyio.to_thread
import structlog
from fastapi import FastAPI, HTTPException, Query, Response
from pydantic import BaseModel, Field
from starlette.requests import Request

from pipelines import vault
from pipelines.errors import EverindexError
from pipelines.heartbeat import heartbeat
from pipelines.retrieval.filters import parse_filters
from queue_config.logs import Trouble
from queue_config.settings import Settings
from service.answers import (
    Explanation,
    Health,
    NodeAnswer,
    Readiness,
    ReloadAnswer,
    RetryAnswer,
    SearchAnswer,
)
from service.evidence import add_evidence
from service.graph import Graph, add_graph
from service.limits import LONGEST_QUERY, MOST_RESULTS, THREADS, Limits
from service.metrics import add_metrics
from service.names import Names, add_names
from service.openapi import describe
from service.operations import Operations
from service.operations_routes import add_operations
from service.ops.pages import add_ops
from service.pages import add_pages, make_templates
from service.problem_documents import add_problems
from service.questions import Questions
from service.security import Guard, Sessions
from service.tags import Tags, add_tags
from service.tokens import read_token
from service.traversal import Traversal, add_traversal
from service.worker_answers import wait_for_answer
from workers.resources import Resources
from workers.tasks import is_paused, make_tasks

# The alert EverindexPendingTooLong has the same.
LONGEST_WAIT_SECONDS = 300.0
_RELOAD_SECONDS = 120.0
_LOOK_SECONDS = 0.5
_RETRY_SECONDS = 30.0
_FOLLOW_SECONDS = 0.05

Question = Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY, examples=["what is a moat worth"])]
Count = Annotated[int, Query(ge=1, le=MOST_RESULTS)]

log = structlog.get_logger()


class PathState(BaseModel):
    """The answer of `GET /why/<path>`."""

    path: str
    domain: str | None
    state: Literal["indexed", "pending", "parked", "ignored", "unknown"]
    reason: str | None
    attempts: int | None = Field(None, description="of a note that waits or is parked")
    indexed_at: str | None = None


def create_app(settings: Settings, port: int, names: Sequence[str] = ()) -> Guard:
    """Build the query worker's application for the address 127.0.0.1:`port`, and for hosts of other names.

    The guard stands outside everything, so that an unexpected error has its headers, too.
    """
    resources = Resources(settings)
    resources.check_models()
    questions = Questions(resources)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        threading.Thread(target=_keep_models_loaded, args=(questions,), daemon=True).start()
        threading.Thread(target=_follow_commits, args=(questions,), daemon=True).start()
        with heartbeat(resources.place.state, "query", version("everindex")):
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
    graph, traversal, names_found = Graph(questions), Traversal(questions), Names(questions)
    add_graph(app, graph, templates)
    add_traversal(app, traversal)
    add_names(app, names_found)
    add_evidence(app, questions)
    tags, operations = Tags(resources), Operations(resources, resources.queue())
    add_tags(app, tags)
    add_operations(app, operations)
    questions.observe = add_metrics(app, operations).observe
    add_ops(
        app,
        templates,
        operations=operations,
        questions=questions,
        names=names_found,
        tags=tags,
        graph=graph,
        traversal=traversal,
    )
    _add_questions(app, questions)
    _add_requests(app, resources, questions)
    add_problems(app)
    describe(app)
    app.add_middleware(Limits)
    return Guard(app, sessions=sessions, port=port, names=names)


def _add_questions(app: FastAPI, questions: Questions) -> None:
    @app.get("/health")
    def health() -> Health:
        """Say that the process lives, what it serves, and how far the index is behind."""
        return questions.health()

    @app.get("/ready", responses={503: {"model": Readiness}})
    def ready(response: Response) -> Readiness:
        """Say whether the model is loaded, the caches are open, and what is saved is indexed in time; 503 if not."""
        answer = _readiness(questions)
        response.status_code = 200 if answer.ready else 503
        return answer

    @app.get("/search")
    def search_notes(
        q: Question,
        request: Request,
        k: Count = 10,
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
        q: Question,
        path: Annotated[str, Query(examples=["Concepts/Moats.md"])],
        k: Count = 10,
    ) -> Explanation:
        """Say why a note is among the answers to a question, or is not."""
        return questions.explain(q, path, k)

    @app.get("/node/{path:path}")
    def node(path: str) -> NodeAnswer:
        """Return a note's row, links and chunks."""
        return questions.node(path)

    @app.get("/why/{path:path}", response_model_exclude_unset=True)
    def why_path(path: str) -> PathState:
        """Say whether a path is indexed, pending, parked, ignored or unknown, and why."""
        return PathState(**questions.why(path))


def _readiness(questions: Questions) -> Readiness:
    found = {domain.slug: questions.index_state([domain.slug]) for domain in questions.resources.domains()}
    failed = {slug: reason for one in found.values() for slug, reason in one.failed.items()}
    # What an operator paused is late because he wants it to be.
    waits = [one.oldest_pending_s for slug, one in found.items() if not is_paused(questions.resources, slug)]
    model_ready = all(one.model_ready for one in found.values())
    caches_ready = not failed and bool(questions.readers())
    index_ready = max(waits, default=0.0) <= LONGEST_WAIT_SECONDS
    return Readiness(
        ready=model_ready and caches_ready and index_ready,
        model_ready=model_ready,
        caches_ready=caches_ready,
        index_ready=index_ready,
        oldest_pending_s=max(waits, default=0.0),
        failed=failed,
    )


def _add_requests(app: FastAPI, resources: Resources, questions: Questions) -> None:
    tasks = make_tasks(resources.queue(), resources)

    def compare(*, confirmed: bool) -> ReloadAnswer:
        """Let a worker compare disk and index, and wait for what it found."""
        resources.require_present()
        request = secrets.token_hex(8)
        tasks.reconcile_vault(request, confirmed)
        until = time.monotonic() + _RELOAD_SECONDS
        return ReloadAnswer(found=wait_for_answer(resources.state(), f"reload:{request}", until))

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


def _follow_commits(questions: Questions) -> None:
    """Keep what is in memory a moment behind the caches."""
    trouble = Trouble("questions are answered from the file")
    while True:
        try:
            questions.follow_commits()
            trouble.over()
        except EverindexError as error:
            trouble.met(str(error))
        time.sleep(_FOLLOW_SECONDS)
