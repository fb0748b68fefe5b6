"""Compare the disk with the ledger and return the differences, for the whole vault or for the paths of an event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines.cache.cache import SqliteCache
from pipelines.cache.ledger import ScanDifference, unread_hash
from pipelines.domains import Registry
from pipelines.errors import CacheError, NoteChangedError, NoteError, NoteVanishedError
from pipelines.formats import format_of
from pipelines.indexing.deletions import AT_ONCE, Brake, CheckedPaths
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, DiffEvent, FoundFile
from pipelines.state.state import COMPARISON, ComparisonFacts, State
from pipelines.store import Cache
from pipelines.vault import files
from pipelines.vault import files as vault
from pipelines.vault.ignore import IgnoreRules
from pipelines.vault.scan import Scan, scan_vault

# Record differences between disk and ledger: hash what changed, and ask the brake about what vanished.


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
        looked: CheckedPaths,
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
            self.record([], sorted(self._released(vanished, CheckedPaths(frozenset(late)))))

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

    def _released(self, vanished: Sequence[str], looked: CheckedPaths) -> AbstractSet[str]:
        release = self.brake.release(self.slug, vanished, self.cache.ledger.known, looked)
        self.report.held = release.held
        return release.going

    def _read(self, file: FoundFile) -> tuple[FoundFile, str]:
        """Return a file's values at the time of reading, and its hash. Raises NoteVanishedError, NoteChangedError."""
        try:
            content = files.read(self.root, file.raw, self.max_bytes)
        except (NoteVanishedError, NoteChangedError):
            raise
        except NoteError as error:
            # The worker will get the same error, and parks the note with it.
            return file, unread_hash(file, error.kind)
        # The key of a colliding name is its own form instead of the composed one, as decided by the scan.
        return replace(content.found, path=file.path), content.sha256


# The files that links may mean: those on disk, and notes whose deletion is held in any domain.


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Say whether a path is in one of the folders."""
    return any(path.startswith(f"{folder}/") for folder in folders)


def note_scanned(caches: Collection[Cache], found: Scan) -> None:
    """Update the edges of all caches with the files found by a scan of the vault; notes held by the brake stay."""
    there = found.files.union(*(cache.ledger.paths_below("") for cache in caches))
    for cache in caches:
        known = set(cache.edges.paths_below(""))
        cache.edges.change_paths(there - known, known - there)


def note_looked_at(
    caches: Collection[Cache],
    files: Mapping[str, FoundFile | None],
    no_files: AbstractSet[str],
    scans: Mapping[str, Scan],
) -> None:
    """Update the edges of all caches with added and removed files of any kind; notes held by the brake stay."""
    for cache in caches:
        new: set[str] = set()
        gone = {vault.disk_key(raw) for raw in no_files}
        for raw, file in files.items():
            key = vault.disk_key(raw)
            gone.update(cache.edges.paths_below(key))
            if file is None:
                gone.update((key, vault.own_key(raw)))
            elif not vault.is_hidden(raw):
                new.add(key)
        for folder, scan in scans.items():
            new |= scan.files
            lost = set(cache.edges.paths_below(vault.disk_key(folder))) - scan.files
            gone.update(path for path in lost if not is_below(path, scan.unreadable))
        held = [one.ledger.hashes_of(gone) for one in caches] if gone else []
        cache.edges.change_paths(new, gone.difference(*held))


def file_drift(
    cache: Cache, found: Scan, siblings: Callable[[], Iterable[Path]]
) -> Iterator[tuple[str, str]]:
    """Yield the paths whose existence a cache's links assume wrongly, each with what is wrong."""
    there = found.files.union(cache.ledger.paths_below(""))
    known = set(cache.edges.paths_below(""))
    held = _held_by(siblings() if known - there else (), known - there)
    for path in sorted(known.symmetric_difference(there) - held):
        if path in known:
            yield path, "is gone from the disk, but a link to it still resolves"
        else:
            yield path, "is on disk, but a link to it does not resolve yet"


def _held_by(siblings: Iterable[Path], paths: Collection[str]) -> set[str]:
    """Return those of the paths that other domains believe to exist."""
    held: set[str] = set()
    for file in siblings:
        # An unreadable sibling is reported when it is verified itself.
        with suppress(CacheError), closing(SqliteCache.open(file)) as sibling:
            held.update(sibling.ledger.hashes_of(paths))
    return held


def rules_of(root: Path, registry: Registry) -> IgnoreRules:
    """Return the vault's ignore rules; rule files are read again, so that changes of them take effect."""
    return IgnoreRules(root, registry.generated, registry.prefixes, registry.formats_of, registry.is_undated)


