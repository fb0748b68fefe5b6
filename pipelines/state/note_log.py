"""The log by note in `state.db`: what happened to each note, kept for as long as the job history."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from pipelines.model import Place, as_iso
from pipelines.sqlite import Connection, first, one, records, select, transaction
from pipelines.state.jobs import prune, storable
from pipelines.state.state import open_state

NoteAction = Literal["indexed", "embedded", "re-embedded", "renamed", "removed", "parked"]
RemovalReason = Literal["deleted", "ignored"]
KEPT_PER_NOTE = 100
"""How many entries a note keeps, so that one that is saved all the time does not push out the others'."""

_LONGEST_ERROR = 400
# A renamed file is a removal and a new note, in either order, that workers record at most this far apart.
_RENAME_SECONDS = 600
_COLUMNS = (
    "at, domain, action, passages, texts_embedded, vectors_pending, ms, model, pipeline,"
    " CASE WHEN action <> 'removed' THEN error END AS error, other_path,"
    " CASE WHEN action = 'removed' THEN error END AS reason"
)


@dataclass(frozen=True, slots=True)
class NoteEvent:
    """What a worker did to one note. `ms`: the time that it took, of work for several notes this note's share.

    `passages` is None where it was not counted. `texts_embedded` counts the texts that were embedded now; the other
    passages' vectors were known, or are pending (`vectors_pending`). `file_key` recognises a renamed file.
    `reason`: why a note was removed, None where that is not known.
    """

    path: str
    action: Literal["indexed", "embedded", "removed", "parked"]
    ms: float
    passages: int | None = None
    texts_embedded: int = 0
    vectors_pending: bool = False
    error: str | None = None
    file_key: int | None = None
    reason: RemovalReason | None = None


@dataclass(frozen=True, slots=True)
class NoteEntry:
    """An entry of a note's log; `at` is UTC, ISO 8601.

    `other_path`: the path that a renamed note got, or had before. `reason`: why a note was removed, None
    where that is not known, as in entries of earlier versions.
    """

    at: str
    domain: str
    action: NoteAction
    passages: int | None
    texts_embedded: int
    vectors_pending: bool
    ms: float
    model: str
    pipeline: str
    error: str | None
    other_path: str | None
    reason: RemovalReason | None = None


@dataclass(frozen=True, slots=True)
class WorkedOn:
    """How many entries of a domain's log say that a note was indexed or embedded, and how many that it was parked.

    `embedding_s`: the mean time of those that embedded texts, in seconds; None without any.
    """

    domain: str
    done: int
    parked: int
    embedding_s: float | None


def followed(renamed: Mapping[str, str], path: str, is_there: Callable[[str], bool]) -> str:
    """Return where a renamed note is now, through all of its names; `renamed` is that of `NoteLog`."""
    seen, now = {path}, renamed[path]
    while now in renamed and now not in seen and not is_there(now):
        seen.add(now)
        now = renamed[now]
    return now


