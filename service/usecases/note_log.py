"""What happened to a note, newest first."""

from __future__ import annotations

from dataclasses import asdict

from pipelines.errors import NO_NOTE
from pipelines.state.note_log import NoteEntry, NoteLog
from pipelines.vault import files
from service.usecases.schemas.notes import LogEntry, NoteLogAnswer
from service.usecases.search import SearchService

MOST_ENTRIES = 1_000


def log_of_note(questions: SearchService, path: str, limit: int) -> NoteLogAnswer:
    """Return the latest entries of a note's log, also of a note that is gone.

    Raises NoteNotFoundError for a path that has no entry and is not in the ledger.
    """
    path = files.note_key(path)
    entries = log_entries(questions, path, limit)
    if not entries:
        known = questions.why(path)
        if known["state"] in NO_NOTE or known["path"] != path:
            raise questions.no_such_note(path)
    return NoteLogAnswer(path=path, entries=entries)


def log_entries(questions: SearchService, path: str, limit: int) -> list[LogEntry]:
    """Return the latest entries of the log of a path; none if it has no log."""
    found = questions.resources.stores.of(NoteLog).of_note(path, limit)
    return [_shown(entry) for entry in found]


def _shown(entry: NoteEntry) -> LogEntry:
    said = asdict(entry)
    other = said.pop("other_path")
    # Only the half of a rename that is the removal has counted no passages.
    was_removed = entry.passages is None
    return LogEntry(
        **said, renamed_to=other if was_removed else None, renamed_from=None if was_removed else other
    )
