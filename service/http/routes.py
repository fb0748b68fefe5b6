"""The routes of search, of single notes, and of the state of the index."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Response
from starlette.requests import Request
from starlette.responses import HTMLResponse

from pipelines.context.block import Order
from pipelines.context.compress import CompressionMode
from pipelines.filters import Filters
from pipelines.notes.links import LONGEST_TYPE
from pipelines.question import read_question
from pipelines.search.scopes import filters_of
from pipelines.search.walk import MOST_HOPS
from pipelines.state.state import RELOADED
from pipelines.vault import files
from queue_config.queue import Queue
from service.http.errors import SIGNED_IN
from service.schemas.context import (
    DEFAULT_BUDGET,
    DEFAULT_COMPRESSION,
    DEFAULT_ORDER,
    LARGEST_BUDGET,
    SMALLEST_BUDGET,
    ContextAnswer,
    ContextRequest,
)
from service.schemas.evidence import (
    MOST_RECORDS,
    DeletedAnswer,
    NewRecord,
    QuotesToVerify,
    RecordAnswer,
    RecordsAnswer,
    VerifyAnswer,
    WriteBack,
)
from service.schemas.links import (
    CommunitiesAnswer,
    DeepAnswer,
    GraphAnswer,
    LinksAnswer,
    Mode,
    OrphansAnswer,
    State,
    TraverseAnswer,
)
from service.schemas.notes import (
    IgnoredAnswer,
    IndexAnswer,
    NewNote,
    NodeAnswer,
    NoteLogAnswer,
    PathState,
    WrittenNote,
)
from service.schemas.operations import Health, HealthInBrief, Readiness
from service.schemas.search import (
    FARTHEST_OFFSET,
    LONGEST_QUERY,
    MOST_PHRASINGS,
    MOST_RESULTS,
    MOST_SIMILAR,
    MOST_TITLES,
    EmbedAnswer,
    EmbedRequest,
    Explanation,
    Phrasing,
    ReloadAnswer,
    RetryAnswer,
    SearchAnswer,
    SearchRequest,
    SimilarAnswer,
    TitlesAnswer,
)
from service.usecases.changes import IndexRequests, stop_indexing, wait_for_answer, write_note
from service.usecases.context import Contexts, context_by_recipe
from service.usecases.evidence import Records
from service.usecases.explain import explain
from service.usecases.links import Links, Traversal
from service.usecases.notes import MOST_ENTRIES, log_of_note
from service.usecases.search import View
from service.usecases.titles import TitleSearch
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


def add_search(app: FastAPI, view: View, queue: Queue) -> None:
    """Add the routes that read: search, single notes, and the state of the index."""
    _add_state(app, view, queue)
    _add_ranked(app, view)
    _add_asked_by_body(app, view)
    _add_notes(app, view)


def _add_state(app: FastAPI, view: View, queue: Queue) -> None:
    @app.get("/health")
    def health(request: Request) -> Health | HealthInBrief:
        """Say that the process is alive; with the token, also what it serves and how far the index is behind."""
        found = view.health(queue)
        if getattr(request.state, SIGNED_IN):
            return found
        return HealthInBrief(status=found.status, version=found.version)

    @app.get("/ready", responses={503: {"model": Readiness}})
    def ready(response: Response) -> Readiness:
        """Say whether the model is loaded, the caches are open, and saves are indexed in time; 503 if not."""
        answer = _readiness(view)
        response.status_code = 200 if answer.ready else 503
        return answer


def _add_ranked(app: FastAPI, view: View) -> None:
    @app.get("/search")
    def search_notes(
        q: Question,
        request: Request,
        k: Count = 10,
        *,
        explain: bool = False,
        offset: Annotated[int, Query(ge=0, le=FARTHEST_OFFSET)] = 0,
        fold: bool = True,
        also: Annotated[list[Phrasing], Query(max_length=MOST_PHRASINGS)] = [],  # noqa: B006 - FastAPI copies it
        rerank: bool | None = None,
    ) -> SearchAnswer:
        """Find notes by meaning and by exact word; one hit per note, best first, with the layers if requested.

        `offset` skips the first results; `fold=false` lists copies as hits; each `also` is another phrasing of the
        question, whose best 50 results are merged with its own; `rerank` says whether second models rank again.
        Every other parameter is a filter: domain, folder, tag, author, kind, format, since, until, community, has,
        section, path, title, file, min_similarity, property.<name>, and scope, which stands for the filters that
        `_scopes.yaml` has under that name. A minus before the name (`-tag=draft`) leaves out the notes that pass.
        Operators in the question (`tag:moat`, `-kind:note`) are filters, too.
        """
        own = ("q", "k", "explain", "offset", "fold", "also", "rerank")
        filters = filters_in(request, view.resources.root, *own)
        question, *others = (read_question(one, filters, rerank=rerank) for one in (q, *also))
        return view.search(question, k, explain=explain, offset=offset, fold=fold, also=others)

    @app.get("/explain")
    def explain_note(
        q: Question,
        path: Annotated[str, Query(examples=["Concepts/Moats.md"])],
        k: Count = 10,
    ) -> Explanation:
        """Explain why a note is among the answers to a question, or is not."""
        return explain(view, read_question(q), path, k)


def _add_asked_by_body(app: FastAPI, view: View) -> None:
    @app.post("/search")
    def search_notes_by_body(asked: SearchRequest) -> SearchAnswer:
        """Find notes like `GET /search`, by a JSON body: for long questions and for many paths.

        A filter is a key with a value or a list of values: `{"q": "moats", "path": ["A.md", "B.md"]}`.
        """
        filters = filters_of(view.resources.root, asked.filters)
        question, *others = (
            read_question(one, filters, rerank=asked.rerank) for one in (asked.q, *asked.also)
        )
        return view.search(
            question,
            asked.k,
            also=others,
            explain=asked.explain,
            offset=asked.offset,
            fold=asked.fold,
        )

    @app.post("/embed")
    def embed(asked: EmbedRequest) -> EmbedAnswer:
        """Return the vector of a text by the model that embeds the notes."""
        return view.embed(asked)


def _add_notes(app: FastAPI, view: View) -> None:
    @app.get("/node/{path:path}")
    def node(path: str) -> NodeAnswer:
        """Return a note's row, links and chunks."""
        return view.node(path)

    @app.get("/why/{path:path}", response_model_exclude_unset=True)
    def why_path(path: str) -> PathState:
        """Say whether a path is indexed, pending, parked, ignored or unknown, and why."""
        return PathState(**view.why(path))

    @app.get("/log/{path:path}")
    def log(path: str, limit: Annotated[int, Query(ge=1, le=MOST_ENTRIES)] = 50) -> NoteLogAnswer:
        """Return what happened to a note, newest first, also if it is gone."""
        return log_of_note(view, path, limit)


