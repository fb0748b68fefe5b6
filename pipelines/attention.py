"""How much attention notes have: what was chosen counts, and half as much after each week."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipelines.cache.ledger import Ledger
from pipelines.state.attention import Attention

HALF_LIFE_S = 7 * 24 * 3600.0


def weight(age_s: float) -> float:
    """Return what a choice of this age in seconds counts: 1 now, a half after a week, a quarter after two."""
    return float(2.0 ** (-max(0.0, age_s) / HALF_LIFE_S))


def attention_of(moments: Iterable[float], now: float) -> float:
    """Return the attention of a note that was chosen at these moments: the sum of what each choice counts now."""
    return sum(weight(now - at) for at in moments)


def follow_notes(store: Attention, ledgers: Sequence[Ledger], is_served: Callable[[str], bool]) -> set[str]:
    """Let renamed notes keep their attention; return the chosen notes that are gone.

    A renamed note has the bytes of one that is gone, and no other new note has them. Notes for which `is_served` is
    false are in other ledgers. Raises CacheError.
    """
    known = {path: sha for path, sha in store.hashes().items() if is_served(path)}
    there: dict[str, str] = {}
    for ledger in ledgers if known else ():
        there |= ledger.hashes_of(known)
    store.keep_hashes({path: sha for path, sha in there.items() if known[path] != sha})
    gone = known.keys() - there.keys()
    hashes = {sha for path in gone if (sha := known[path])}
    alike: dict[str, list[str]] = {}
    for ledger in ledgers if hashes else ():
        for path, sha in ledger.paths_of(hashes).items():
            if path not in known:
                alike.setdefault(sha, []).append(path)
    left = set()
    for path in sorted(gone):
        new = alike.pop(known[path] or "", [])
        if len(new) == 1:
            store.move(path, new[0])
        else:
            left.add(path)
    return left
