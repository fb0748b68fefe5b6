"""Disk against ledger -> diff events: for the whole vault, or for the paths that an event named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines import vault
from pipelines.brake import AT_ONCE, Brake, Looked
from pipelines.domains import Registry
from pipelines.errors import NoteChangedError, NoteError, NoteVanishedError
from pipelines.ignore import IgnoreRules
from pipelines.known_files import is_below, note_looked_at, note_scanned
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, DiffEvent, FoundFile
from pipelines.store.cache import Cache
from pipelines.store.ledger import Difference, unread_hash

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


def rules_of(root: Path, registry: Registry) -> IgnoreRules:
    """Return the vault's ignore rules; rule files are read anew, so a change of them counts."""
    return IgnoreRules(root, registry.generated, registry.prefixes)


def reconcile(
    root: Path,
    registry: Registry,
    caches: Mapping[str, Cache],
    *,
    max_bytes: int,
    brake: Brake = AT_ONCE,
) -> dict[str, Report]:
    """Compare the whole disk with the ledgers of `caches` and write down each difference.

    `brake` decides which of the vanished notes are forgotten. Raises VaultNotFoundError: a vault that cannot be
    listed is not an empty one.
    """
    rules = rules_of(root, registry)
    found = vault.scan(root, rules)
    complaints = _complaints(rules, found)
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
        report = Report(unchanged=difference.unchanged, ignored=len(ignored[slug]), complaints=complaints)
        # A note that is ignored from now on has not vanished, and nobody knows what is in an unreadable folder.
        excused = [path for path in difference.gone if _is_ignored(path, found.ignored)]
        missing = [path for path in difference.gone if not is_below(path, found.unreadable)]
        _write_down(
            root, slug, cache, difference.changed, missing, report,
            priority=LOW_PRIORITY, max_bytes=max_bytes, moved=moved, brake=brake,
            looked=Looked({file.path for file in notes[slug]}, whole=True), excused=frozenset(excused),
        )  # fmt: skip
        reports[slug] = report
    note_scanned(caches.values(), found)
    return reports


def _complaints(rules: IgnoreRules, found: vault.Scan) -> list[str]:
    """Say what of a vault is not seen, or not ruled, although somebody may think so."""
    deep = [path for path, rule in found.ignored.items() if rule == rules.TOO_DEEP]
    return [
        *rules.complaints,
        *(
            f"the folder {folder!r} cannot be read: its notes stay as they were indexed; correct its permissions"
            for folder in found.unreadable
        ),
        *(f"the folder {folder!r} lies {rules.TOO_DEEP}: move it up, or ignore it" for folder in deep),
    ]


def _is_ignored(path: str, ignored: Mapping[str, str]) -> bool:
    """Say whether a path is ignored itself, or lies in a folder that is and was not looked into."""
    parts = path.split("/")
    return path in ignored or any("/".join(parts[:depth]) in ignored for depth in range(1, len(parts)))


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
    brake: Brake,
    looked: Looked,
    excused: AbstractSet[str] = frozenset(),
) -> None:
    """Hash what changed and record it, deletions first, as far as the brake lets them go.

    `moved` are the inodes and sizes of files that are on disk: a path that is gone while its file is not was
    renamed, and no deletion. `excused` are gone for another
    reason than that they vanished.
    """
    vanished = cache.ledger.without_files([path for path in gone if path not in excused], moved)
    release = brake.release(slug, vanished, cache.ledger.known, looked)
    report.held = release.held
    staying = set(vanished) - release.going
    going = [path for path in gone if path not in staying]
    late: list[str] = []
    for start in range(0, max(1, len(changed)), _BATCH):
        seen: list[tuple[FoundFile, str]] = []
        for file in changed[start : start + _BATCH]:
            _hash(root, file, max_bytes, seen, late, report.unsettled)
        report.count(cache.ledger.record(slug, seen, going, priority=priority))
        going = []
    if late:  # they vanished while the others were read
        vanished = cache.ledger.without_files(late, set())
        release = brake.release(slug, vanished, cache.ledger.known, Looked(frozenset(late)))
        report.held = release.held
        report.count(cache.ledger.record(slug, [], sorted(release.going), priority=priority))


def rehash(
    root: Path, slug: str, cache: Cache, after: str, count: int, *, max_bytes: int
) -> tuple[Report, str]:
    """Read up to `count` notes after a path anew, whatever `stat` says; return what differed and the last path.

    It finds edits that left size and time as they were. The last path is `""` at the end of the ledger. What
    vanished is left to the comparisons.
    """
    report = Report()
    seen: list[tuple[FoundFile, str]] = []
    paths = cache.ledger.raws_after(after, count)
    for path, raw in paths:
        file = vault.look(root, raw)
        if file is not None:
            _hash(root, replace(file, path=path), max_bytes, seen, [], report.unsettled)
    report.count(cache.ledger.record(slug, seen, [], priority=LOW_PRIORITY))
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
    brake: Brake = AT_ONCE,
) -> dict[str, Report]:
    """Look at paths that may have changed (files or folders), and write down each difference."""
    rules = rules_of(root, registry)
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
            # Where the folder may not be entered, nobody knows: comparing everything tells.
            with suppress(OSError):
                files[raw] = vault.look_closely(root, raw)
    scans = {folder: vault.scan(root, rules, folder) for folder in _topmost(folders)}
    moved = {(f.inode, f.size) for scan in scans.values() for f in scan.notes.values()}
    moved |= {(f.inode, f.size) for f in files.values() if f}
    present = {f.path for f in files.values() if f}.union(*(scan.notes for scan in scans.values()))
    complaints = [one for scan in scans.values() for one in _complaints(rules, scan)]
    reports = {}
    for slug, cache in caches.items():
        report = reports[slug] = Report(complaints=complaints)
        changed, gone = _files_of(registry, slug, rules, cache, files)
        # What was a note, and is a folder now.
        gone += [vault.disk_key(raw) for raw in no_files if _touches(registry, slug, raw)]
        for folder, scan in scans.items():
            difference = _folder_of(registry, slug, cache, folder, scan)
            changed += difference.changed
            gone += [path for path in difference.gone if not is_below(path, scan.unreadable)]
        _write_down(
            root, slug, cache, changed, gone, report,
            priority=HIGH_PRIORITY, max_bytes=max_bytes, moved=moved, brake=brake,
            looked=Looked(present.union(gone)),
        )  # fmt: skip
    note_looked_at(caches.values(), files, no_files, scans)
    return reports


def _topmost(folders: AbstractSet[str]) -> list[str]:
    """Return those of the folders that lie in none of the others."""
    found: list[str] = []
    for folder in sorted(folders, key=lambda one: one + "/"):
        if not found or (found[-1] and not folder.startswith(found[-1] + "/")):
            found.append(folder)
    return found


def _touches(registry: Registry, slug: str, raw: str) -> bool:
    """Say whether a vanished or changed path can concern a domain: its own, or a folder that holds some of it."""
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
    """Return those of the files that a domain must look at: to be read, and gone."""
    changed: list[FoundFile] = []
    gone: list[str] = []
    for raw, file in files.items():
        if not _touches(registry, slug, raw):
            continue
        key = vault.disk_key(raw)
        rule = None
        # It may have been a folder: then no event named what was in it.
        gone += cache.ledger.paths_below(key)
        if file is None:
            gone += {key, vault.own_key(raw)}  # a name that collided has two
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
    return cache.ledger.diff(own, vault.disk_key(folder), scan.colliding)