def _readiness(view: View) -> Readiness:
    found = {domain.slug: view.index_state([domain.slug]) for domain in view.resources.domains()}
    failed = {slug: reason for one in found.values() for slug, reason in one.failed.items()}
    # A paused domain is late on purpose.
    waits = [one.oldest_pending_s for slug, one in found.items() if not is_paused(view.resources, slug)]
    model_ready = all(one.model_ready for one in found.values())
    caches_ready = not failed and bool(view.readers())
    index_ready = max(waits, default=0.0) <= LONGEST_WAIT_SECONDS
    return Readiness(
        ready=model_ready and caches_ready and index_ready,
        model_ready=model_ready,
        caches_ready=caches_ready,
        index_ready=index_ready,
        oldest_pending_s=max(waits, default=0.0),
        failed=failed,
    )


def add_requests(app: FastAPI, view: View, tasks: Tasks) -> None:
    """Add the routes that ask the workers to act: compare, retry, confirm deletions."""
    resources = view.resources

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
        parked = view.parked(path)
        if path is not None and not parked:
            raise view.no_such_note(path)
        tasks.retry_parked(files.note_key(path) if path else None)
        return RetryAnswer(paths=parked)

    @app.post("/confirm-deletions")
    def confirm_deletions() -> ReloadAnswer:
        """Apply the held mass deletions; return what was removed."""
        return compare(confirmed=True)


# The routes of links and the graph.


_MOST_LINKS = 10_000
_MOST_NODES = 20_000
_MOST_TYPES = 20


_Types = Annotated[
    list[Annotated[str, Query(min_length=1, max_length=LONGEST_TYPE)]] | None,
    Query(max_length=_MOST_TYPES, description="types of links: keys of properties and fields"),
]