def reconcile(
    root: Path,
    registry: Registry,
    caches: Mapping[str, Cache],
    *,
    max_bytes: int,
    brake: Brake = AT_ONCE,
) -> dict[str, Report]:
    """Compare the whole disk with the ledgers of `caches`, and record each difference.

    `brake` decides which of the vanished notes are forgotten. Raises VaultNotFoundError if the vault cannot be
    listed, because that does not mean that it is empty.
    """
    rules = rules_of(root, registry)
    found = scan_vault(root, rules)
    complaints = _complaints(rules, found)
    notes, ignored = _by_domain(registry, caches, found)
    moved = {(file.inode, file.size) for file in found.notes.values()}
    reports = {}
    for slug, cache in caches.items():
        cache.set_ignored(ignored[slug])
        difference = cache.ledger.compare_scan(notes[slug], suspects=found.colliding)
        report = Report(
            unchanged=difference.unchanged,
            ignored=len(ignored[slug]),
            complaints=complaints,
            others=_by_format(path for path in found.others if _owns(registry, slug, path)),
        )
        # A note that is ignored from now on has not vanished, and the contents of an unreadable folder are unknown.
        excused = [
            path for path in difference.gone if path in found.others or _is_ignored(path, found.ignored)
        ]
        missing = [path for path in difference.gone if not is_below(path, found.unreadable)]
        looked = CheckedPaths({file.path for file in notes[slug]}, whole=True)
        writer = LedgerWriter(root, slug, cache, report, max_bytes, brake, LOW_PRIORITY)
        writer.write(difference.changed, missing, looked, moved=moved, excused=frozenset(excused))
        reports[slug] = report
    note_scanned(caches.values(), found)
    return reports


def _owns(registry: Registry, slug: str, path: str) -> bool:
    owner = registry.owner(path)
    return owner is not None and owner.slug == slug


def _by_format(paths: Iterable[str]) -> dict[str, int]:
    """Count files by the name of their format."""
    return dict(Counter(form.name for path in paths if (form := format_of(path))))


def _by_domain(
    registry: Registry, slugs: Iterable[str], found: Scan
) -> tuple[dict[str, list[FoundFile]], dict[str, dict[str, str]]]:
    """Return each domain's notes, and its ignored files with the rule for each."""
    notes: dict[str, list[FoundFile]] = {slug: [] for slug in slugs}
    ignored: dict[str, dict[str, str]] = {slug: {} for slug in notes}
    for path, file in found.notes.items():
        owner = registry.owner(path)
        if owner and owner.slug in notes:
            notes[owner.slug].append(file)
    for path, rule in found.ignored.items():
        owner = registry.owner(path) or registry.domains[0]
        if owner.slug in ignored:
            ignored[owner.slug][path] = rule
    return notes, ignored


def _complaints(rules: IgnoreRules, found: Scan) -> list[str]:
    """Describe files that are not read and rules that do not apply, contrary to what a person may expect."""
    deep = [path for path, rule in found.ignored.items() if rule == rules.TOO_DEEP]
    return [
        *rules.complaints,
        *(
            f"the folder {folder!r} cannot be read: its notes stay as they were indexed; correct its permissions"
            for folder in found.unreadable
        ),
        *(f"the folder {folder!r} is {rules.TOO_DEEP}: move it up, or ignore it" for folder in deep),
    ]


def _is_ignored(path: str, ignored: Mapping[str, str]) -> bool:
    """Say whether a path is ignored, itself or because of a folder that was not read."""
    parts = path.split("/")
    return path in ignored or any("/".join(parts[:depth]) in ignored for depth in range(1, len(parts)))


def rehash(
    root: Path, slug: str, cache: Cache, after: str, count: int, *, max_bytes: int
) -> tuple[Report, str]:
    """Rehash up to `count` notes after a path, whatever `stat` says; return the differences and the last path.

    This finds edits that left size and time unchanged. The last path is `""` at the end of the ledger. Vanished files
    are left to the comparisons.
    """
    report = Report()
    paths = cache.ledger.raws_after(after, count)
    found = ((path, vault.look(root, raw)) for path, raw in paths)
    there = [replace(file, path=path) for path, file in found if file is not None]
    LedgerWriter(root, slug, cache, report, max_bytes, AT_ONCE, LOW_PRIORITY).record(there)
    return report, paths[-1][0] if paths and len(paths) == count else ""


@dataclass(frozen=True, slots=True)
class _Named:
    """Paths that may have changed: folders, files (None: gone), and paths that are not, or no longer, files."""

    folders: AbstractSet[str]
    files: Mapping[str, FoundFile | None]
    no_files: AbstractSet[str]


