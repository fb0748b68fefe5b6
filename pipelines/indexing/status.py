"""The state of a vault: the same facts for `status`, `GET /health` and the progress bar."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipelines.cache.ledger import LedgerRow, ParkedRow
from pipelines.domains import Registry
from pipelines.model import Counts
from pipelines.state.state import EMBEDDING_SPEED, State
from pipelines.store import Cache
from pipelines.vault import files
from pipelines.vault.atomic import file_bytes
from pipelines.vault.ignore import IgnoreRules, Rule

_NEXT = "a worker indexes it next; `everindex status` says if none runs"
_NO_NOTE = "no note has this path, and no indexed note this title"
_UNSEEN = "it was not read yet; `everindex index` indexes it now"


def unforgotten(rows: Iterable[ParkedRow], state: State, slug: str) -> list[ParkedRow]:
    """Return the parked notes that the operator did not dismiss, or that changed since."""
    dismissed = state.decisions.dismissed(slug)
    return [row for row in rows if dismissed.get(row.path) != row.generation]


def domain_status(cache: Cache, state: State, slug: str, besides: Collection[str]) -> dict[str, Any]:
    """Return a domain's counts (without dismissed notes), its model, and the progress of its vectors.

    Files `besides` the notes do not count.
    """
    counts = cache.counts(besides)
    rate = state.get(EMBEDDING_SPEED, slug)
    speed = rate.value.texts_per_s if rate else None
    return asdict(counts) | {
        "oldest_pending_s": round(counts.oldest_pending_s, 1),
        "parked": len(unforgotten(cache.ledger.parked_notes(), state, slug)),
        "warned": cache.filters.count_warned(),
        "cache": str(cache.path),
        "bytes": file_bytes(cache.path),
        "model": cache.meta.model,
        "dimension": cache.meta.dimension,
        "percent": percent(counts),
        "seconds_left": round(counts.vectors_pending / speed) if speed and counts.vectors_pending else None,
    }


def percent(counts: Counts) -> float:
    """Return how much of the known work is done, with words and vectors weighted equally."""
    total = counts.notes + counts.pending + counts.chunks
    pending = counts.pending + counts.vectors_pending
    return round(100 * (1 - pending / total), 1) if pending else 100.0


def why(
    path: str, root: Path, registry: Registry, rules: IgnoreRules, caches: Mapping[str, Cache]
) -> dict[str, Any]:
    """Say whether a path is indexed, pending, parked, ignored, a folder or unknown, and why.

    The name of a single file that is not indexed stands for its path.
    """
    key = files.note_key(path)
    answer: dict[str, Any] = {"path": key, "domain": None, "state": "unknown", "reason": None}
    owner = registry.owner(key)
    if owner:
        answer["domain"] = owner.slug
    row = caches[owner.slug].ledger.row(key) if owner and owner.slug in caches else None
    if row and row.parked:
        return answer | {
            "state": "parked",
            "reason": row.error,
            "attempts": row.attempts,
        }
    if row and row.pending:
        reason = row.error or ("it is being removed" if row.wanted_hash is None else _NEXT)
        return answer | {"state": "pending", "reason": reason, "attempts": row.attempts}
    raw = files.path_on_disk(root, key)
    if row:
        return answer | _of_indexed(row, raw, rules)
    if not files.is_note(key):
        has_notes = any(cache.ledger.paths_below(key.rstrip("/")) for cache in caches.values())
        found = answer | _of_no_note(root, raw, rules, has_notes=has_notes)
    elif rule := rules.for_file(raw):
        found = answer | {"state": "ignored", "reason": rule} | _with_line(rule, rules.rule_of(raw))
    elif files.look(root, raw):
        found = answer | {"state": "pending", "reason": _UNSEEN}
    else:
        found = nothing_at(key, registry)
    file = _file_called(key, caches) if found["state"] == "unknown" else None
    return why(file, root, registry, rules, caches) if file and file != key else found


def _file_called(name: str, caches: Mapping[str, Cache]) -> str | None:
    """Return the file that a name means if it is that of one file without an index, and of no indexed note."""
    if any(cache.notes.has_note_called(name) for cache in caches.values()):
        return None
    found = [path for cache in caches.values() for path in cache.notes.unindexed_files_called(name)]
    return found[0] if len(found) == 1 else None


def _of_indexed(row: LedgerRow, raw: str, rules: IgnoreRules) -> dict[str, Any]:
    """Return the state of an indexed note, and what is still to be done about it."""
    reason = "its vectors are pending" if row.vectors_pending else None
    if rule := rules.for_file(raw):
        by = _with_line(rule, rules.rule_of(raw)).get("reason", rule)
        reason = (
            f"it is ignored now ({by}); `everindex up` takes it out of the index, and `reload` while it runs"
        )
    return {"state": "indexed", "reason": reason, "indexed_at": row.indexed_at}


def nothing_at(key: str, registry: Registry) -> dict[str, Any]:
    """Return the state of a path at which nothing is."""
    owner = registry.owner(key)
    return {
        "path": key,
        "domain": owner.slug if owner else None,
        "state": "unknown",
        "reason": "there is no such file" if files.is_note(key) else _NO_NOTE,
    }


def _with_line(file: str, found: tuple[str, Rule] | None) -> dict[str, Any]:
    """Return the line of a rule file that decides, and the reason with it; nothing for a rule of another kind."""
    if found is None or found[0] != file:
        return {}
    rule = {"file": file, **asdict(found[1])}
    return {"reason": f"{file}:{rule['line']}: {rule['pattern']}", "rule": rule}


def _of_no_note(root: Path, raw: str, rules: IgnoreRules, *, has_notes: bool) -> dict[str, Any]:
    """Return the state and the reason of a path that is no note's; `has_notes`: notes below it are indexed."""
    if files.is_folder(root, raw):
        folder = raw.removeprefix(".").strip("/")  # the vault itself is "" and "."
        if rule := rules.for_folder(raw if folder else ""):
            return {"state": "ignored", "reason": rule} | _with_line(rule, rules.rule_of(f"{raw}/_"))
        if folder and not has_notes:
            return {"state": "folder", "reason": "no note in it is indexed"}
        chosen = f" -f {shlex.quote(f'folder={raw}')}" if folder else ""
        return {"state": "folder", "reason": f"`everindex list{chosen}` lists its notes"}
    if files.look(root, raw):
        return {"state": "ignored", "reason": "not of a format that is indexed"}
    return {"state": "unknown", "reason": _NO_NOTE}