def add_graph(app: FastAPI, view: View, page: Callable[[], HTMLResponse]) -> None:
    """Add the routes; a browser that asks for the graph gets `page`."""
    graph = Links(view)

    @app.get("/links")
    def links(
        state: State = "any",
        domain: str | None = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_LINKS)] = 500,
        type: _Types = None,  # noqa: A002 - the name in the address
    ) -> LinksAnswer:
        """List links: all, broken ones, or ambiguous ones that match several files; of all types, or of some."""
        return graph.links(state, domain, limit, type or ())

    @app.get("/orphans")
    def orphans(domain: str | None = None) -> OrphansAnswer:
        """List the notes that link to nothing and that nothing links to."""
        return graph.orphans(domain)

    @app.get("/communities")
    def communities(domain: str | None = None) -> CommunitiesAnswer:
        """List the communities, largest first."""
        return graph.communities(domain)

    @app.get("/graph", response_model=GraphAnswer)
    def picture(
        request: Request,
        response: Response,
        domain: str | None = None,
        community: int | None = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_NODES)] = 5_000,
        type: _Types = None,  # noqa: A002
    ) -> GraphAnswer | HTMLResponse:
        """Return notes and edges for a map, best-ranked first. A browser gets the map itself.

        With types, only edges of these, and their notes.
        """
        if "text/html" in request.headers.get("accept", ""):
            return page()
        response.headers["Vary"] = "Accept"
        return graph.picture(domain, community, limit, type or ())


# The routes of a block of passages for a language model.


def add_context(app: FastAPI, view: View) -> None:
    """Add the routes."""
    contexts = Contexts(view)

    @app.get("/context")
    def context(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY, examples=["what is a moat worth"])],
        request: Request,
        budget: Annotated[int, Query(ge=SMALLEST_BUDGET, le=LARGEST_BUDGET)] = DEFAULT_BUDGET,
        compress: CompressionMode = DEFAULT_COMPRESSION,
        order: Order = DEFAULT_ORDER,
    ) -> ContextAnswer:
        """Return the passages that answer a question as one block for a model, within a budget of tokens.

        Every other parameter is a filter, as in `GET /search`. If the search fails, the block is empty and a warning
        says why.
        """
        own = ("q", "budget", "compress", "order")
        pairs = [pair for pair in request.query_params.multi_items() if pair[0] not in own]
        filters = filters_of(view.resources.root, pairs)
        return contexts.ask(read_question(q, filters), budget=budget, compress=compress, order=order)

    @app.get("/context/{recipe}")
    def context_by(
        recipe: str,
        about: Annotated[str, Query(min_length=1, examples=["Companies/NVDA.md"])],
        budget: Annotated[int | None, Query(ge=SMALLEST_BUDGET, le=LARGEST_BUDGET)] = None,
        compress: CompressionMode | None = None,
    ) -> ContextAnswer:
        """Return the block of a recipe in `_contexts.yaml` about a note, whose frontmatter fills the recipe's slots.

        Budget and compression are the recipe's where none are given.
        """
        return context_by_recipe(contexts, recipe, about, budget=budget, compress=compress)

    @app.post("/context")
    def context_of(body: ContextRequest) -> ContextAnswer:
        """Return the same for a JSON body, for long questions."""
        question = read_question(body.question, filters_of(view.resources.root, body.given_filters))
        return contexts.ask(question, budget=body.budget, compress=body.compress, order=body.order)


# The routes of evidence.


def add_evidence(app: FastAPI, view: View) -> None:
    """Add the routes."""
    records = Records(view)

    @app.post("/verify")
    def verify(body: QuotesToVerify) -> VerifyAnswer:
        """Check for each quote whether the cited note contains it, word for word."""
        return records.verify(body.quotes)

    @app.post("/v1/rx", status_code=201)
    def ask(body: NewRecord) -> RecordAnswer:
        """Search, and store the results as an evidence record."""
        return records.ask(body.question, body.k, body.domain)

    @app.post("/v1/rx/deep")
    def write_back(body: WriteBack) -> RecordAnswer:
        """Store a curated result in a record, replacing an earlier one, and verify each quote."""
        return records.write_back(body)

    @app.get("/v1/rx")
    def newest(limit: Annotated[int, Query(ge=1, le=MOST_RECORDS)] = 100) -> RecordsAnswer:
        """List the newest records."""
        return records.newest(limit)

    @app.get("/v1/rx/{record_id}")
    def show(record_id: str) -> RecordAnswer:
        """Return a record with verified citations, and whether its notes have changed since."""
        return records.show(record_id)

    @app.delete("/v1/rx/{record_id}")
    def delete(record_id: str) -> DeletedAnswer:
        """Delete a record and the texts that it stores."""
        return records.delete(record_id)


