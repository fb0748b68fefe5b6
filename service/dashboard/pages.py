"""The dashboard's pages about work: overview, queue and parked notes."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from starlette.requests import Request

from pipelines.model import HIGH_PRIORITY
from pipelines.state.jobs import JobFilter
from pipelines.state.state import HELD
from service.dashboard.charts import bar_chart, line_chart
from service.dashboard.events import EventStream, Listeners, Pulse
from service.dashboard.jobs import JobPages, add_job_pages
from service.dashboard.note_page import add_note_page
from service.dashboard.notes import NotePages, add_note_pages
from service.dashboard.rendering import Pages
from service.dashboard.review import add_review_page
from service.dashboard.wording import count, millis, span
from service.http.server import STOPPING
from service.usecases.links import Graph
from service.usecases.operations import Operations
from service.usecases.phrases import counted
from service.usecases.reading import Reader
from service.usecases.schemas.operations import DomainOverview, Overview, ParkedNote, QueueState, Series
from service.usecases.search import SearchService
from service.usecases.tags import Tags
from service.usecases.titles import TitleSearch
from service.usecases.traversal import Traversal

_PARKED_A_KIND = 200
_AGE_STEP_SECONDS = 5
_MINUTE = 60
_LINES = (1.0, 0.5, 0.0)  # of a chart, from the top
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
    add_job_pages(app, JobPages(pages, operations))
    note_pages = NotePages(
        pages, questions=questions, names=names, tags=tags, graph=graph, traversal=traversal
    )
    add_note_pages(app, note_pages)
    add_note_page(app, pages, Reader(questions, names), questions)
    add_review_page(app, pages, questions, tags)
    listeners = Listeners(pulse)

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
    return {"look": "well", "text": "Everything that was saved can be found"}


def _oldest(queue: QueueState) -> float | None:
    return max((line.oldest_s for line in queue.by_task if line.oldest_s is not None), default=None)


def _queue_hint(queue: QueueState) -> str:
    if queue.error:
        return "cannot be asked"
    oldest = _oldest(queue)
    running = f"{len(queue.running)} running"
    return running if oldest is None else f"oldest {span(oldest)}, {running}"
