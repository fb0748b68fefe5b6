"""The daily cost of paid proposals."""

from __future__ import annotations

import apsw

from pipelines.store.connection import one, transaction


class Spending:
    """The spend of each day (UTC), on the connection of `Proposals`."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

    def add(self, day: str, proposer: str, dollars: float) -> None:
        """Add one note to a day's spend."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO tag_spend VALUES (?1, ?2, 1, ?3)"
                " ON CONFLICT DO UPDATE SET notes = notes + 1, dollars = dollars + ?3",
                (day, proposer, dollars),
            )

    def of_day(self, day: str) -> tuple[int, float]:
        """Return for how many notes a day's paid proposals were, and their cost in dollars."""
        notes, dollars = one(
            self._con,
            "SELECT coalesce(sum(notes), 0), coalesce(sum(dollars), 0) FROM tag_spend WHERE day = ?",
            (day,),
        )
        return int(notes), float(dollars)
