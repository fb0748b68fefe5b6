"""Disk against ledger -> diff events: for the whole vault, or for the paths that an event named."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipelines import vault
from pipelines.domains import Registry
from pipelines.errors import NoteChangedError, NoteError, NoteVanishedError
from pipelines.ignore import IgnoreRules
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, DiffEvent, Domain, FoundFile
from pipelines.store.cache import Cache
from pipelines.store.ledger import unread_hash

# So many differences are written at once: the workers can begin before a first scan ends.
_BATCH = 500


@dataclass(slots=True)
class Report:
    """What a comparison found in one domain; `unsettled` are files that were being written."""

    new: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    ignored: int = 0
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
        }


def rules_of(root: Path, registry: Registry) -> IgnoreRules:
    """Return the vault's ignore rules; rule files are read anew, so a change of them counts."""
    return IgnoreRules(root, registry.generated, registry.prefixes)


def reconcile(
    root: Path, registry: Registry, caches: Mapping[str, Cache], *, max_bytes: int
) -> dict[str, Report]:
    """Compare the whole disk with the ledgers of `caches` and write down each difference.

    Raises VaultNotFoundError: a vault that cannot be listed is not an empty one.
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
    reports = {}
    for slug, cache in caches.items():
        cache.set_ignored(ignored[slug])
        report = _compare(root, slug, cache, notes[slug], "", LOW_PRIORITY, max_bytes)
        report.ignored = len(ignored[slug])
        reports[slug] = report
    return reports


def _compare(
    root: Path, slug: str, cache: Cache, files: list[FoundFile], folder: str, priority: int, max_bytes: int
) -> Report:
    difference = cache.ledger.diff(files, folder)
    report = Report(unchanged=difference.unchanged)
    # Deletions go with the first batch, in front of what replaces them.
    gone = difference.gone
    for start in range(0, max(1, len(difference.changed)), _BATCH):
        seen: list[tuple[FoundFile, str]] = []
        for file in difference.changed[start : start + _BATCH]:
            _hash(root, file, max_bytes, seen, gone, report.unsettled)
        report.count(cache.ledger.record(slug, seen, gone, priority=priority))
        gone = []
    return report


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
    except NoteError:
        # The worker meets the same error, and parks the note with it.
        seen.append((file, unread_hash(file)))
    else:
        # A colliding name's key is its own form, not the composed one: the scan decides.
        seen.append((FoundFile(file.path, *_stat(content.found)), content.sha256))


def _stat(found: FoundFile) -> tuple[str, int, int, int]:
    return found.raw, found.size, found.mtime_ns, found.inode


def check_paths(
    root: Path, registry: Registry, caches: Mapping[str, Cache], raws: Iterable[str], *, max_bytes: int
) -> dict[str, Report]:
    """Look at paths that may have changed (files or folders), and write down each difference."""
    rules = rules_of(root, registry)
    reports = {slug: Report() for slug in caches}
    folders: set[str] = set()
    files: dict[str, FoundFile | None] = {}
    for raw in raws:
        if _is_folder(root / raw):
            folders.add(raw)
        elif vault.is_note(raw) and _may_have_twin(raw):
            folders.add(raw.rpartition("/")[0])
        else:
            files[raw] = vault.look(root, raw)
    for folder in folders:
        _check_folder(root, folder, registry, rules, caches, reports, max_bytes)
    for slug, cache in caches.items():
        own = {raw: file for raw, file in files.items() if _touches(registry, slug, raw)}
        _check_files(root, registry.get(slug), rules, cache, own, reports[slug], max_bytes)
    return reports


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _may_have_twin(raw: str) -> bool:
    """Say whether a name has a second Unicode form: then only a look at its folder tells which files exist."""
    return unicodedata.normalize("NFD", raw) != unicodedata.normalize("NFC", raw)


def _touches(registry: Registry, slug: str, raw: str) -> bool:
    """Say whether a vanished or changed path can concern a domain: its own, or a folder that holds some of it."""
    key = vault.note_key(raw)
    owner = registry.owner(key)
    domain = registry.get(slug)
    return (owner is not None and owner.slug == slug) or (
        domain is not None and f"{domain.path}/".startswith(f"{key}/")
    )


def _check_files(
    root: Path,
    domain: Domain | None,
    rules: IgnoreRules,
    cache: Cache,
    files: Mapping[str, FoundFile | None],
    report: Report,
    max_bytes: int,
) -> None:
    if domain is None:
        return
    seen: list[tuple[FoundFile, str]] = []
    gone: list[str] = []
    for raw, file in files.items():
        key = vault.note_key(raw)
        rule = None
        if file is None:
            # It may have been a folder: then no event named what was in it.
            gone += [key, *cache.ledger.paths_below(key)]
        elif vault.is_note(raw):
            rule = "symlink (not followed)" if (root / raw).is_symlink() else rules.for_file(raw)
            if rule:
                gone.append(key)
            else:
                _hash(root, file, max_bytes, seen, gone, report.unsettled)
        cache.note_ignored(key, rule)
    report.count(cache.ledger.record(domain.slug, seen, gone, priority=HIGH_PRIORITY))


def _check_folder(
    root: Path,
    folder: str,
    registry: Registry,
    rules: IgnoreRules,
    caches: Mapping[str, Cache],
    reports: Mapping[str, Report],
    max_bytes: int,
) -> None:
    if not os.path.lexists(root / folder):
        return
    found = vault.scan(root, rules, folder)
    key = vault.note_key(folder)
    for slug, cache in caches.items():
        files = [f for path, f in found.notes.items() if (o := registry.owner(path)) and o.slug == slug]
        for path, rule in found.ignored.items():
            if (registry.owner(path) or registry.domains[0]).slug == slug:
                cache.note_ignored(path, rule)
        part = _compare(root, slug, cache, files, key, HIGH_PRIORITY, max_bytes)
        reports[slug].count(part.events)
        reports[slug].unsettled.extend(part.unsettled)
