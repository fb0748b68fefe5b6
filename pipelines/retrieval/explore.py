"""Run a beam search over a domain's cache, reading everything it needs in one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipelines.disk import vault
from pipelines.model import Domain
from pipelines.retrieval.decay import decay_weights
from pipelines.retrieval.traverse import MOST_HOPS, Effort, Found, Measured, beam_search
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import snapshot
from pipelines.store.passages import note_facts
from pipelines.store.surroundings import edges_at, text_hashes
from pipelines.vectors import mean_vector

_AT_ONCE = 1_000  # vectors in memory


def explore(
    domain: Domain,
    cache: Cache,
    seeds: Sequence[str],
    vector: Vector,
    effort: Effort,
    *,
    depth: int = MOST_HOPS,
    root: Path | None,
    hidden: Collection[str] = frozenset(),
) -> Found:
    """Walk from notes of a domain towards notes that resemble a unit vector. Raises CacheError.

    A note whose file below `root` is gone is left out; with None (the vault is unavailable) files are not checked.
    The walk does not come to `hidden` notes.
    """
    with snapshot(cache.con):
        return _walk(domain, _Passages(cache), seeds, vector, effort, depth, root, hidden)


def explore_from(
    domain: Domain,
    cache: Cache,
    path: str,
    effort: Effort,
    *,
    depth: int,
    root: Path | None,
    hidden: Collection[str] = frozenset(),
) -> Found | None:
    """Walk from a note towards notes that resemble it: the question is its mean vector. Raises CacheError.

    Return None if the note has no vector. Notes are left out as in `explore`.
    """
    with snapshot(cache.con):
        passages = _Passages(cache)
        mean = passages.mean(path, effort.budget)
        return None if mean is None else _walk(domain, passages, [path], mean, effort, depth, root, hidden)


def _walk(
    domain: Domain,
    passages: _Passages,
    seeds: Sequence[str],
    vector: Vector,
    effort: Effort,
    depth: int,
    root: Path | None,
    hidden: Collection[str],
) -> Found:
    cache, unseen = passages.cache, {*domain.configuration, *hidden}

    def weigh(paths: Sequence[str]) -> dict[str, float]:
        if domain.decay.mode == "off":
            return dict.fromkeys(paths, 1.0)
        return decay_weights(note_facts(cache, paths).values(), domain.decay, domain.path)

    known = note_facts(cache, seeds)  # a seed may have been deleted since it was found
    found = beam_search(
        [path for path in seeds if path in known and path not in hidden],
        lambda paths: [edge for edge in edges_at(cache, paths) if edge.path not in unseen],
        partial(passages.measure, vector),
        weigh,
        effort,
        depth,
    )
    return found if root is None else _without_gone(found, cache, root)


class _Passages:
    """Notes' passages, each read once; the question is one vector, so only a passage's cosine is kept."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._cosines: dict[str, float] = {}
        self._told = 0

    def mean(self, path: str, most: int) -> Vector | None:
        """Return the mean of a note's (first `most`) vectors at unit length, or None if it has none."""
        hashes = text_hashes(self.cache, [path]).get(path, [])[:most]
        vectors = self.cache.vectors(set(hashes))
        mean = mean_vector([vectors[text_hash] for text_hash in hashes if text_hash in vectors])
        if mean is not None:
            self._compare(vectors, mean)
        return mean

    def measure(self, wanted: Vector, paths: Sequence[str], most: int) -> Measured:
        """Return the similarity of each note's best passage to a unit vector, reading at most `most` embeddings.

        Reads one passage of each note first, in their order, then the other passages of the notes that look best so
        far.
        """
        hashes = text_hashes(self.cache, paths[:most])
        first = {path: hashes.get(path, [])[:1] for path in paths[:most]}
        self._read(wanted, [text_hash for some in first.values() for text_hash in some])
        best = {path: self._best(some) for path, some in first.items()}
        left = most - sum(map(len, first.values()))
        more: dict[str, list[str]] = {}
        for path in sorted(best, key=lambda path: (-(best[path] or 0.0), path)):
            more[path] = hashes.get(path, [])[1 : 1 + left]
            left -= len(more[path])
        self._read(wanted, [text_hash for some in more.values() for text_hash in some])
        fresh, self._told = len(self._cosines) - self._told, len(self._cosines)
        return Measured({path: self._best(first[path] + more[path]) for path in first}, fresh)

    def _best(self, hashes: Sequence[str]) -> float | None:
        known = (self._cosines.get(text_hash) for text_hash in hashes)
        return max((cosine for cosine in known if cosine is not None), default=None)

    def _read(self, wanted: Vector, hashes: Sequence[str]) -> None:
        new = list(dict.fromkeys(text_hash for text_hash in hashes if text_hash not in self._cosines))
        for start in range(0, len(new), _AT_ONCE):
            self._compare(self.cache.vectors(new[start : start + _AT_ONCE]), wanted)

    def _compare(self, vectors: Mapping[str, Vector], wanted: Vector) -> None:
        self._cosines |= {text_hash: float(vector @ wanted) for text_hash, vector in vectors.items()}


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
