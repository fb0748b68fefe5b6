"""The last comparison of the disk with the ledgers, shared between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.indexing.ledger_writer import Report
from pipelines.store.facts import COMPARISON, Compared
from pipelines.store.state import State


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison: its findings per domain, how long it took, and how many seconds ago it ended.

    `others`, per domain: how many files of each format could be indexed, but are not asked for.
    """

    found: dict[str, dict[str, int]]
    others: dict[str, dict[str, int]]
    took_ms: int
    age_s: float


def record_comparison(state: State, reports: Mapping[str, Report], took_ms: int) -> None:
    """Record a comparison. Raises StorageUnavailableError."""
    found = {slug: report.plain() for slug, report in reports.items()}
    others = {slug: report.others for slug, report in reports.items()}
    state.put(COMPARISON, Compared(found, took_ms, others))


def last_comparison(state: State) -> Comparison | None:
    """Return the last comparison, or None if there was none yet."""
    fact = state.get(COMPARISON)
    if fact is None:
        return None
    return Comparison(fact.value.found, fact.value.others, fact.value.took_ms, fact.age_s)
