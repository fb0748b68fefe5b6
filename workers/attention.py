"""Record which notes are chosen if the settings say so, follow these notes, and tell how much attention they have."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import structlog

from pipelines.cache.ledger import SqlLedger
from pipelines.errors import EverindexError
from pipelines.model import Domain
from pipelines.state.attention import Attention, How
from workers.resources import Resources

# How much attention notes have: what was chosen counts, and half as much after each half-life.


_DAY_S, _MINUTE_S = 24 * 3600.0, 60.0
_USUAL = Domain("", "")


def weight(age_s: float, half_life_days: float = _USUAL.attention_half_life_days) -> float:
    """Return what a choice of this age in seconds counts: 1 now, a half after a half-life, a quarter after two."""
    return float(2.0 ** (-max(0.0, age_s) / (half_life_days * _DAY_S)))


def attention_of(moments: Iterable[float], now: float, domain: Domain = _USUAL) -> float:
    """Return the attention of a domain's note that was chosen at these moments: what each choice counts now.

    Of choices within a session the last one counts, so that one choice more never takes any attention away.
    """
    total, last = 0.0, math.inf
    for at in sorted(moments, reverse=True):
        if last - at >= domain.attention_session_minutes * _MINUTE_S:
            total, last = total + weight(now - at, domain.attention_half_life_days), at
    return total


def follow_notes(
    store: Attention, ledgers: Sequence[SqlLedger], is_served: Callable[[str], bool]
) -> set[str]:
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


_GONE_SECONDS = 60.0
"""A note that is gone for this long was deleted; before, its new name may not be known yet."""

# No answer waits for this thread: `state.db` may be locked or its disk slow.
_RECORDER = ThreadPoolExecutor(1, thread_name_prefix="attention")

log = structlog.get_logger()


def chosen(resources: Resources, paths: Collection[str], how: How) -> None:
    """Record soon that notes were chosen. It never raises; a failure is logged."""
    if resources.settings.attention and paths:
        with suppress(RuntimeError):  # the process ends
            _RECORDER.submit(_record, resources, tuple(paths), how, time.time())


def _record(resources: Resources, paths: Collection[str], how: How, at: float) -> None:
    try:
        registry, store = resources.registry(), resources.stores.of(Attention)
        by_minutes: dict[float, list[str]] = {}
        for path in paths:
            minutes = (registry.owner(path) or _USUAL).attention_session_minutes
            by_minutes.setdefault(minutes, []).append(path)
        for minutes, chosen_together in by_minutes.items():
            store.add(chosen_together, how, at, minutes * _MINUTE_S)
    except Exception:
        log.exception("a choice was not recorded", how=how, notes=len(paths))


def attended(resources: Resources, now: datetime) -> Callable[[Collection[str], Domain], dict[str, float]]:
    """Return what tells the attention of a domain's notes at a moment; later choices do not count.

    A failure is logged, and then no note has any.
    """

    def ask(paths: Collection[str], domain: Domain) -> dict[str, float]:
        at = now.timestamp()
        try:
            found = resources.stores.of(Attention).moments(paths, at)
        except EverindexError as error:
            log.warning("attention cannot be read", reason=str(error))
            return {}
        return {path: attention_of(moments, at, domain) for path, moments in found.items()}

    return ask


class AttentionSweep:
    """Follows renamed notes, and forgets the attention of deleted ones. `clock` is monotonic, in seconds."""

    def __init__(self, resources: Resources, clock: Callable[[], float] = time.monotonic) -> None:
        self._resources = resources
        self._clock = clock
        self._gone: dict[str, float] = {}

    def __call__(self) -> None:
        """Look once at all notes that were chosen. Raises CacheError."""
        resources = self._resources
        store = resources.stores.of(Attention)
        if not store.hashes() or not resources.present():
            return
        domains, registry = resources.domains(), resources.registry()
        ledgers = [resources.cache(domain).ledger for domain in domains]
        now = self._clock()
        gone = follow_notes(
            store, ledgers, lambda path: (owner := registry.owner(path)) is None or owner in domains
        )
        self._gone = {path: self._gone.get(path, now) for path in gone}
        for path, since in self._gone.items():
            if now - since >= _GONE_SECONDS:
                store.delete(path)
