"""The dashboard's pages about work: overview, queue and parked notes."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

import anyio.to_thread
import structlog
from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from pipelines.errors import NotComparableError, NoteError, NoteNotFoundError, NotFoundError, TaxonomyError
from pipelines.model import HIGH_PRIORITY
from pipelines.question import read_question
from pipelines.search.walk import MOST_HOPS
from pipelines.state.jobs import LAST_ID, JobFilter, JobOrder, JobState, SortKey
from pipelines.state.state import HELD
from pipelines.state.tags import ProposalState
from pipelines.vault import files
from service.http.errors import problem
from service.http.server import STOPPING
from service.schemas.notes import NodeAnswer
from service.schemas.operations import DomainOverview, Overview, ParkedNote, QueueState, Series
from service.schemas.search import TitleHit
from service.schemas.tags import MOST, RenameTakenBack, TagRename, TagRenamed, WaitAgain
from service.usecases.links import Links, Traversal
from service.usecases.naming import may_be_a_title, notes_called
from service.usecases.notes import Reader, log_entries
from service.usecases.operations import Operations
from service.usecases.search import View
from service.usecases.status import left_out
from service.usecases.tags import Tags
from service.usecases.text import counted, nearest_first, way_to, why_kept, why_left_out
from service.usecases.titles import TitleSearch
from service.web.filters import BACKGROUND, TASKS, Pages, count, millis, span
from service.web.note import add_note_page

# The dashboard's pages about jobs: the history, sorted and filtered, and a single job.


_A_PAGE = 50
_FARTHEST = 1_000_000
_STATES: tuple[JobState, ...] = get_args(JobState)
_COLUMNS: tuple[tuple[SortKey, str, bool], ...] = (
    ("task", "Job", False), ("state", "State", False), ("began", "Began", False), ("domain", "Domain", False),
    ("notes", "What", False), ("waited", "Waited", True), ("ran", "Ran", True), ("attempt", "Attempt", True),
)  # fmt: skip
_TEXTS = ("task", "state", "domain")


@dataclass(frozen=True, slots=True)
class _Shown:
    """The parameters in the address of the list."""

    wanted: JobFilter
    by: SortKey
    ascending: bool
    background: bool
    before: int | None = None
    offset: int = 0

    @property
    def order(self) -> JobOrder:
        """Return the order; successful background jobs are folded unless requested."""
        folded = () if self.background or self.wanted.task else BACKGROUND
        return JobOrder(self.by, self.ascending, self.offset, folded)

    @property
    def is_newest(self) -> bool:
        """Say whether the newest come first, so that a page begins after a job and not after a number of jobs."""
        return self.by == "began" and not self.ascending

    def address(self, **changed: object) -> str:
        """Return the address of the list with other parameters, from its first page."""
        given = {name: value for name, value in asdict(self.wanted).items() if value}
        order = {} if self.is_newest else {"sort": self.by, "order": "up" if self.ascending else "down"}
        more = {"background": "1"} if self.background else {}
        asked = {name: value for name, value in (given | order | more | changed).items() if value}
        return f"/ops/jobs?{urlencode(asked)}" if asked else "/ops/jobs"


class JobPages:
    """What these pages ask."""

    def __init__(self, pages: Pages, operations: Operations) -> None:
        self._pages = pages
        self._operations = operations

    def jobs(self, asked: _Shown) -> HTMLResponse:
        """Show the history."""
        found = self._operations.jobs(asked.wanted, asked.order, before=asked.before, limit=_A_PAGE)
        further = None
        if found.before and asked.is_newest:
            further = asked.address(before=found.before)
        elif found.before:
            further = asked.address(offset=asked.offset + _A_PAGE)
        return self._pages.show(
            "jobs",
            jobs=found.jobs,
            asked=asked,
            further=further,
            wanted=asked.wanted,
            filtered=any(asdict(asked.wanted).values()),
            columns=[(label, number, *_heading(asked, key)) for key, label, number in _COLUMNS],
            states=_STATES,
            sort_keys=get_args(SortKey),
            tasks=sorted(found.counts, key=lambda name: TASKS.get(name, name)),
            domains=[domain.slug for domain in self._operations.resources.domains()],
        )

    def job(self, number: int) -> HTMLResponse:
        """Show one job, or an error page if there is none."""
        try:
            return self._pages.show("job", job=self._operations.job(number))
        except NotFoundError:
            return self._pages.show("job", 404, job=None)


def _heading(asked: _Shown, key: SortKey) -> tuple[str, str]:
    """Return where the heading of a column leads, and how the column is sorted now, as ARIA says it."""
    now = "" if asked.by != key else "ascending" if asked.ascending else "descending"
    upwards = now != "ascending" if key in _TEXTS else now == "descending"
    return asked.address(sort=key, order="up" if upwards else "down"), now


def add_job_pages(app: FastAPI, pages: JobPages) -> None:
    """Add the routes."""

    @app.get("/ops/jobs", response_class=HTMLResponse, include_in_schema=False)
    def jobs(
        state: JobState | Literal[""] = "",
        task: Annotated[str, Query(max_length=200)] = "",
        domain: Annotated[str, Query(max_length=200)] = "",
        path: Annotated[str, Query(max_length=500)] = "",
        error: Annotated[str, Query(max_length=200)] = "",
        sort: SortKey = "began",
        order: Literal["up", "down"] = "down",
        before: Annotated[int | None, Query(ge=1, le=LAST_ID)] = None,
        offset: Annotated[int, Query(ge=0, le=_FARTHEST)] = 0,
        *,
        background: bool = False,
    ) -> HTMLResponse:
        """Show the history of jobs; a form sends empty fields, too."""
        wanted = JobFilter(
            task or None, domain or None, state or None, path.strip() or None, error.strip() or None
        )
        return pages.jobs(_Shown(wanted, sort, order == "up", background, before, offset))

    @app.get("/ops/jobs/{number:int}", response_class=HTMLResponse, include_in_schema=False)
    def job(number: int) -> HTMLResponse:
        """Show one job."""
        return pages.job(min(number, LAST_ID))


# The pages about notes: whether a note is indexed and why not, where its links lead, which notes belong together.


_LONGEST_NAME = 1_000
_MOST_ENTRIES = 100
_MOST_LEFT_OUT = 50


class NotePages:
    """What these pages ask."""

    def __init__(self, pages: Pages, view: View, tags: Tags) -> None:
        self._pages = pages
        self._view = view
        self._names = TitleSearch(view)
        self._tags = tags
        self._graph = Links(view)
        self._traversal = Traversal(view)

    def note(self, q: str, status: int = 200) -> HTMLResponse:
        """Show the state of a note, given by its path or a name that only it has; else list the notes so named."""
        standing = self._view.why(q) if q else None
        called: Sequence[TitleHit] = []
        found: Sequence[TitleHit] = []
        if standing and may_be_a_title(files.note_key(q), standing):
            # A path like "Soil" has no known format and is ignored: the user means the note of that title.
            called, found = notes_called(q, lambda name, most: self._names.titles(name, most).results)
            if len(called) == 1:
                standing, found = self._view.why(called[0].path), []
            elif found and standing["state"] != "folder":
                standing = None
        node = self._node(standing)
        return self._pages.show(
            "notes",
            status,
            q=q,
            standing=standing,
            node=node,
            names=called or found,
            same=bool(called),
            left_out=({}, {}) if q else left_out(self._view.resources, self._view.readers()),
            most=_MOST_LEFT_OUT,
            log=log_entries(self._view, standing["path"], _MOST_ENTRIES) if standing else [],
            proposals=self._tags.context.proposals().of_note(node.domain, node.path) if node else [],
        )

    def _node(self, standing: dict[str, Any] | None) -> NodeAnswer | None:
        if standing is None:
            return None
        try:
            return self._view.node(standing["path"])
        except NoteNotFoundError:
            return None  # nothing of it is indexed

    def walk(self, path: str, q: str, depth: int) -> HTMLResponse:
        """Show what a walk from a note keeps and leaves out, or why the note is not indexed."""
        try:
            walk = self._traversal.traverse(files.note_key(path), depth, read_question(q.strip()))
        except (NoteNotFoundError, NotComparableError):
            return self.note(path, 404)
        return self._pages.show(
            "walk",
            walk=walk,
            kept=nearest_first(node.model_dump() for node in walk.nodes),
            left_out=nearest_first(node.model_dump() for node in walk.dropped),
            way_to=way_to,
            why_kept=why_kept,
            why_left_out=why_left_out,
            most=MOST_HOPS,
        )

    def communities(self, domain: str | None) -> HTMLResponse:
        """Show the communities, largest first. Raises DomainNotFoundError."""
        return self._pages.show("communities", found=self._graph.communities(domain))


def add_note_pages(app: FastAPI, pages: NotePages) -> None:
    """Add the routes."""

    @app.get("/ops/notes", response_class=HTMLResponse, include_in_schema=False)
    def notes(q: Annotated[str, Query(max_length=_LONGEST_NAME)] = "") -> HTMLResponse:
        """Say whether a note is indexed, and if not, why."""
        return pages.note(q.strip())

    @app.get("/ops/walk", response_class=HTMLResponse, include_in_schema=False)
    def walk(
        path: Annotated[str, Query(max_length=_LONGEST_NAME)],
        q: Annotated[str, Query(max_length=4_000)] = "",
        depth: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 2,
    ) -> HTMLResponse:
        """Walk from a note along its links."""
        return pages.walk(path, q, depth)

    @app.get("/ops/communities", response_class=HTMLResponse, include_in_schema=False)
    def communities(domain: str | None = None) -> HTMLResponse:
        """List the communities."""
        return pages.communities(domain or None)


# The page on which an operator decides about proposed tags, from the same store as `_review-queue.md`.


_SHOWN = 200
_CHANGES = 20
_LONGEST_TAG = 200

Choice = Literal["waiting", "accepted", "applied", "rejected", "refused"]
_CHOICES: dict[Choice, list[ProposalState]] = {
    "waiting": ["waiting", "addition"],
    "accepted": ["accepted"],
    "applied": ["applied"],
    "rejected": ["rejected"],
    "refused": ["refused"],
}


def add_review_page(app: FastAPI, pages: Pages, view: View, tags: Tags) -> None:
    """Add the route."""

    @app.get("/ops/review", response_class=HTMLResponse, include_in_schema=False)
    def review(
        state: Choice = "waiting",
        domain: str | None = None,
        tag: Annotated[str | None, Query(max_length=_LONGEST_TAG)] = None,
        sure: Annotated[int, Query(ge=0, le=100, description="percent")] = 0,
        *,
        missing: bool = False,
    ) -> HTMLResponse:
        """List the proposals of a state, by note, newest first."""
        domain, tag = domain or None, tag or None
        notes = tags.by_note(domain, _CHOICES[state], _SHOWN, tag, sure / 100)
        found = tags.proposals(domain, [], 1)
        counts = [found.counts.get(domain, {})] if domain else list(found.counts.values())
        wanted = {"domain": domain, "tag": tag, "sure": sure}
        return pages.show(
            "review",
            shown=state,
            shown_states=list(_CHOICES),
            wanted=wanted,
            query={key: value for key, value in wanted.items() if value},
            domains=[one.slug for one in view.resources.domains()],
            tags=tags.tags(domain, _CHOICES[state]),
            totals={
                name: sum(of.get(one, 0) for of in counts for one in states)
                for name, states in _CHOICES.items()
            },
            notes=notes,
            ids=tags.ids(domain, _CHOICES[state], MOST, tag, sure / 100)
            if tag
            else [one.id for note in notes for one in note.proposals],
            additions=sorted(
                {one.tag for note in notes for one in note.proposals if one.state == "addition"}
            ),
            most=_SHOWN,
            most_of_tag=MOST,
            missing=tags.missing(domain).missing if missing else None,
            changes=tags.changes(_CHANGES, None) if state == "applied" else [],
            written_with=tags.written_with(notes) if state == "applied" else {},
        )


def add_review_actions(app: FastAPI, tags: Tags) -> None:
    """Add the routes by which the page proposes and renames tags."""

    @app.post("/ops/review/propose", include_in_schema=False)
    def propose() -> dict[str, str | bool]:
        """Request proposals for all notes without a tag; say for how many, or why for none."""
        asked = tags.ask(None, None)
        if asked.paths:
            return {
                "said": f"Tags are being proposed for {counted(len(asked.paths), 'note')}, and appear here.",
                "refused": False,
            }
        problems = "; ".join(asked.problems)
        return {"said": problems or "Every note has a tag already.", "refused": bool(problems)}

    @app.post("/ops/review/rename", include_in_schema=False)
    def rename(asked: TagRename) -> dict[str, Any]:
        """Rename a tag from the card of a proposal, or say what that would do, or why it cannot be."""
        try:
            found = tags.rename_tag(asked)
        except (TaxonomyError, NoteError, NotFoundError) as error:
            return {"said": str(error), "refused": True}
        back = found.model_dump(include={"old", "new", "accepted", "renamed"}) if found.accepted else None
        return {"said": _renamed(found, done=not asked.dry_run), "refused": False, "back": back}

    @app.post("/ops/review/rename/undo", include_in_schema=False)
    def undo_rename(done: RenameTakenBack) -> WaitAgain:
        """Take back a rename that accepted a proposal."""
        return tags.undo_rename(done)


def _renamed(found: TagRenamed, *, done: bool) -> str:
    """Return in a sentence what is renamed, or will be."""
    proposals = counted(found.proposals, "proposal")
    if found.accepted:
        what = f"{proposals} of {found.old}" + (
            f" got the name {found.new}, and it is accepted for this note"
            if done
            else f" will be called {found.new}, and it is accepted for this note. No note has {found.old} yet"
        )
        return f"{what}."
    where = f"{counted(found.notes, 'note')} and {proposals}"
    if done:
        return (
            f"{found.old} is {found.new} now, in {found.vocabulary}, {where}. Review › applied takes it back."
        )
    return f"{found.old} becomes {found.new} in {found.vocabulary}, {where}. All of it can be undone at once."


# Updates for open pages, as server-sent events (WHATWG HTML, section 9.2).


EVERY_SECONDS = 2.0
MOST_LISTENERS = 16

log = structlog.get_logger()


class Pulse:
    """Facts that are computed at most once per `EVERY_SECONDS`, however many clients ask; thread-safe."""

    def __init__(
        self, find: Callable[[], dict[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._until = -1.0

    def now(self) -> dict[str, Any]:
        """Return the facts, never older than `EVERY_SECONDS`."""
        with self._lock:
            if self._clock() >= self._until:
                self._found = self._find()
                self._until = self._clock() + EVERY_SECONDS
            return self._found


class Listeners:
    """The pages that listen; beyond `MOST_LISTENERS`, a page is asked to retry."""

    def __init__(self, pulse: Pulse, every: float = EVERY_SECONDS) -> None:
        self.pulse = pulse
        self.count = 0
        self._every = every

    async def messages(self, stopping: asyncio.Event) -> AsyncIterator[str]:
        """Yield the facts as events, until the server stops: it waits for the answers that are under way."""
        yield f"retry: {EVERY_SECONDS * 1000:.0f}\n\n"
        while not stopping.is_set():
            try:
                facts = await anyio.to_thread.run_sync(self.pulse.now)
                yield f"data: {json.dumps(facts)}\n\n"
            except Exception:
                # The page goes on showing what it has; a comment keeps the connection, and finds one that is gone.
                log.exception("the dashboard's facts cannot be found just now")
                yield ": nothing new\n\n"
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), self._every)


class EventStream(StreamingResponse):
    """The answer to one listener, counted for as long as it is sent."""

    def __init__(self, listeners: Listeners, stopping: asyncio.Event) -> None:
        super().__init__(listeners.messages(stopping), media_type="text/event-stream")
        self._listeners = listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the listener disconnects or the server stops; 503 if too many listen."""
        if self._listeners.count >= MOST_LISTENERS:
            refused = problem(
                scope, 503, "too many pages listen; reload to see what is new", {"Retry-After": "10"}
            )
            await refused(scope, receive, send)
            return
        self._listeners.count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listeners.count -= 1


