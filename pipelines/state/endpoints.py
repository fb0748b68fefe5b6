"""What endpoints embedded each day, in `state.db`: requests, failures, texts, tokens and their cost."""

from __future__ import annotations

from dataclasses import asdict

from pipelines.model import EndpointUse, Place
from pipelines.sqlite import one, select, transaction
from pipelines.state.state import open_state


class EndpointUses:
    """A connection to the use of endpoints in a vault's `state.db`. Days are UTC, `2026-11-27`."""

    def __init__(self, place: Place) -> None:
        self._con = open_state(place)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def add(self, day: str, use: EndpointUse) -> None:
        """Add to what an endpoint did on a day. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO endpoint_use VALUES"
                " (:day, :endpoint, :requests, :failures, :texts, :tokens, :dollars)"
                " ON CONFLICT (day, endpoint) DO UPDATE SET requests = endpoint_use.requests + :requests,"
                " failures = endpoint_use.failures + :failures, texts = endpoint_use.texts + :texts,"
                " tokens = endpoint_use.tokens + :tokens, dollars = endpoint_use.dollars + :dollars",
                {"day": day} | asdict(use),
            )

    def of_day(self, day: str) -> dict[str, EndpointUse]:
        """Return what each endpoint did on a day, by its name. Raises CacheError."""
        found = select(
            self._con,
            "SELECT endpoint, requests, failures, texts, tokens, dollars FROM endpoint_use WHERE day = ?",
            (day,),
        )
        return {name: EndpointUse(name, *rest) for name, *rest in found}

    def dollars(self, day: str) -> float:
        """Return what a day cost in US dollars. Raises CacheError."""
        (dollars,) = one(
            self._con, "SELECT coalesce(sum(dollars), 0) FROM endpoint_use WHERE day = ?", (day,)
        )
        return float(dollars)
