"""Disk against ledger -> diff events: for the whole vault, or for the paths that an event named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines import vault
from pipelines.domains import Registry
from pipelines.errors import NoteChangedError, NoteError, NoteVanishedError
from pipelines.ignore import IgnoreRules
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, DiffEvent, FoundFile
from pipelines.store.cache import Cache
from pipelines.store.ledger import Difference, unread_hash

MayDelete = Callable[[str, Sequence[str]], bool]
"""A policy: may these vanished notes of this domain be forgotten although they are a mass?"""


def hold_every_mass(_: str, __: Sequence[str]) -> bool:
    """Hold every mass deletion."""
    return False


# A fifth of the notes, and at least twenty: an unmounted folder, a sync gone wrong.
_MASS_AT_LEAST = 20
_MASS_SHARE = 0.2

# So many differences are written at once: the workers can begin before a first scan ends.
_BATCH = 500


@dataclass(slots=True)
class Report:
    """What a comparison found in one domain.

    `unsettled` are files that were being written, `held` deletions that wait for somebody's word.
    """

    new: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    ignored: int = 0
    held: int = 0
    unsettled: list[str] = field(default_factory=list)
    events: list[DiffEvent] = field(default_factory=list)

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


def rules_of(root: Path, registry: Registry) -> IgnoreRules:
    """Return the vault's ignore rules; rule files are read anew, so a change of them counts."""
    return IgnoreRules(root, registry.generated, registry.prefixes)


def is_mass_deletion(vanished: int, known: Callable[[], int]) -> bool:
    """Say whether so many notes of a domain vanished at once that it is more likely an accident.

    `known` counts every row: it is asked only where many vanished, for this is on the way of each save.
    """
    return vanished >= _MASS_AT_LEAST and vanished > _MASS_SHARE * known()


def reconcile(
    root: Path,
    registry: Registry,
    caches: Mapping[str, Cache],
    *,
    max_bytes: int,
    may_delete: MayDelete = hold_every_mass,
) -> dict[str, Report]:
    """Compare the whole disk with the ledgers of `caches` and write down each difference.

    Where a mass of notes vanished, `may_delete` decides. Raises VaultNotFoundError: a vault that cannot be
    listed is not an empty one.
    """
    found = vault.scan(root, rules_of(root, registry))
    notes: dict[str, list[FoundFile]] = {slug: [] for slug in caches}
    ignored: dict[str, dict[str, str]] = {slug: {} for slug in caches}
    for path, file in found.notes.items():
        owner = registry.owner(path)
        if owner and owner.slug in notes:
            notes[owner.slug].append(file)
    for path, rule in found.ignored.items():
        owner = registry.owner(path) or registry.domains[0]
        if owner.slug in ignored:
            ignored[owner.slug][path] = rule
    moved = {(file.inode, file.size) for file in found.notes.values()}
    reports = {}
    for slug, cache in caches.items():
        cache.set_ignored(ignored[slug])
        difference = cache.ledger.diff(notes[slug], suspects=found.colliding)
        report = Report(unchanged=difference.unchanged, ignored=len(ignored[slug]))
        # A note that is ignored from now on has not vanished, and nobody knows what is in an unreadable folder.
        excused = [path for path in difference.gone if path in ignored[slug]]
        missing = [path for path in difference.gone if not _is_below(path, found.unreadable)]
        _write_down(
            root, slug, cache, difference.changed, missing, report,
            priority=LOW_PRIORITY, max_bytes=max_bytes, moved=moved, may_delete=may_delete,
            excused=frozenset(excused),
        )  # fmt: skip
        # What is held, or cannot be seen, is believed to be there.
        cache.edges.set_paths(found.files.union(cache.ledger.paths_below("")))
        reports[slug] = report
    return reports


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _write_down(
    root: Path,
    slug: str,
    cache: Cache,
    changed: Sequence[FoundFile],
    gone: Sequence[str],
    report: Report,
    *,
    priority: int,
    max_bytes: int,
    moved: AbstractSet[tuple[int, int]],
    may_delete: MayDelete,
    excused: AbstractSet[str] = frozenset(),
) -> None:
    """Hash what changed and record it, deletions first; hold a mass of them unless they may go.

    `moved` are the inodes and sizes of files that are on disk: a path that is gone while its file is not was
    renamed, and no deletion. `excused` are gone for another reason than that they vanished.
    """
    vanished = cache.ledger.without_files([path for path in gone if path not in excused], moved)
    if is_mass_deletion(len(vanished), cache.ledger.known) and not may_delete(slug, vanished):
        report.held = len(vanished)
        held = set(vanished)
        gone = [path for path in gone if path not in held]
    going = list(gone)
    for start in range(0, max(1, len(changed)), _BATCH):
        seen: list[tuple[FoundFile, str]] = []
        for file in changed[start : start + _BATCH]:
            _hash(root, file, max_bytes, seen, going, report.unsettled)
        report.count(cache.ledger.record(slug, seen, going, priority=priority))
        going = []


