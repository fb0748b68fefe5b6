"""The routes of search, of single notes, and of the state of the index."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Response
from starlette.requests import Request

from pipelines.filters import Filters
from pipelines.search.scopes import filters_of
from pipelines.state.state import RELOADED
from pipelines.vault import files
from queue_config.queue import Queue
from service.http.message_pages import SIGNED_IN
from service.usecases.explaining import explain
from service.usecases.note_log import MOST_ENTRIES, log_of_note
from service.usecases.schemas.health import Health, HealthInBrief, Readiness
from service.usecases.schemas.notes import NodeAnswer, NoteLogAnswer, PathState
from service.usecases.schemas.search import (
    FARTHEST_OFFSET,
    LONGEST_QUERY,
    MOST_RESULTS,
    Explanation,
    ReloadAnswer,
    RetryAnswer,
    SearchAnswer,
    SearchRequest,
)
from service.usecases.search import SearchService
from service.usecases.worker_replies import wait_for_answer
from workers.jobs import is_paused
from workers.tasks import Tasks

# The alert EverindexPendingTooLong uses the same value.
LONGEST_WAIT_SECONDS = 300.0
_RELOAD_SECONDS = 120.0

Question = Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY, examples=["what is a moat worth"])]
Count = Annotated[int, Query(ge=1, le=MOST_RESULTS)]


def filters_in(request: Request, root: Path, *own: str) -> Filters:
    """Return the filters in a request's address: every parameter but the route's `own`.

    Raises FilterError, ScopesFileError.
    """
    return filters_of(root, [pair for pair in request.query_params.multi_items() if pair[0] not in own])


def add_search(app: FastAPI, questions: SearchService, queue: Queue) -> None:
    """Add the routes that read: search, single notes, and the state of the index."""
    _add_state(app, questions, queue)
    _add_ranked(app, questions)
    _add_asked_by_body(app, questions)
    _add_notes(app, questions)


def _add_state(app: FastAPI, questions: SearchService, queue: Queue) -> None:
    @app.get("/health")
    def health(request: Request) -> Health | HealthInBrief:
        """Say that the process is alive; with the token, also what it serves and how far the index is behind."""
        found = questions.health(queue)
        if getattr(request.state, SIGNED_IN):
            return found
        return HealthInBrief(status=found.status, version=found.version)

    @app.get("/ready", responses={503: {"model": Readiness}})
    def ready(response: Response) -> Readiness:
        """Say whether the model is loaded, the caches are open, and saves are indexed in time; 503 if not."""
        answer = _readiness(questions)
        response.status_code = 200 if answer.ready else 503
        return answer


def _add_ranked(app: FastAPI, questions: SearchService) -> None:
    @app.get("/search")
    def search_notes(
        q: Question,
        request: Request,
        k: Count = 10,
        *,
        explain: bool = False,
        offset: Annotated[int, Query(ge=0, le=FARTHEST_OFFSET)] = 0,
        fold: bool = True,
    ) -> SearchAnswer:
        """Find notes by meaning and by exact word; one hit per note, best first, with the layers if requested.

        `offset` skips the first results; `fold=false` lists copies as hits. Every other parameter is a
        filter: domain, folder, tag, author, kind, format, since, until, community, has, section, path, title,
        file, min_similarity, property.<name>, and scope, which stands for the filters that `_scopes.yaml` has under
        that name. A minus before the name (`-tag=draft`) leaves out the notes that pass. Operators in the question
        (`tag:moat`, `-kind:note`) are filters, too.
        """
        filters = filters_in(request, questions.resources.root, "q", "k", "explain", "offset", "fold")
        return questions.search(q, k, filters, explain=explain, offset=offset, fold=fold)

    @app.get("/explain")
    def explain_note(
        q: Question,
        path: Annotated[str, Query(examples=["Concepts/Moats.md"])],
        k: Count = 10,
    ) -> Explanation:
        """Explain why a note is among the answers to a question, or is not."""
        return explain(questions, q, path, k)


def _add_asked_by_body(app: FastAPI, questions: SearchService) -> None:
    @app.post("/search")
    def search_notes_by_body(asked: SearchRequest) -> SearchAnswer:
        """Find notes like `GET /search`, by a JSON body: for long questions and for many paths.

        A filter is a key with a value or a list of values: `{"q": "moats", "path": ["A.md", "B.md"]}`.
        """
        return questions.search(
            asked.q,
            asked.k,
            filters_of(questions.resources.root, asked.filters),
            explain=asked.explain,
            offset=asked.offset,
            fold=asked.fold,
        )


def _add_notes(app: FastAPI, questions: SearchService) -> None:
    @app.get("/node/{path:path}")
    def node(path: str) -> NodeAnswer:
        """Return a note's row, links and chunks."""
        return questions.node(path)

    @app.get("/why/{path:path}", response_model_exclude_unset=True)
    def why_path(path: str) -> PathState:
        """Say whether a path is indexed, pending, parked, ignored or unknown, and why."""
        return PathState(**questions.why(path))

    @app.get("/log/{path:path}")
    def log(path: str, limit: Annotated[int, Query(ge=1, le=MOST_ENTRIES)] = 50) -> NoteLogAnswer:
        """Return what happened to a note, newest first, also if it is gone."""
        return log_of_note(questions, path, limit)


def _readiness(questions: SearchService) -> Readiness:
    found = {domain.slug: questions.index_state([domain.slug]) for domain in questions.resources.domains()}
    failed = {slug: reason for one in found.values() for slug, reason in one.failed.items()}
    # A paused domain is late on purpose.
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


def add_requests(app: FastAPI, questions: SearchService, tasks: Tasks) -> None:
    """Add the routes that ask the workers to act: compare, retry, confirm deletions."""
    resources = questions.resources

    def compare(*, confirmed: bool) -> ReloadAnswer:
        """Have a worker compare disk and index, and wait for the result."""
        resources.require_present()
        request = secrets.token_hex(8)
        tasks.reconcile_vault(request, confirmed)
        until = time.monotonic() + _RELOAD_SECONDS
        return ReloadAnswer(found=wait_for_answer(resources.state(), RELOADED, request, until))

    @app.post("/reload")
    def reload() -> ReloadAnswer:
        """Compare the whole vault with the index; return what differed."""
        return compare(confirmed=False)

    @app.post("/retry")
    def retry(path: str | None = None) -> RetryAnswer:
        """Retry all parked notes, or one; return their paths."""
        parked = questions.parked(path)
        if path is not None and not parked:
            raise questions.no_such_note(path)
        tasks.retry_parked(files.note_key(path) if path else None)
        return RetryAnswer(paths=parked)

    @app.post("/confirm-deletions")
    def confirm_deletions() -> ReloadAnswer:
        """Apply the held mass deletions; return what was removed."""
        return compare(confirmed=True)
