"""Moments as tables and answers write them: UTC, ISO 8601. Texts of one precision sort by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

Precise = Literal["seconds", "milliseconds"]


def as_iso(moment: datetime, precise: Precise = "milliseconds") -> str:
    """Return a moment as text, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec=precise)


def now_iso(precise: Precise = "milliseconds") -> str:
    """Return the time as text, in UTC."""
    return as_iso(datetime.now(UTC), precise)


def iso_ago(span: timedelta) -> str:
    """Return the moment that lies a span of time back, as text."""
    return as_iso(datetime.now(UTC) - span)


def seconds_since(at: str) -> float:
    """Return how many seconds ago a moment was; 0 for one that lies ahead, where a clock was set back."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())
