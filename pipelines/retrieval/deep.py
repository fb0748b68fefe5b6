"""Deep retrieval: start a walk along links at the search's best notes, and compare it with the fast walk."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pipelines.model import Domain
from pipelines.retrieval.explore import explore
from pipelines.retrieval.layers import Source
from pipelines.retrieval.search import find
from pipelines.retrieval.traverse import Effort, Found
from pipelines.store.cache import Cache, Vector


@dataclass(frozen=True, slots=True)
class Difference:
    """The notes that only the deep walk kept, most similar first, and those that only the fast walk kept."""

    added: tuple[str, ...]
    lost: tuple[str, ...]


def retrieve(
    domain: Domain,
    cache: Cache,
    query: str,
    vector: Vector,
    effort: Effort,
    *,
    root: Path,
    present: bool,
    now: datetime,
    only: Sequence[int] | None = None,
    hidden: Collection[str] = frozenset(),
    left_out: Collection[str] = frozenset(),
) -> Found:
    """Search a domain for a question (its words and their unit vector), and walk on from its best notes.

    While the vault is unavailable (`present` false), no note is left out for a missing file. `only` and
    `hidden` are as in `Source`; the walk does not come to notes that are `left_out`, either. Raises CacheError.
    """
    source = Source(domain, cache, vector, only, hidden=hidden)
    best, failed = find([source], query, effort.seeds, root=root, present=present, now=now)
    for error in failed.values():
        raise error
    seeds = [one.hit.path for one in best]
    unseen = {*hidden, *left_out}
    return explore(domain, cache, seeds, vector, effort, root=root if present else None, hidden=unseen)


def compare(fast: Found, deep: Found) -> Difference:
    """Return what deep mode adds, and what it leaves out because better notes filled the beam."""
    known, wide = {note.path for note in fast.kept}, {note.path for note in deep.kept}
    by_similarity = sorted(deep.kept, key=lambda note: (-(note.similarity or 0.0), note.path))
    return Difference(
        added=tuple(note.path for note in by_similarity if note.path not in known),
        lost=tuple(note.path for note in fast.kept if note.path not in wide),
    )