# The routes that change which notes are indexed.


def add_changes(app: FastAPI, view: View) -> None:
    """Add the routes."""
    requests = IndexRequests(view)

    @app.post("/index", responses={202: {"model": IndexAnswer}})
    def index(
        path: Annotated[str, Query(min_length=1, examples=["Concepts/Moats.md"])],
        response: Response,
        *,
        wait: bool = False,
        force: bool = False,
    ) -> IndexAnswer:
        """Index a note now; with `wait`, answer when a search finds it, or after 30 seconds.

        With `force` it is read, split and written again although it did not change.
        The status is 202 as long as the note waits: no worker runs, its domain is paused, or it is being written to.
        """
        answer = requests.index(path, wait=wait, force=force)
        response.status_code = 202 if answer.state in ("queued", "pending") else 200
        return answer

    @app.post("/notes", status_code=201, responses={200: {"model": WrittenNote}})
    def write(note: NewNote, response: Response) -> WrittenNote:
        """Write a new note into the operator's inbox, under a name made from its title; nothing is overwritten.

        A property `id` names the note: written with the same one again, it is replaced (200) if nobody has changed it
        since (else 409). Off unless the setting `inbox` names a folder.
        """
        written = write_note(view, note)
        response.status_code = 201 if written.state == "new" else 200
        return written

    @app.delete("/documents/{path:path}")
    def stop(path: str) -> IgnoredAnswer:
        """Stop indexing a note, by a line in the vault's `.everindexignore`; its file stays.

        `everindex ignore --undo` removes the line.
        """
        return stop_indexing(view, path)


# The routes that find notes by name, and similar notes.


_LONGEST_NAME = 500


def add_names(app: FastAPI, view: View) -> None:
    """Add the routes. `root` is the vault's folder."""
    names, root = TitleSearch(view), view.resources.root

    @app.get("/titles")
    def titles(
        q: Annotated[str, Query(min_length=1, max_length=_LONGEST_NAME)],
        limit: Annotated[int, Query(ge=1, le=MOST_TITLES)] = 20,
    ) -> TitlesAnswer:
        """Find notes by title, alias or path as you type: matching beginnings first, then similar spellings."""
        return names.titles(q, limit)

    @app.get("/similar/{path:path}")
    def similar(
        path: str, request: Request, k: Annotated[int, Query(ge=1, le=MOST_SIMILAR)] = 10
    ) -> SimilarAnswer:
        """Return the notes whose passages are nearest to the mean of a note's vectors; one hit per note.

        Every other parameter is a filter, as in `GET /search`.
        """
        return names.similar(path, k, filters_in(request, root, "k"))


# The routes that walk along links.


def add_traversal(app: FastAPI, view: View) -> None:
    """Add the routes. `root` is the vault's folder."""
    traversal, root = Traversal(view), view.resources.root

    @app.get("/traverse/{path:path}")
    def traverse(
        path: str,
        request: Request,
        depth: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 2,
        q: Annotated[str | None, Query(min_length=1, max_length=LONGEST_QUERY)] = None,
        type: _Types = None,  # noqa: A002
    ) -> TraverseAnswer:
        """Walk from a note along links in both directions, keeping notes that resemble the question or the note.

        With types, only along links of these, and without a question every note that is reached is kept. Every other
        parameter is a filter of the notes on the way, as in `GET /search`.
        """
        question = read_question(q or "", filters_in(request, root, "depth", "q", "type"))
        return traversal.traverse(path, depth, question, type or ())

    @app.get("/deep")
    def deep(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY)],
        request: Request,
        mode: Mode = "deep",
    ) -> DeepAnswer:
        """Search, walk on from the best notes, and return every note that was kept or dropped, with the reason.

        Every other parameter is a filter, as in `GET /search`.
        """
        return traversal.deep(read_question(q, filters_in(request, root, "q", "mode")), mode)
