"""Record differences between disk and ledger: hash what changed, and ask the brake about what vanished."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines.brake import Brake, Looked
from pipelines.disk import vault
from pipelines.errors import NoteChangedError, NoteError, NoteVanishedError
from pipelines.model import DiffEvent, FoundFile
from pipelines.store.cache import Cache
from pipelines.store.ledger import unread_hash

# How many differences are recorded at once, so that workers can begin before a first scan ends.
_BATCH = 500


@dataclass(slots=True)
class Report:
    """The result of a comparison for one domain.

    `unchanged` counts files with the content that is known, whether or not they had to be read to see that.
    `unsettled` are files that were being written, `held` counts deletions that wait for confirmation; `complaints`
    are sentences about the whole vault: rules that are not applied, folders that cannot be read. `others` counts, by
    format, the files that could be indexed if their domain's `formats:` named it.
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
    others: dict[str, int] = field(default_factory=dict)

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
    """Records the differences of one domain in its ledger, and counts them in `report`."""

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
        """Hash and record what changed, deletions first, as far as the brake permits them.

        `moved` has the inodes and sizes of files on disk: a path that is gone while its file exists was renamed, not
        deleted. `excused` are paths that are gone for another reason.
        """
        vanished = self.cache.ledger.without_files([path for path in gone if path not in excused], moved)
        staying = set(vanished) - self._released(vanished, looked)
        late = self.record(changed, [path for path in gone if path not in staying])
        if late:
            vanished = self.cache.ledger.without_files(late, set())
            self.record([], sorted(self._released(vanished, Looked(frozenset(late)))))

    def record(self, changed: Sequence[FoundFile], gone: Sequence[str] = ()) -> list[str]:
        """Hash and record what changed, with the deletions in the first batch; return what vanished meanwhile."""
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
            self.report.unchanged += len(seen) - sum(event.kind != "deleted" for event in events)
        return late

    def _released(self, vanished: Sequence[str], looked: Looked) -> AbstractSet[str]:
        release = self.brake.release(self.slug, vanished, self.cache.ledger.known, looked)
        self.report.held = release.held
        return release.going

    def _read(self, file: FoundFile) -> tuple[FoundFile, str]:
        """Return a file's values at the time of reading, and its hash. Raises NoteVanishedError, NoteChangedError."""
        try:
            content = vault.read(self.root, file.raw, self.max_bytes)
        except (NoteVanishedError, NoteChangedError):
            raise
        except NoteError as error:
            # The worker will get the same error, and parks the note with it.
            return file, unread_hash(file, error.kind)
        # The key of a colliding name is its own form instead of the composed one, as decided by the scan.
        return replace(content.found, path=file.path), content.sha256
