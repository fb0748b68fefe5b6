"""Differences between disk and ledger -> the ledger: hash what changed, and ask the brake about what vanished."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines import vault
from pipelines.brake import Brake, Looked
from pipelines.errors import NoteChangedError, NoteError, NoteVanishedError
from pipelines.model import DiffEvent, FoundFile
from pipelines.store.cache import Cache
from pipelines.store.ledger import unread_hash

# So many differences are written at once: the workers can begin before a first scan ends.
_BATCH = 500


@dataclass(slots=True)
class Report:
    """What a comparison found in one domain.

    `unsettled` are files that were being written, `held` deletions that wait for a confirmation; `complaints` are
    sentences about the whole vault: rules that do not count, folders that cannot be seen.
    """

    new: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    ignored: int = 0
    held: int = 0
    unsettled: list[str] = field(default_factory=list)
    events: list[DiffEvent] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def count(self, events: Sequence[DiffEvent]) -> None:
        """Add events to the counts."""
        self.events.extend(events)
        self.new += sum(e.kind == "created" for e in events)
        self.updated += sum(e.kind == "modified" for e in events)
        self.removed += sum(e.kind == "deleted" for e in events)

    def plain(self) -> dict[str, int]:
        """Return the counts, for JSON."""
        return {
            "new": self.new,
            "updated": self.updated,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "ignored": self.ignored,
            "held": self.held,
        }


@dataclass(frozen=True, slots=True)
class LedgerWriter:
    """Writes the differences of one domain to its ledger, and counts them in `report`."""

    root: Path
    slug: str
    cache: Cache
    report: Report
    max_bytes: int
    brake: Brake
    priority: int

    def write(
        self,
        changed: Sequence[FoundFile],
        gone: Sequence[str],
        looked: Looked,
        *,
        moved: AbstractSet[tuple[int, int]],
        excused: AbstractSet[str] = frozenset(),
    ) -> None:
        """Hash what changed and record it, deletions first, as far as the brake lets them go.

        `moved` are the inodes and sizes of files that are on disk: a path that is gone while its file is not was
        renamed, and no deletion. `excused` are gone for another reason than that they vanished.
        """
        vanished = self.cache.ledger.without_files([path for path in gone if path not in excused], moved)
        staying = set(vanished) - self._released(vanished, looked)
        late = self.record(changed, [path for path in gone if path not in staying])
        if late:
            vanished = self.cache.ledger.without_files(late, set())
            self.record([], sorted(self._released(vanished, Looked(frozenset(late)))))

    def record(self, changed: Sequence[FoundFile], gone: Sequence[str] = ()) -> list[str]:
        """Hash what changed and record it, and what is gone with the first of it; return what vanished meanwhile."""
        late: list[str] = []
        for start in range(0, max(1, len(changed)), _BATCH):
            seen: list[tuple[FoundFile, str]] = []
            for file in changed[start : start + _BATCH]:
                try:
                    seen.append(self._read(file))
                except NoteVanishedError:
                    late.append(file.path)
                except NoteChangedError:
                    self.report.unsettled.append(file.raw)
            events = self.cache.ledger.record(self.slug, seen, () if start else gone, priority=self.priority)
            self.report.count(events)
        return late

    def _released(self, vanished: Sequence[str], looked: Looked) -> AbstractSet[str]:
        release = self.brake.release(self.slug, vanished, self.cache.ledger.known, looked)
        self.report.held = release.held
        return release.going

    def _read(self, file: FoundFile) -> tuple[FoundFile, str]:
        """Return a file as it was when it was read, with its hash. Raises NoteVanishedError, NoteChangedError."""
        try:
            content = vault.read(self.root, file.raw, self.max_bytes)
        except (NoteVanishedError, NoteChangedError):
            raise
        except NoteError as error:
            # The worker meets the same error, and parks the note with it.
            return file, unread_hash(file, error.kind)
        # A colliding name's key is its own form, not the composed one: the scan decides.
        return replace(content.found, path=file.path), content.sha256
