"""The dashboard's pages about work: overview, queue, jobs and parked notes."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from starlette.requests import Request

from pipelines.errors import NotFoundError
from pipelines.model import HIGH_PRIORITY
from pipelines.store.facts import HELD
from pipelines.store.job_rows import LAST_ID, JobFilter, JobState
from service.dashboard.charts import bar_chart, line_chart
from service.dashboard.events import STOPPING, EventStream, Listeners, Pulse
from service.dashboard.note_page import add_note_page
from service.dashboard.notes import NotePages, add_note_pages
from service.dashboard.rendering import Pages
from service.dashboard.review import add_review_page
from service.dashboard.wording import count, millis, span
from service.usecases.links import Graph
from service.usecases.operations import Operations
from service.usecases.reading import Reader
from service.usecases.schemas.operations import DomainOverview, Overview, ParkedNote, QueueState
from service.usecases.search import SearchService
from service.usecases.tags import Tags
from service.usecases.titles import TitleSearch
from service.usecases.traversal import Traversal

_JOBS_A_PAGE = 50
_PARKED_A_KIND = 200
_AGE_STEP_SECONDS = 5
_SUMMED = ("notes", "chunks", "pending", "vectors_pending", "parked", "review_waiting")
_STATES: tuple[JobState, ...] = get_args(JobState)


class WorkPages:
    """What these pages ask."""

    def __init__(self, pages: Pages, operations: Operations) -> None:
        self._pages = pages
        self._operations = operations

    def overview(self, hours: int) -> HTMLResponse:
        """Show how everything does."""
        now, queue, series = (
            self._operations.overview(),
            self._operations.queue_state(),
            self._operations.series(hours),
        )
        points = series.points
        times = [point.start[11:16] for point in points]
        done = [(point.done, point.failed) for point in points]
        said = [
            f"{at} UTC: {count(p.done)} done, {count(p.failed)} failed, {count(p.notes)} notes"
            for at, p in zip(times, points, strict=True)
        ]
        medians = [f"{at} UTC: {millis(p.median_ms)}" for at, p in zip(times, points, strict=True)]
        saving = [one for one in now.domains if one.saved_p95_s is not None]
        sums = {name: sum(getattr(one, name) for one in now.domains) for name in _SUMMED}
        return self._pages.show(
            "overview",
            now=now,
            queue=queue,
            queue_hint=_queue_hint(queue),
            series=series,
            throughput=bar_chart(done, said),
            latency=line_chart([point.median_ms for point in points], medians),
            span_start=f"{times[0]} UTC",
            span_end="now",
            sums=sums,
            oldest=max((one.oldest_pending_s for one in now.domains), default=0.0),
            slowest=max(saving, key=lambda one: one.saved_median_s or 0.0) if saving else None,
            settle=self._operations.resources.settings.settle_seconds,
            verdict=_verdict(now, sums),
            held=bool(self._held()),
            root=self._operations.resources.root,
        )

    def queue(self) -> HTMLResponse:
        """Show what waits and runs."""
        queue = self._operations.queue_state()
        return self._pages.show(
            "queue", queue=queue, oldest=_oldest(queue), high=HIGH_PRIORITY, domains=self._slugs()
        )

    def jobs(self, wanted: JobFilter, before: int | None) -> HTMLResponse:
        """Show the history, newest first."""
        found = self._operations.jobs(wanted, before=before, limit=_JOBS_A_PAGE)
        given = {name: value for name, value in asdict(wanted).items() if value}
        return self._pages.show(
            "jobs",
            jobs=found.jobs,
            older=found.before,
            before=before,
            wanted=wanted,
            filtered=bool(given),
            query=urlencode(given),
            states=_STATES,
            tasks=sorted(found.counts),
            domains=self._slugs(),
        )

    def job(self, number: int) -> HTMLResponse:
        """Show one job, or that there is none."""
        try:
            return self._pages.show("job", job=self._operations.job(number))
        except NotFoundError:
            return self._pages.show("job", 404, job=None)

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


def add_ops(
    app: FastAPI,
    templates: Environment,
    *,
    operations: Operations,
    questions: SearchService,
    names: TitleSearch,
    tags: Tags,
    graph: Graph,
    traversal: Traversal,
) -> None:
    """Add the dashboard: its pages, and the events that keep them fresh."""
    pulse = Pulse(lambda: _facts(operations))
    pages = Pages(templates, lambda: pulse.now()["badges"])
    _add_work_pages(app, WorkPages(pages, operations))
    note_pages = NotePages(
        pages, questions=questions, names=names, tags=tags, graph=graph, traversal=traversal
    )
    add_note_pages(app, note_pages)
    add_note_page(app, pages, Reader(questions, names), operations.resources.root)
    add_review_page(app, pages, questions, tags)
    listeners = Listeners(pulse)

    @app.get("/ops/events", include_in_schema=False)
    def events(request: Request) -> EventStream:
        """Tell a page what changed, for as long as it is open."""
        return EventStream(listeners, getattr(request.state, STOPPING, None) or asyncio.Event())


def _add_work_pages(app: FastAPI, pages: WorkPages) -> None:
    @app.get("/ops", response_class=HTMLResponse, include_in_schema=False)
    def overview(hours: Literal["1", "24"] = "1") -> HTMLResponse:
        """Show how everything does."""
        return pages.overview(int(hours))

    @app.get("/ops/queue", response_class=HTMLResponse, include_in_schema=False)
    def queue() -> HTMLResponse:
        """Show the queue."""
        return pages.queue()

    @app.get("/ops/jobs", response_class=HTMLResponse, include_in_schema=False)
    def jobs(
        state: JobState | Literal[""] = "",
        task: Annotated[str, Query(max_length=200)] = "",
        domain: Annotated[str, Query(max_length=200)] = "",
        path: Annotated[str, Query(max_length=500)] = "",
        error: Annotated[str, Query(max_length=200)] = "",
        before: Annotated[int | None, Query(ge=1, le=LAST_ID)] = None,
    ) -> HTMLResponse:
        """Show the history of jobs; a form sends empty fields, too."""
        wanted = JobFilter(
            task or None, domain or None, state or None, path.strip() or None, error.strip() or None
        )
        return pages.jobs(wanted, before)

    @app.get("/ops/jobs/{number:int}", response_class=HTMLResponse, include_in_schema=False)
    def job(number: int) -> HTMLResponse:
        """Show one job."""
        return pages.job(min(number, LAST_ID))

    @app.get("/ops/parked", response_class=HTMLResponse, include_in_schema=False)
    def parked() -> HTMLResponse:
        """Show the notes that could not be indexed."""
        return pages.parked()


def _facts(operations: Operations) -> dict[str, Any]:
    """Return the facts for open pages. Each change redraws the page, so ages are rounded."""
    now, queue = operations.overview(), operations.queue_state()
    newest = operations.jobs(JobFilter(), limit=1).jobs
    return {
        "badges": {
            "Queue": queue.waiting,
            "Parked": sum(one.parked for one in now.domains),
            "Review": sum(one.review_waiting for one in now.domains),
        },
        "domains": [_steady(one) for one in now.domains],
        "problems": len(now.problems) + len(now.failed),
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
    return {"look": "well", "text": "Everything that was saved can be found"}


def _oldest(queue: QueueState) -> float | None:
    return max((line.oldest_s for line in queue.by_task if line.oldest_s is not None), default=None)


def _queue_hint(queue: QueueState) -> str:
    if queue.error:
        return "cannot be asked"
    oldest = _oldest(queue)
    running = f"{len(queue.running)} running"
    return running if oldest is None else f"oldest {span(oldest)}, {running}"