def file_key(sha: str, inode: int) -> int:
    """Return a number that only the same file with the same bytes has, whatever its name."""
    digest = hashlib.blake2b(f"{sha}:{inode}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


class NoteLog:
    """A connection to the log by note in a vault's `state.db`."""

    def __init__(self, place: Place, wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._con = open_state(place)
        self._clock = wall_clock

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    # Writing

    def add(self, domain: str, model: str, pipeline: str, events: Sequence[NoteEvent]) -> None:
        """Record what a worker did, in one transaction. Raises StorageUnavailableError."""
        now = self._clock()
        since = as_iso(now - timedelta(seconds=_RENAME_SECONDS))
        with transaction(self._con):
            for event in events:
                number = self._insert(as_iso(now), domain, model, pipeline, event)
                if event.action == "removed":
                    # The reason for which a note was parked may quote the note.
                    self._con.execute(
                        "UPDATE note_log SET error = NULL WHERE path = ? AND error IS NOT NULL"
                        " AND action <> 'removed'",
                        (event.path,),
                    )
                if event.file_key is not None:
                    _join_renamed(self._con, number, event, since)
                self._con.execute(
                    "DELETE FROM note_log WHERE path = ?1 AND id <= (SELECT id FROM note_log WHERE path = ?1"
                    " ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                    (event.path, KEPT_PER_NOTE),
                )

    def _insert(self, at: str, domain: str, model: str, pipeline: str, event: NoteEvent) -> int:
        action: NoteAction = event.action
        # A removal has no error, so its reason needs no column that files of earlier versions lack.
        error = event.reason if action == "removed" else event.error
        if action == "embedded" and self._was_embedded_otherwise(event.path, model, pipeline):
            action = "re-embedded"
        (number,) = one(
            self._con,
            "INSERT INTO note_log (at, domain, path, action, passages, texts_embedded, vectors_pending, ms, model,"
            " pipeline, error, file_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                *(at, domain, event.path, action, event.passages, event.texts_embedded),
                *(int(event.vectors_pending), round(event.ms, 1), model, pipeline),
                *(storable(error)[:_LONGEST_ERROR] if error else None, event.file_key),
            ),
        )
        return int(number)

    def _was_embedded_otherwise(self, path: str, model: str, pipeline: str) -> bool:
        """Say whether the vectors that a note had before were of another model or pipeline."""
        before = first(
            self._con,
            "SELECT model, pipeline FROM note_log WHERE path = ? AND vectors_pending = 0"
            " AND action IN ('indexed', 'renamed', 'embedded', 're-embedded') ORDER BY id DESC LIMIT 1",
            (path,),
        )
        return before is not None and before != (model, pipeline)

    def prune(self, days: float, most: int) -> int:
        """Delete the entries older than `days`, and all but the newest `most`; return how many.

        Raises StorageUnavailableError.
        """
        oldest = as_iso(self._clock() - timedelta(days=days))
        return prune(self._con, "note_log", "at", oldest=oldest, most=most)

    # Reading

    def of_note(self, path: str, limit: int) -> list[NoteEntry]:
        """Return the latest entries of a path, newest first."""
        found = records(
            self._con,
            NoteEntry,
            f"SELECT {_COLUMNS} FROM note_log WHERE path = ? ORDER BY id DESC LIMIT ?",
            (path, limit),
        )
        return [replace(entry, vectors_pending=bool(entry.vectors_pending)) for entry in found]

    def worked_on(self, since: str) -> list[WorkedOn]:
        """Return what was done in each domain since a time (UTC, ISO 8601)."""
        return records(
            self._con,
            WorkedOn,
            "SELECT domain, count(*) FILTER (WHERE action IN ('indexed', 'embedded', 're-embedded')) AS done,"
            " count(*) FILTER (WHERE action = 'parked') AS parked,"
            " avg(ms) FILTER (WHERE texts_embedded > 0) / 1000 AS embedding_s"
            " FROM note_log WHERE at >= ? GROUP BY domain ORDER BY domain",
            (since,),
        )

    def renamed(self) -> dict[str, str]:
        """Return the new path of each renamed note by its old one, as far as the log reaches."""
        found = select(
            self._con,
            "SELECT path, other_path FROM note_log WHERE action = 'renamed' AND passages IS NULL ORDER BY id",
        )
        return dict(found)

    def appeared_as_it_went(self, path: str, since: str) -> list[str]:
        """Return the paths at which a note appeared within ten minutes of when a note went, the last time `since`."""
        went = first(
            self._con,
            "SELECT at FROM note_log WHERE path = ? AND at >= ? AND action IN ('removed', 'renamed')"
            " AND passages IS NULL ORDER BY id DESC LIMIT 1",
            (path, since),
        )
        if went is None:
            return []
        at, apart = datetime.fromisoformat(went[0]), timedelta(seconds=_RENAME_SECONDS)
        found = select(
            self._con,
            "SELECT DISTINCT path FROM note_log AS came WHERE action IN ('indexed', 'renamed')"
            " AND passages IS NOT NULL AND at BETWEEN max(?, ?) AND ? AND path <> ?"
            # It appeared: there was no note at this path just before.
            " AND coalesce((SELECT passages IS NULL AND action IN ('removed', 'renamed') FROM note_log AS before"
            "  WHERE before.path = came.path AND before.id < came.id ORDER BY id DESC LIMIT 1), true)",
            (as_iso(at - apart), since, as_iso(at + apart), path),
        )
        return [found_path for (found_path,) in found]


def _join_renamed(con: Connection, number: int, event: NoteEvent, since: str) -> None:
    """Mark a removal and a new note as renamed if they are of the same file (inside the caller's transaction)."""
    other = first(
        con,
        "SELECT id, path FROM note_log WHERE file_key = :key AND path <> :path AND at >= :since AND action = :wanted"
        # An earlier name of the file is not its new one.
        " AND (:wanted = 'removed' OR id > (SELECT max(id) FROM note_log WHERE path = :path"
        "  AND action IN ('indexed', 'renamed') AND file_key IS NOT NULL AND id < :number))"
        " ORDER BY id DESC LIMIT 1",
        {
            "key": event.file_key,
            "path": event.path,
            "since": since,
            "wanted": "indexed" if event.action == "removed" else "removed",
            "number": number,
        },
    )
    if other:
        other_number, other_path = other
        con.executemany(
            "UPDATE note_log SET action = 'renamed', other_path = ?, error = NULL WHERE id = ?",
            ((other_path, number), (event.path, other_number)),
        )
