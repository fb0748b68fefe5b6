"""Counts and times in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any


def counted(number: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 note`, `1,200 notes`. `many` where the plural is not the noun with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def by_format(counts: Mapping[str, int]) -> str:
    """Return how many files have each format: `9 pdf, 4 csv`."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add the counts of all domains, the most frequent format first."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total.most_common())


def not_asked_for(counts: Mapping[str, int]) -> str:
    """Say which files could be indexed, by format, and how; counts as `by_format` takes them."""
    return (
        f"{counted(sum(counts.values()), 'other file')} could be indexed: {by_format(counts)} (add the format to"
        " `formats:` of the domain in _domains.yaml; `everindex init` writes that file if there is none)"
    )


def moment(at: str) -> str:
    """Return an ISO 8601 time to the minute, in this machine's time zone."""
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")


def second(at: str) -> str:
    """Return an ISO 8601 time to the second, in this machine's time zone."""
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


_REMOVED = {"deleted": " (deleted)", "ignored": " (ignored by a rule)", None: ""}


def what_happened(
    action: str, renamed_to: str | None, renamed_from: str | None, reason: str | None = None
) -> str:
    """Return an action of a note's log with the other path of a renamed note: `renamed to Garden/Soil.md`.

    `reason`: why a note was removed, if the log knows it.
    """
    if action == "removed":
        action = f"removed from the index{_REMOVED[reason]}"
    ways = ((renamed_to, "to"), (renamed_from, "from"))
    return action + "".join(f" {way} {path}" for path, way in ways if path)


def as_sum(score: float, signals: Mapping[str, float]) -> str:
    """Return a score as the sum of its signals: `0.9 = meaning 0.5 + words 0.4`."""
    terms = [f"{'−' if value < 0 else '+'} {name} {_plain(abs(value))}" for name, value in signals.items()]
    return f"{_plain(score)} = {' '.join(terms).removeprefix('+ ')}" if terms else _plain(score)


def _plain(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def as_phrase(filters: Sequence[Mapping[str, Any]]) -> str:
    """Return the operators of a question in words: `tag work or kind letter, not folder Archive`."""
    words = ""
    for one in filters:
        before = "" if not words else " or " if one["alternative"] else ", "
        sign = "not " if one["negated"] else ""
        words += f"{before}{sign}{one['filter'].removeprefix('property.')} {' or '.join(one['values'])}"
    return words
