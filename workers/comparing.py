"""Compare disk and ledgers and record the result, for the tasks and the one-shot commands alike."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pipelines.cache.vectors import reclaim
from pipelines.indexing.deletions import WINDOW_SECONDS
from pipelines.indexing.reconcile import Report, reconcile, record_comparison
from workers.resources import Resources

_UNSEEN = "unseen"
_MOST_NAMED = 5


def compare(resources: Resources, *, settle: bool = False, confirmed: bool = False) -> dict[str, Report]:
    """Compare disk and ledgers, and record each difference.

    `settle`: deletions wait until no more notes vanish. `confirmed`: held deletions are applied.
    Raises VaultNotFoundError.
    """
    resources.require_present()
    started = time.monotonic()
    caches = resources.caches()
    reports = reconcile(
        resources.root,
        resources.registry(),
        caches,
        max_bytes=resources.settings.max_note_bytes,
        brake=resources.brake(settle=settle, confirmed=confirmed),
    )
    for domain in resources.domains():
        caches[domain.slug].drop_unused_vectors()
        reclaim(caches[domain.slug])
    _complain(resources, next(iter(reports.values())).complaints)
    resources.vanished().prune(WINDOW_SECONDS)
    record_comparison(resources.state(), reports, round((time.monotonic() - started) * 1000))
    return reports


def _complain(resources: Resources, complaints: Sequence[str]) -> None:
    """Report files that are not read and rules that do not apply, contrary to what a person may expect."""
    if not complaints:
        resources.problems().clear(_UNSEEN)
        return
    more = len(complaints) - _MOST_NAMED
    resources.problems().report(
        _UNSEEN,
        "",
        "; ".join(complaints[:_MOST_NAMED]) + (f"; and {more} more like these" if more > 0 else ""),
    )
