"""The files that links may mean: those on disk, and notes whose deletion is held in any domain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from pathlib import Path

from pipelines.disk import vault
from pipelines.disk.vault_scan import Scan
from pipelines.errors import CacheError
from pipelines.model import FoundFile
from pipelines.store.cache import Cache


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Say whether a path is in one of the folders."""
    return any(path.startswith(f"{folder}/") for folder in folders)


def note_scanned(caches: Collection[Cache], found: Scan) -> None:
    """Update the edges of all caches with the files found by a scan of the vault; notes held by the brake stay."""
    there = found.files.union(*(cache.ledger.paths_below("") for cache in caches))
    for cache in caches:
        cache.edges.set_paths(there)


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
        held = [one.ledger.existing(gone) for one in caches] if gone else []
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
        with suppress(CacheError), closing(Cache.open(file)) as sibling:
            held |= sibling.ledger.existing(paths)
    return held
