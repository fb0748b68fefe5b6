"""Compare the disk with the ledger and return the differences, for the whole vault or for the paths of an event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.brake import AT_ONCE, Brake, Looked
from pipelines.disk import vault
from pipelines.disk.ignore import IgnoreRules
from pipelines.disk.vault_scan import Scan, scan_vault
from pipelines.documents.formats import format_of
from pipelines.domains import Registry
from pipelines.indexing.known_files import is_below, note_looked_at, note_scanned
from pipelines.indexing.ledger_writer import LedgerWriter, Report
from pipelines.model import FoundFile
from pipelines.priorities import HIGH_PRIORITY, LOW_PRIORITY
from pipelines.store.cache import Cache
from pipelines.store.scan_diff import Difference, compare_scan


def rules_of(root: Path, registry: Registry) -> IgnoreRules:
    """Return the vault's ignore rules; rule files are read again, so that changes of them take effect."""
    return IgnoreRules(root, registry.generated, registry.prefixes, registry.formats_of)


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
        difference = compare_scan(cache, notes[slug], suspects=found.colliding)
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
        looked = Looked({file.path for file in notes[slug]}, whole=True)
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
        looked = Looked({file.path for file in there}.union(gone))
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


def _folder_of(registry: Registry, slug: str, cache: Cache, folder: str, scan: Scan) -> Difference:
    """Compare a scan of a folder with the ledger of one domain."""
    for path, rule in scan.ignored.items():
        if (registry.owner(path) or registry.domains[0]).slug == slug:
            cache.note_ignored(path, rule)
    own = [file for path, file in scan.notes.items() if _owns(registry, slug, path)]
    return compare_scan(cache, own, vault.disk_key(folder), scan.colliding)
