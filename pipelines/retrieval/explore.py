"""A walk over a domain's cache: what the beam search asks for, read in one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pipelines import vault
from pipelines.model import Domain
from pipelines.retrieval.decay import decay_weights
from pipelines.retrieval.traverse import MOST_HOPS, Effort, Found, Measured, beam_search
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import snapshot
from pipelines.store.search import note_facts
from pipelines.store.surroundings import edges_at, text_hashes

_OF_A_NOTE = 8
"""So many passages stand for a note that has more. Measured: docs/traversal.md, "What is read"."""


def explore(
    domain: Domain,
    cache: Cache,
    seeds: Sequence[str],
    vector: Vector,
    effort: Effort,
    *,
    depth: int = MOST_HOPS,
    root: Path | None,
) -> Found:
    """Walk from notes of a domain towards what resembles a unit vector. Raises CacheError.

    A note whose file below `root` is gone is left out; nothing is, while the vault is away (None).
    """
    with snapshot(cache.con):
        return _walk(domain, _Passages(cache), seeds, vector, effort, depth, root)


def explore_from(
    domain: Domain, cache: Cache, path: str, effort: Effort, *, depth: int, root: Path | None
) -> Found | None:
    """Walk from a note towards what resembles it: its mean vector is the question. Raises CacheError.

    Returns None where the note has no vector. What is left out: as `explore`.
    """
    with snapshot(cache.con):
        passages = _Passages(cache)
        mean = passages.mean(path)
        return None if mean is None else _walk(domain, passages, [path], mean, effort, depth, root)


def _walk(
    domain: Domain,
    passages: _Passages,
    seeds: Sequence[str],
    vector: Vector,
    effort: Effort,
    depth: int,
    root: Path | None,
) -> Found:
    cache = passages.cache

    def weigh(paths: Sequence[str]) -> dict[str, float]:
        return decay_weights(note_facts(cache, paths).values(), domain.decay, domain.path)

    known = note_facts(cache, seeds)  # a seed may have been deleted since it was found
    found = beam_search(
        [path for path in seeds if path in known],
        partial(edges_at, cache),
        partial(passages.measure, vector),
        weigh,
        effort,
        depth,
    )
    return found if root is None else _without_gone(found, cache, root)


def spread(items: Sequence[str], most: int) -> list[str]:
    """Return at most so many items, evenly spread, the first among them."""
    if len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


class _Passages:
    """Notes' vectors, each read once."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._read: dict[str, Vector] = {}
        self._told = 0

    def mean(self, path: str) -> Vector | None:
        """Return the mean of a note's vectors at unit length, or None where it has none."""
        hashes = self._passages([path])[path]
        if not hashes:
            return None
        self._fetch(hashes)
        mean: Vector = np.mean([self._read[text_hash] for text_hash in hashes], axis=0)
        length = float(np.linalg.norm(mean))
        return mean / np.float32(length) if length else None

    def measure(self, wanted: Vector, paths: Sequence[str], most: int) -> Measured:
        """Return the similarity of each note's best passage to a unit vector, as far as `most` embeddings go.

        First one passage of each note is read, in their order; then the others of those that look best so far.
        """
        hashes = self._passages(paths[:most])
        self._fetch([some[0] for some in hashes.values() if some])
        best = {path: self._best(wanted, some[:1]) for path, some in hashes.items()}
        left = most - sum(similarity is not None for similarity in best.values())
        for path in sorted(best, key=lambda path: (-(best[path] or 0.0), path)):
            more = hashes[path][1 : 1 + left]
            left -= len(more)
            self._fetch(more)
            best[path] = self._best(wanted, hashes[path][: 1 + len(more)])
        fresh, self._told = len(self._read) - self._told, len(self._read)
        return Measured(best, fresh)

    def _best(self, wanted: Vector, hashes: Sequence[str]) -> float | None:
        return max((float(self._read[text_hash] @ wanted) for text_hash in hashes), default=None)

    def _passages(self, paths: Sequence[str]) -> dict[str, list[str]]:
        hashes = text_hashes(self.cache, paths)
        return {path: spread(hashes.get(path, []), _OF_A_NOTE) for path in paths}

    def _fetch(self, hashes: Sequence[str]) -> None:
        self._read |= self.cache.vectors(set(hashes) - self._read.keys())


def _without_gone(found: Found, cache: Cache, root: Path) -> Found:
    """Leave out the notes whose files are gone."""
    paths = [note.path for note in found.kept] + [note.path for note in found.dropped]
    files = cache.ledger.stat_of(paths)
    there = {path for path, (raw, *_) in files.items() if vault.look(root, raw)}
    return replace(
        found,
        kept=tuple(note for note in found.kept if note.path in there),
        dropped=tuple(note for note in found.dropped if note.path in there),
    )
