"""The notes that were chosen, in `state.db`: when and how. It never leaves the machine."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import apsw

from pipelines.model import Place
from pipelines.sqlite import empty_journal, records, select, transaction
from pipelines.state.state import open_state

How = Literal["opened", "read", "cited", "promoted"]
"""A person opened it, an agent read it, a result cited it, or an accepted tag was written into it."""

WINDOW_S = 30 * 60.0
"""Several choices of a note within this many seconds count as one, unless its domain says otherwise."""

KEPT_S = 70 * 24 * 3600.0
"""Choices that are older count less than a thousandth, and are deleted."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice of a note; `at` is in seconds since 1970."""

    path: str
    at: float
    how: How


class Attention:
    """A connection to the choices in a vault's `state.db`.

    What is deleted is overwritten, in the log as well unless another connection is reading at that moment.
    """

    def __init__(self, place: Place) -> None:
        self._con = open_state(place)
        if isinstance(self._con, apsw.Connection):
            select(self._con, "PRAGMA secure_delete = ON")

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def add(self, paths: Collection[str], how: How, at: float, window: float = WINDOW_S) -> None:
        """Record that notes were chosen, unless they were within `window` of it. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM attention WHERE at < ?", (at - KEPT_S,))
            self._con.executemany(
                "INSERT INTO attention SELECT :path, :at, :how, NULL WHERE NOT EXISTS"
                " (SELECT 1 FROM attention WHERE path = :path AND abs(at - :at) < :window)",
                ({"path": path, "at": at, "how": how, "window": window} for path in paths),
            )

    def choices(self) -> list[Chosen]:
        """Return all choices, newest first."""
        return records(self._con, Chosen, "SELECT path, at, how FROM attention ORDER BY at DESC, path")

    def moments(self, paths: Collection[str], until: float) -> dict[str, list[float]]:
        """Return when each of the notes was chosen, up to a moment; a note that was not chosen is left out."""
        found = select(
            self._con,
            "SELECT path, at FROM attention WHERE path IN (SELECT value FROM json_each(?)) AND at <= ?",
            (json.dumps(list(paths)), until),
        )
        moments: dict[str, list[float]] = {}
        for path, at in found:
            moments.setdefault(path, []).append(at)
        return moments

    def delete(self, path: str | None = None) -> int:
        """Delete the choices of a note (None: of all notes); return their number. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM attention WHERE ?1 IS NULL OR path = ?1", (path,))
            deleted = self._con.changes()
        if isinstance(self._con, apsw.Connection):
            empty_journal(self._con)
        return deleted

    # Following the notes

    def hashes(self) -> dict[str, str | None]:
        """Return the chosen notes, each with the hash of its bytes as far as that is known."""
        return dict(select(self._con, "SELECT path, max(note_hash) FROM attention GROUP BY path"))

    def keep_hashes(self, hashes: Mapping[str, str]) -> None:
        """Store the hashes of notes' bytes. Raises StorageUnavailableError."""
        if hashes:
            with transaction(self._con):
                self._con.executemany(
                    "UPDATE attention SET note_hash = ?2 WHERE path = ?1", tuple(hashes.items())
                )

    def move(self, old: str, new: str) -> None:
        """Give a renamed note's choices to its new path. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "DELETE FROM attention WHERE path = ?2 AND at IN (SELECT at FROM attention WHERE path = ?1)",
                (old, new),
            )
            self._con.execute("UPDATE attention SET path = ?2 WHERE path = ?1", (old, new))