def rehash(
    root: Path, slug: str, cache: Cache, after: str, count: int, *, max_bytes: int
) -> tuple[Report, str]:
    """Read up to `count` notes after a path anew, whatever `stat` says; return what differed and the last path.

    It finds edits that left size and time as they were. The last path is `""` at the end of the ledger.
    """
    report = Report()
    seen: list[tuple[FoundFile, str]] = []
    gone: list[str] = []
    paths = cache.ledger.raws_after(after, count)
    for path, raw in paths:
        file = vault.look(root, raw)
        if file is not None:
            _hash(root, replace(file, path=path), max_bytes, seen, gone, report.unsettled)
    report.count(cache.ledger.record(slug, seen, gone, priority=LOW_PRIORITY))
    return report, paths[-1][0] if paths and len(paths) == count else ""


def _hash(
    root: Path,
    file: FoundFile,
    max_bytes: int,
    seen: list[tuple[FoundFile, str]],
    gone: list[str],
    unsettled: list[str],
) -> None:
    """Read one file and put it where it belongs: seen (with its hash), gone, or unsettled."""
    try:
        content = vault.read(root, file.raw, max_bytes)
    except NoteVanishedError:
        gone.append(file.path)
    except NoteChangedError:
        unsettled.append(file.raw)
    except NoteError as error:
        # The worker meets the same error, and parks the note with it.
        seen.append((file, unread_hash(file, error.kind)))
    else:
        # A colliding name's key is its own form, not the composed one: the scan decides.
        seen.append((FoundFile(file.path, *_stat(content.found)), content.sha256))


def _stat(found: FoundFile) -> tuple[str, int, int, int]:
    return found.raw, found.size, found.mtime_ns, found.inode


def check_paths(
    root: Path,
    registry: Registry,
    caches: Mapping[str, Cache],
    raws: Iterable[str],
    *,
    max_bytes: int,
    may_delete: MayDelete = hold_every_mass,
) -> dict[str, Report]:
    """Look at paths that may have changed (files or folders), and write down each difference."""
    rules = rules_of(root, registry)
    folders: set[str] = set()
    files: dict[str, FoundFile | None] = {}
    for raw in raws:
        if _is_folder(root / raw):
            folders.add(raw)
        elif vault.is_note(raw) and vault.twins(root, raw):
            folders.add(raw.rpartition("/")[0])
        else:
            files[raw] = vault.look(root, raw)
    scans = {folder: vault.scan(root, rules, folder) for folder in folders if (root / folder).is_dir()}
    moved = {(f.inode, f.size) for scan in scans.values() for f in scan.notes.values()}
    moved |= {(f.inode, f.size) for f in files.values() if f}
    reports = {}
    for slug, cache in caches.items():
        report = reports[slug] = Report()
        changed, gone = _files_of(registry, slug, rules, cache, files)
        for folder, scan in scans.items():
            difference = _folder_of(registry, slug, cache, folder, scan)
            changed += difference.changed
            gone += difference.gone
        _write_down(
            root, slug, cache, changed, gone, report,
            priority=HIGH_PRIORITY, max_bytes=max_bytes, moved=moved, may_delete=may_delete,
        )  # fmt: skip
        _note_files(cache, files, scans)
    return reports


def _note_files(cache: Cache, files: Mapping[str, FoundFile | None], scans: Mapping[str, vault.Scan]) -> None:
    """Tell the edges which files came and went, whatever their kind; what is held is believed to be there."""
    new: set[str] = set()
    gone: set[str] = set()
    for raw, file in files.items():
        key = vault.note_key(raw)
        if file is None:
            gone.update((key, vault.own_key(raw), *cache.edges.paths_below(key)))
        elif not vault.is_hidden(raw):
            new.add(key)
    for folder, scan in scans.items():
        new |= scan.files
        gone.update(set(cache.edges.paths_below(vault.note_key(folder))) - scan.files)
    cache.edges.change_paths(new, gone - cache.ledger.existing(gone))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _touches(registry: Registry, slug: str, raw: str) -> bool:
    """Say whether a vanished or changed path can concern a domain: its own, or a folder that holds some of it."""
    key = vault.note_key(raw)
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
    """Return those of the files that a domain must look at: to be read, and gone."""
    changed: list[FoundFile] = []
    gone: list[str] = []
    for raw, file in files.items():
        if not _touches(registry, slug, raw):
            continue
        key = vault.note_key(raw)
        rule = None
        if file is None:
            # It may have been a folder: then no event named what was in it; or a name that collided.
            gone += [key, *({vault.own_key(raw)} - {key}), *cache.ledger.paths_below(key)]
        elif vault.is_note(raw):
            rule = rules.for_file(raw)
            if rule:
                gone.append(key)
            else:
                changed.append(file)
        cache.note_ignored(key, rule)
    return changed, gone


def _folder_of(registry: Registry, slug: str, cache: Cache, folder: str, scan: vault.Scan) -> Difference:
    """Compare what a scan of a folder found of one domain with its ledger."""
    for path, rule in scan.ignored.items():
        if (registry.owner(path) or registry.domains[0]).slug == slug:
            cache.note_ignored(path, rule)
    own = [file for path, file in scan.notes.items() if (o := registry.owner(path)) and o.slug == slug]
    return cache.ledger.diff(own, vault.note_key(folder), scan.colliding)
