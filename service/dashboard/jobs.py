"""The dashboard's pages about jobs: the history, sorted and filtered, and a single job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal, get_args
from urllib.parse import urlencode

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse

from pipelines.errors import NotFoundError
from pipelines.state.jobs import LAST_ID, JobFilter, JobOrder, JobState, SortKey
from service.dashboard.rendering import Pages
from service.dashboard.wording import BACKGROUND, TASKS
from service.usecases.operations import Operations

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
