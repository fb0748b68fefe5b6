"""The pages of the review queue that were shown to the operator, so that ticks on them can be interpreted."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from pipelines.store.connection import row as first
from pipelines.store.connection import transaction

_PAGES_KEPT = 500


class ReviewPages:
    """The shown pages, on the connection of `Proposals`."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

    def show(self, page: str, domain: str, shown: Sequence[tuple[int, str]], at: str) -> None:
        """Record which proposals (id, path then) a page is about to show; the oldest pages are deleted."""
        with transaction(self._con):
            self._con.execute(
                "INSERT OR REPLACE INTO review_page VALUES (?, ?, ?, ?)",
                (page, domain, json.dumps(shown), at),
            )
            self._con.execute(
                "DELETE FROM review_page WHERE domain = ?1 AND page NOT IN"
                " (SELECT page FROM review_page WHERE domain = ?1 ORDER BY written_at DESC, page LIMIT ?2)",
                (domain, _PAGES_KEPT),
            )

    def shown(self, page: str, domain: str) -> list[tuple[int, str]] | None:
        """Return the proposals (id, path then) that a page showed, in order; None for an unknown page."""
        found = first(
            self._con, "SELECT shown FROM review_page WHERE page = ? AND domain = ?", (page, domain)
        )
        return None if found is None else [(number, path) for number, path in json.loads(found[0])]
