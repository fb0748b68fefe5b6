"""The notes that were chosen: how much attention each has, and how to forget it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from pipelines.errors import NotFoundError
from pipelines.model import as_iso
from pipelines.state.attention import Attention, Chosen, How
from pipelines.vault import files
from workers.attention import attention_of
from workers.resources import Resources


@dataclass(frozen=True, slots=True)
class AttendedNote:
    """A note that was chosen: its attention now, when it was chosen last (UTC, ISO 8601), how often in each way."""

    path: str
    attention: float
    last: str
    times: dict[How, int]


def attended_notes(resources: Resources, now: datetime) -> list[AttendedNote]:
    """Return the notes that were chosen, those with the most attention first. Raises CacheError."""
    by_path: dict[str, list[Chosen]] = {}
    for one in resources.stores.of(Attention).choices():
        by_path.setdefault(one.path, []).append(one)
    notes = [
        AttendedNote(
            path=path,
            attention=attention_of((one.at for one in choices), now.timestamp()),
            last=as_iso(datetime.fromtimestamp(choices[0].at, UTC)),
            times=dict(Counter(one.how for one in choices)),
        )
        for path, choices in by_path.items()
    ]
    return sorted(notes, key=lambda note: (-note.attention, note.path))


def forget(resources: Resources, path: str | None = None) -> int:
    """Delete the attention of a note (None: of all notes); return how many choices were deleted.

    Raises NotFoundError where nothing is recorded of the note, StorageUnavailableError.
    """
    key = None if path is None else files.note_key(path)
    deleted = resources.stores.of(Attention).delete(key)
    if key is not None and not deleted:
        raise NotFoundError(f"no choice of {key} is recorded; `everindex attention list` names the notes")
    return deleted