def check_paths(
    root: Path,
    registry: Registry,
    caches: Mapping[str, Cache],
    raws: Iterable[str],
    *,
    max_bytes: int,
    brake: Brake = AT_ONCE,
) -> dict[str, Report]:
    """Check paths that may have changed (files or folders), and record each difference."""
    rules = rules_of(root, registry)
    named = _look_at(root, raws)
    scans = {folder: scan_vault(root, rules, folder) for folder in _topmost(named.folders)}
    there = [file for file in named.files.values() if file]
    there += [file for scan in scans.values() for file in scan.notes.values()]
    moved = {(file.inode, file.size) for file in there}
    complaints = [one for scan in scans.values() for one in _complaints(rules, scan)]
    reports = {}
    for slug, cache in caches.items():
        report = reports[slug] = Report(complaints=complaints)
        changed, gone = _files_of(registry, slug, rules, cache, named.files)
        # Paths that were notes and are folders now.
        gone += [vault.disk_key(raw) for raw in named.no_files if _touches(registry, slug, raw)]
        for folder, scan in scans.items():
            difference = _folder_of(registry, slug, cache, folder, scan)
            changed += difference.changed
            gone += [path for path in difference.gone if not is_below(path, scan.unreadable)]
        looked = CheckedPaths({file.path for file in there}.union(gone))
        writer = LedgerWriter(root, slug, cache, report, max_bytes, brake, HIGH_PRIORITY)
        writer.write(changed, gone, looked, moved=moved)
    note_looked_at(caches.values(), named.files, named.no_files, scans)
    return reports


def _look_at(root: Path, raws: Iterable[str]) -> _Named:
    folders: set[str] = set()
    files: dict[str, FoundFile | None] = {}
    no_files: set[str] = set()
    for raw in raws:
        if vault.is_folder(root, raw):
            folders.add(raw)
            no_files.add(raw)
        if vault.is_note(raw) and vault.twins(root, raw):
            folders.add(raw.rpartition("/")[0])
            no_files.discard(raw)
        elif raw not in no_files:
            # If the folder may not be entered, the state is unknown until the next full comparison.
            with suppress(OSError):
                files[raw] = vault.look_closely(root, raw)
    return _Named(folders, files, no_files)


def _topmost(folders: AbstractSet[str]) -> list[str]:
    """Return the folders that are not inside any of the others."""
    found: list[str] = []
    for folder in sorted(folders, key=lambda one: one + "/"):
        if not found or (found[-1] and not folder.startswith(found[-1] + "/")):
            found.append(folder)
    return found


def _touches(registry: Registry, slug: str, raw: str) -> bool:
    """Say whether a vanished or changed path can concern a domain: its own path, or a folder that contains it."""
    key = vault.disk_key(raw)
    owner = registry.owner(key)
    domain = registry.get(slug)
    return (owner is not None and owner.slug == slug) or (
        domain is not None and f"{domain.path}/".startswith(f"{key}/")
    )


def _files_of(
    registry: Registry,
    slug: str,
    rules: IgnoreRules,
    cache: Cache,
    files: Mapping[str, FoundFile | None],
) -> tuple[list[FoundFile], list[str]]:
    """Return the files that a domain has to process: those to read, and those that are gone."""
    changed: list[FoundFile] = []
    gone: list[str] = []
    for raw, file in files.items():
        if not _touches(registry, slug, raw):
            continue
        key = vault.disk_key(raw)
        rule = None
        # It may have been a folder, whose contents no event named.
        gone += cache.ledger.paths_below(key)
        if file is None:
            gone += {key, vault.own_key(raw)}  # a name that collided has two keys
        elif vault.is_note(raw):
            rule = rules.for_file(raw)
            if rule:
                gone.append(key)
            else:
                changed.append(file)
        cache.note_ignored(key, rule if rule and rules.lists(key, rule) else None)
    return changed, gone


def _folder_of(registry: Registry, slug: str, cache: Cache, folder: str, scan: Scan) -> ScanDifference:
    """Compare a scan of a folder with the ledger of one domain."""
    for path, rule in scan.ignored.items():
        if (registry.owner(path) or registry.domains[0]).slug == slug:
            cache.note_ignored(path, rule)
    own = [file for path, file in scan.notes.items() if _owns(registry, slug, path)]
    return cache.ledger.compare_scan(own, vault.disk_key(folder), scan.colliding)


# The last comparison of the disk with the ledgers, shared between processes.


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison: its findings per domain, how long it took, and how many seconds ago it ended.

    `others`, per domain: how many files of each format could be indexed, but are not asked for.
    """

    found: dict[str, dict[str, int]]
    others: dict[str, dict[str, int]]
    took_ms: int
    age_s: float


def record_comparison(state: State, reports: Mapping[str, Report], took_ms: int) -> None:
    """Record a comparison. Raises StorageUnavailableError."""
    found = {slug: report.plain() for slug, report in reports.items()}
    others = {slug: report.others for slug, report in reports.items()}
    state.put(COMPARISON, ComparisonFacts(found, took_ms, others))


def last_comparison(state: State) -> Comparison | None:
    """Return the last comparison, or None if there was none yet."""
    fact = state.get(COMPARISON)
    if fact is None:
        return None
    return Comparison(fact.value.found, fact.value.others, fact.value.took_ms, fact.age_s)
