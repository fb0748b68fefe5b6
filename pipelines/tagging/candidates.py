"""Select the notes to examine for tags: new ones, and those of which more than half changed since the last time."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from pipelines.disk.vault import is_markdown, look
from pipelines.domains import Registry
from pipelines.store.cache import Cache
from pipelines.store.notes import tags_of, texts_of
from pipelines.store.proposals import Looked, Proposals
from pipelines.tagging.taxonomy import renamed

_SIZE = 64
_WORD = re.compile(r"\w+")
_PRIME = np.uint64(4_294_967_311)
_CHANCE = np.random.default_rng(1)
_FACTORS = _CHANCE.integers(1, 2**32 - 1, _SIZE, dtype=np.uint64)
_SUMMANDS = _CHANCE.integers(0, 2**32 - 1, _SIZE, dtype=np.uint64)
_STILL_THE_SAME = 0.5
_NOT_SKETCHED = b""
ANOTHER = "the note changed by more than half since it was proposed"
"""Why an accepted tag waits again."""


def sketch(texts: Sequence[str]) -> bytes:
    """Return 256 bytes by which texts can be compared: a MinHash of their word pairs (Broder, 1997)."""
    words = _WORD.findall(" ".join(texts).casefold())
    pairs = {zlib.crc32(" ".join(pair).encode()) for pair in pairwise(["", *words])}
    if not pairs:
        return bytes(4 * _SIZE)
    hashed = np.array(sorted(pairs), np.uint64)[:, None]
    least = ((hashed * _FACTORS + _SUMMANDS) % _PRIME).min(axis=0)
    return bytes((least & np.uint64(0xFFFFFFFF)).astype("<u4"))


def likeness(one: bytes, other: bytes) -> float:
    """Return how much two sketched texts have in common, from 0 to 1 (usually within 0.06)."""
    return float(np.mean(np.frombuffer(one, "<u4") == np.frombuffer(other, "<u4")))


def is_another(one: bytes, other: bytes) -> bool:
    """Say whether more than half of a text has changed since a sketch; unknown without one, and taken for no."""
    if one == _NOT_SKETCHED:
        return False
    # Two sets of equal size that share half of their members share a third of their union (Jaccard).
    shared = likeness(one, other)
    return 2 * shared / (1 + shared) < _STILL_THE_SAME


def begin(cache: Cache, proposals: Proposals, domain: str, began_ns: float = math.inf) -> None:
    """Record the notes that exist when a domain gets its vocabulary as baseline, so that they do not count as new.

    What the ledger knows exists, unless it was saved after `began_ns` (since the epoch). The texts of notes that are
    not indexed yet are sketched when they are.
    """
    settled, known = cache.ledger.settled(), proposals.looked_at(domain)
    files = cache.ledger.stat_of(cache.ledger.paths_below(""))
    before = [path for path, (_, _, saved_ns, _) in files.items() if saved_ns <= began_ns]
    existing = cache.ledger.hashes_of(before)
    proposals.look(
        domain,
        {
            path: Looked(
                note_hash,
                sketch(texts_of(cache, path)) if path in settled else _NOT_SKETCHED,
                "baseline",
                None,
                0,
                None,
            )
            for path, note_hash in existing.items()
            if path not in known
        },
    )


def follow_moves(cache: Cache, proposals: Proposals, domain: str) -> None:
    """Recognise notes that were renamed: the same bytes at a new path, and the old path is gone."""
    settled, known = cache.ledger.settled(), proposals.looked_at(domain)
    gone = {known[path].note_hash: path for path in known.keys() - cache.ledger.existing(known.keys())}
    for path in settled.keys() - known.keys():
        old = gone.pop(settled[path], None)
        if old is not None:
            proposals.keys.move(domain, old, path)


def follow_domains(proposals: Proposals, registry: Registry) -> None:
    """Give what is known of each note to the domain that owns the note now; without an owner it stays as it is."""
    moves = [
        (domain, owner.slug, path)
        for domain, path in proposals.keys.notes()
        if (owner := registry.owner(path)) and owner.slug != domain
    ]
    if moves:
        proposals.keys.change_domains(moves)


def follow_renames(
    proposals: Proposals, domain: str, renames: Sequence[tuple[str, str]], change: int
) -> None:
    """Give the tags that wait, or were decided and not written, the names that they have after a change's renames."""
    new = {old.casefold(): name for old, name in renames}
    names = {
        one.id: name
        for one in proposals.of_state(domain, "waiting", "addition", "accepted", "rejected", "refused")
        if (name := renamed(one.tag, new)) and name != one.tag
    }
    proposals.keys.follow(change, names)


def withdraw(cache: Cache, proposals: Proposals, domain: str) -> None:
    """Hide the waiting tags of notes that are gone, and show them again when the notes are back.

    A renamed note keeps its proposals. If another text is now at the old path, the waiting proposals of the former
    note are deleted. A deletion held for confirmation does not count yet.
    """
    waiting, before = proposals.open_paths(domain), proposals.gone(domain)
    if waiting - cache.ledger.existing(waiting):
        follow_moves(cache, proposals, domain)
        waiting = proposals.open_paths(domain)
    gone = waiting - cache.ledger.existing(waiting)
    back = (before & waiting) - gone
    known = proposals.looked_at(domain) if back else {}
    for path in back:
        texts = texts_of(cache, path)
        if not texts:
            gone.add(path)  # not indexed yet
        elif path in known and is_another(known[path].sketch, sketch(texts)):
            proposals.forget(domain, path)
    if gone != before:
        proposals.set_gone(domain, gone)


def drop_given(cache: Cache, proposals: Proposals, domain: str, root: Path) -> None:
    """Delete the waiting proposals of tags that a person has given to the note.

    The index has to be as the file is: while the undoing of a tag is not indexed yet, the note seems to have it.
    """
    waiting = proposals.of_state(domain, "waiting")
    tags = tags_of(cache, {one.path for one in waiting})
    given = [one for one in waiting if one.tag.casefold() in tags.get(one.path, ())]
    files = cache.ledger.stat_of([one.path for one in given])
    proposals.drop([one.id for one in given if one.path in files and _is_current(root, *files[one.path])])


def _is_current(root: Path, raw: str, size: int, mtime_ns: int, is_dirty: bool) -> bool:  # noqa: FBT001 - a row
    file = look(root, raw)
    return not is_dirty and file is not None and (file.size, file.mtime_ns) == (size, mtime_ns)


def due(
    cache: Cache, proposals: Proposals, domain: str, now: float, leave_out: Collection[str] = ()
) -> list[str]:
    """Return the paths to examine at `now` (wall clock, seconds), and record the notes that changed only a little."""
    follow_moves(cache, proposals, domain)
    settled, known = cache.ledger.settled(), proposals.looked_at(domain)
    found = []
    little: dict[str, Looked] = {}
    for path, note_hash in settled.items():
        if path in leave_out or not is_markdown(path):
            continue
        last = known.get(path)
        if last is None or last.outcome == "asked":
            found.append(path)
        elif last.outcome == "failed":
            if last.next_attempt is None or last.next_attempt <= now:
                found.append(path)
        elif last.note_hash != note_hash or last.sketch == _NOT_SKETCHED:
            body = sketch(texts_of(cache, path))
            if is_another(last.sketch, body):
                found.append(path)
            else:
                little[path] = replace(last, note_hash=note_hash, sketch=last.sketch or body)
    proposals.look(domain, little)
    return found
