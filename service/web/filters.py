"""Numbers, times and tasks as the dashboard writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment
from starlette.responses import HTMLResponse

from service.http.auth import SCRIPTED_POLICY
from service.usecases.text import counted, what_happened

_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def count(number: float) -> str:
    """Return a count with thousands separators."""
    return f"{number:,.0f}"


def span(seconds: float | None) -> str:
    """Return a span of time in its two largest units; `—` for None."""
    if seconds is None:
        return "—"
    if round(seconds, 3) < 1:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 10:  # noqa: PLR2004 - below it a tenth matters
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, lesser, lesser_unit in _UNITS:
        if whole >= size:
            rest = whole % size // lesser
            return f"{whole // size} {unit}" + (f" {rest} {lesser_unit}" if rest else "")
    return f"{whole} s"


def millis(milliseconds: float | None) -> str:
    """Return a span that is given in milliseconds."""
    return span(None if milliseconds is None else milliseconds / 1000)


def size(count_of_bytes: float | None) -> str:
    """Return a size in decimal units; `—` for None."""
    if count_of_bytes is None:
        return "—"
    for unit in ("B", "kB", "MB"):
        if round(count_of_bytes) < 1000:  # noqa: PLR2004 - decimal units
            return f"{count_of_bytes:.0f} {unit}"
        count_of_bytes /= 1000
    return f"{count_of_bytes:.1f} GB"


def ago(at: str | None) -> str:
    """Return how long ago an ISO 8601 time was, in its largest unit."""
    if at is None:
        return "—"
    seconds = (datetime.now(UTC) - _moment(at)).total_seconds()
    if seconds < 5:  # noqa: PLR2004 - a reader needs that long
        return "now"
    for size_of, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size_of:
            return f"{seconds // size_of:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def moment(at: str) -> str:
    """Return an ISO 8601 time in UTC, to the second, for people."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(at: str) -> str:
    """Return an ISO 8601 time in the local time zone, to the second; with the day if that is not today."""
    here = _moment(at).astimezone()
    today = here.date() == datetime.now(UTC).astimezone().date()
    return f"{here:%H:%M:%S}" if today else f"{here.day} {here:%b %H:%M:%S}"


def task(name: str) -> str:
    """Return what a task does for the person who reads it; a task of another version by its name."""
    return TASKS.get(name, name)


def lines(first_and_last: Sequence[int]) -> str:
    """Return the first and the last line of a passage, for people."""
    first, last = first_and_last
    return f"line {first}" if first == last else f"lines {first}–{last}"


def _moment(at: str) -> datetime:
    found = datetime.fromisoformat(at)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


TASKS = {
    "index_notes": "Index saved notes",
    "index_note": "Index a requested note",
    "drain": "Index waiting notes",
    "index_apart": "Index a large note",
    "embed_remotely": "Embed by endpoints",
    "retry_parked": "Retry parked notes",
    "reconcile_vault": "Compare vault and index",
    "recompute_graph": "Rank notes by links",
    "date_notes": "Date notes by git",
    "prepare_sentences": "Prepare excerpts",
    "propose_tags": "Propose tags",
    "review_tags": "Apply reviewed tags",
    "apply_renames": "Rename tags",
    "undo_change": "Undo a change of tags",
    "undo_decisions": "Undo a review",
}
"""What each task does for a person."""

BACKGROUND = ("reconcile_vault", "recompute_graph", "date_notes", "prepare_sentences", "propose_tags")
"""The tasks that start by themselves, and whose success is no news."""

FILTERS = {
    "count": count, "span": span, "millis": millis, "size": size, "ago": ago, "moment": moment, "clock": clock,
    "task": task, "lines": lines, "counted": counted, "what_happened": what_happened,
}  # fmt: skip


# Render a dashboard page: its template, the counts in the navigation, and the policy for scripts.


class Pages:
    """The templates of the dashboard; `badges` gives the counts in the navigation."""

    def __init__(self, templates: Environment, badges: Callable[[], dict[str, int]]) -> None:
        self._templates = templates
        self._badges = badges
        templates.filters.update(FILTERS)

    def show(
        self, template: str, status: int = 200, policy: str = SCRIPTED_POLICY, **context: Any
    ) -> HTMLResponse:
        """Return a page."""
        text = self._templates.get_template(f"ops/{template}.html").render(badges=self._badges(), **context)
        return HTMLResponse(text, status, {"Content-Security-Policy": policy})
