"""Times in the format of tables and answers: UTC, ISO 8601. Texts of equal precision sort by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

Precise = Literal["seconds", "milliseconds"]


def as_iso(moment: datetime, precise: Precise = "milliseconds") -> str:
    """Return a time as text, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec=precise)


def now_iso(precise: Precise = "milliseconds") -> str:
    """Return the current time as text, in UTC."""
    return as_iso(datetime.now(UTC), precise)


def iso_ago(span: timedelta) -> str:
    """Return the time that is a span before now, as text."""
    return as_iso(datetime.now(UTC) - span)


def seconds_since(at: str) -> float:
    """Return how many seconds ago a time was; 0 for a future time, which means that a clock was set back."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())


def moment_of(text: str | None) -> datetime | None:
    """Return the time of an ISO date or time, None if it is none.

    A date means its midnight, a time without a zone means UTC.
    """
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