# Small charts as plain numbers that a template draws, without a library or script.


WIDTH, HEIGHT = 600, 120


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, in the units of the picture, with `failed` stacked on its lower part; and its text."""

    x: float
    width: float
    top: float
    height: float
    failed_top: float
    failed_height: float
    title: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a line, which of the values it is, and what it says."""

    index: int
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of WIDTH x HEIGHT: bars, lines (each one stroke without a gap), the value of its upper edge."""

    bars: tuple[Bar, ...]
    lines: tuple[tuple[Dot, ...], ...]
    top: float
    empty: bool


def ceiling(largest: float) -> float:
    """Return the round number (1, 2 or 5 by a power of ten) that is not below a value."""
    if largest < sys.float_info.min:  # below it, powers of ten round to nothing
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= largest * (1 - 1e-9))


def bar_chart(values: Sequence[tuple[int, int]], titles: Sequence[str]) -> Chart:
    """Return bars of (good, failed), oldest first."""
    top = ceiling(max((good + failed for good, failed in values), default=0))
    step = WIDTH / max(1, len(values))
    bars = []
    for at, ((good, failed), title) in enumerate(zip(values, titles, strict=True)):
        low, high = HEIGHT * good / top, HEIGHT * failed / top
        bars.append(
            Bar(
                x=round(at * step + step * 0.12, 2),
                width=round(step * 0.76, 2),
                top=round(HEIGHT - low, 2),
                height=round(low, 2),
                failed_top=round(HEIGHT - low - high, 2),
                failed_height=round(high, 2),
                title=title,
            )
        )
    return Chart(tuple(bars), (), top, not any(good + failed for good, failed in values))


def line_chart(values: Sequence[float | None], titles: Sequence[str]) -> Chart:
    """Return a line, oldest first, that is broken where there is no value."""
    top = ceiling(max((value for value in values if value is not None), default=0))
    step = WIDTH / max(1, len(values))
    lines: list[list[Dot]] = [[]]
    for at, (value, title) in enumerate(zip(values, titles, strict=True)):
        if value is None:
            lines.append([])
        else:
            x, y = round((at + 0.5) * step, 2), round(HEIGHT * (1 - value / top), 2)
            lines[-1].append(Dot(at, x, y, title))
    drawn = tuple(tuple(line) for line in lines if line)
    return Chart((), drawn, top, not drawn)


_PARKED_A_KIND = 200
_AGE_STEP_SECONDS = 5
_MINUTE = 60
_LINES = (1.0, 0.5, 0.0)  # of a chart, from the top
_COUNTED = ("edges", "communities", "review_waiting", "pending", "saves", "parked", "ignored")
_SUMMED = ("notes", "chunks", "pending", "vectors_pending", "parked", "review_waiting")


class WorkPages:
    """What these pages ask."""

    def __init__(self, pages: Pages, operations: Operations) -> None:
        self._pages = pages
        self._operations = operations

    def overview(self, hours: int) -> HTMLResponse:
        """Show the overview."""
        now, queue, series = (
            self._operations.overview(),
            self._operations.queue_state(),
            self._operations.series(hours),
        )
        saving = [one for one in now.domains if one.saved_p95_s is not None]
        sums = {name: sum(getattr(one, name) for one in now.domains) for name in _SUMMED}
        return self._pages.show(
            "overview",
            now=now,
            queue=queue,
            queue_hint=_queue_hint(queue),
            series=series,
            charts=_charts(series),
            sums=sums,
            oldest=max((one.oldest_pending_s for one in now.domains), default=0.0),
            slowest=max(saving, key=lambda one: one.saved_median_s or 0.0) if saving else None,
            settle=self._operations.resources.settings.settle_seconds,
            verdict=_verdict(now, sums),
            columns={name for name in _COUNTED if any(getattr(one, name) for one in now.domains)},
            embedders=len({one.model for one in now.domains}) > 1
            or bool(now.problems or now.failed)
            or any(one.vectors_in_postgresql for one in now.domains),
            held=bool(self._held()),
            root=self._operations.resources.root,
        )

    def queue(self) -> HTMLResponse:
        """Show the waiting tasks and running jobs."""
        queue = self._operations.queue_state()
        at_work = {
            one.domain for one in self._operations.overview().domains if one.pending or one.vectors_pending
        }
        return self._pages.show(
            "queue",
            queue=queue,
            oldest=_oldest(queue),
            high=HIGH_PRIORITY,
            domains=self._slugs(),
            at_work=at_work,
        )

    def parked(self) -> HTMLResponse:
        """Show the notes that could not be indexed, by reason, and the deletions that are held."""
        found = self._operations.parked.shown()
        kinds: dict[str, list[ParkedNote]] = {}
        for note in found.notes:
            kinds.setdefault(note.kind, []).append(note)
        return self._pages.show(
            "parked",
            kinds=[(kind, notes[:_PARKED_A_KIND]) for kind, notes in sorted(kinds.items())],
            totals=found.kinds,
            forgotten=found.forgotten,
            held=self._held(),
        )

    def _held(self) -> list[dict[str, Any]]:
        state = self._operations.resources.state()
        facts = {slug: state.get(HELD, slug) for slug in self._slugs()}
        return [{"domain": slug} | asdict(fact.value) for slug, fact in facts.items() if fact]

    def _slugs(self) -> list[str]:
        return [domain.slug for domain in self._operations.resources.domains()]


def add_ops(app: FastAPI, templates: Environment, view: View, operations: Operations, tags: Tags) -> None:
    """Add the dashboard: its pages, and the events that keep them fresh."""
    pulse = Pulse(lambda: _facts(operations))
    pages = Pages(templates, lambda: pulse.now()["badges"])
    _add_work_pages(app, WorkPages(pages, operations))
    add_job_pages(app, JobPages(pages, operations))
    add_note_pages(app, NotePages(pages, view, tags))
    add_note_page(app, pages, Reader(view), view)
    add_review_page(app, pages, view, tags)
    add_review_actions(app, tags)
    listeners = Listeners(pulse)

    @app.get("/ops/badges.json", include_in_schema=False)
    def badges() -> dict[str, int]:
        """Return the numbers in the navigation, for the pages that are not sent them."""
        return dict(pulse.now()["badges"])

    @app.get("/ops/events", include_in_schema=False)
    def events(request: Request) -> EventStream:
        """Send changes to a page for as long as it is open."""
        return EventStream(listeners, getattr(request.state, STOPPING, None) or asyncio.Event())


def _add_work_pages(app: FastAPI, pages: WorkPages) -> None:
    @app.get("/ops", response_class=HTMLResponse, include_in_schema=False)
    def overview(hours: Literal["1", "24"] = "1") -> HTMLResponse:
        """Show the overview."""
        return pages.overview(int(hours))

    @app.get("/ops/queue", response_class=HTMLResponse, include_in_schema=False)
    def queue() -> HTMLResponse:
        """Show the queue."""
        return pages.queue()

    @app.get("/ops/parked", response_class=HTMLResponse, include_in_schema=False)
    def parked() -> HTMLResponse:
        """Show the notes that could not be indexed."""
        return pages.parked()


def _facts(operations: Operations) -> dict[str, Any]:
    """Return the facts for open pages. Each change redraws the page, so ages are rounded."""
    now, queue = operations.overview(), operations.queue_state()
    newest = operations.jobs(JobFilter(), limit=1).jobs
    parked, wrong = sum(one.parked for one in now.domains), len(now.problems) + len(now.failed)
    return {
        "badges": {
            "Queue": queue.waiting,
            "Parked": parked,
            "Review": sum(one.review_waiting for one in now.domains),
            "Operations": parked + wrong,
        },
        "domains": [_steady(one) for one in now.domains],
        "problems": wrong,
        "paused": queue.paused,
        "running": [job.id for job in queue.running],
        "newest_job": newest[0].id if newest else None,
        "alive": sum(process.alive for process in now.processes),
        "ages": [
            age // _AGE_STEP_SECONDS
            for age in (
                *(one.oldest_pending_s for one in now.domains),
                *(job.since_s for job in queue.running),
                _oldest(queue) or 0.0,
            )
        ],
    }


def _charts(series: Series) -> list[dict[str, Any]]:
    """Return the charts of the work done, each with the values of its lines and with a table of what happened."""
    points = series.points
    throughput = bar_chart(
        [(p.done, p.failed) for p in points],
        [f"{count(p.done)} done, {count(p.failed)} failed, {counted(p.notes, 'note')}" for p in points],
    )
    latency = line_chart([p.median_ms for p in points], [millis(p.median_ms) for p in points])
    happened = [p for p in points if p.done or p.failed]
    timed = [p for p in points if p.median_ms is not None]
    return [
        {
            "id": "throughput",
            "name": "Jobs per minute" if series.bucket_s == _MINUTE else f"Jobs per {span(series.bucket_s)}",
            "picture": throughput,
            "scale": [f"{throughput.top * share:g}" for share in _LINES],
            "headings": ("Done", "Failed", "Notes"),
            "rows": [(p.start, (count(p.done), count(p.failed), count(p.notes))) for p in happened],
        },
        {
            "id": "latency",
            "name": "Median time of a job",
            "picture": latency,
            "scale": [millis(latency.top * share) for share in _LINES],
            "headings": ("Median",),
            "rows": [(p.start, (millis(p.median_ms),)) for p in timed],
        },
    ]


def _steady(one: DomainOverview) -> list[Any]:
    return [one.notes, one.chunks, one.edges, one.communities, one.pending, one.vectors_pending, one.saves]


def _verdict(now: Overview, sums: dict[str, int]) -> dict[str, str]:
    wrong = len(now.problems) + len(now.failed)
    if wrong:
        return {
            "look": "wrong",
            "text": f"{wrong} {'thing needs' if wrong == 1 else 'things need'} attention",
        }
    if sums["pending"]:
        of = "saved note is" if sums["pending"] == 1 else "saved notes are"
        return {"look": "behind", "text": f"{count(sums['pending'])} {of} not findable yet"}
    if sums["vectors_pending"]:
        of = "passage is" if sums["vectors_pending"] == 1 else "passages are"
        text = f"All words can be found; {count(sums['vectors_pending'])} {of} not searched by meaning yet"
        return {"look": "behind", "text": text}
    if sums["parked"]:
        of = "note is" if sums["parked"] == 1 else "notes are"
        return {
            "look": "behind",
            "text": f"{count(sums['parked'])} {of} parked; everything else can be found",
        }
    if ignored := sum(one.ignored for one in now.domains):
        files_are = counted(ignored, "file is", "files are")
        return {"look": "well", "text": f"Everything that is indexed can be found; {files_are} ignored"}
    return {"look": "well", "text": "Everything that was saved can be found"}


def _oldest(queue: QueueState) -> float | None:
    return max((line.oldest_s for line in queue.by_task if line.oldest_s is not None), default=None)


def _queue_hint(queue: QueueState) -> str:
    if queue.error:
        return "cannot be asked"
    oldest = _oldest(queue)
    running = f"{len(queue.running)} running"
    return running if oldest is None else f"oldest {span(oldest)}, {running}"
