"""The state of a vault: the same facts for `status`, `GET /health` and the progress bar."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipelines.cache.ledger import LedgerRow, ParkedRow
from pipelines.domains import DOMAINS_FILE, Registry
from pipelines.formats import NAMES, format_of
from pipelines.model import Counts
from pipelines.state.state import EMBEDDING_SPEED, State
from pipelines.store import Cache
from pipelines.vault import files
from pipelines.vault.atomic import file_bytes
from pipelines.vault.ignore import IGNORE_FILE, IgnoreRules, Rule, is_of_other_format, path_named

_NEXT = "a worker indexes it next; `everindex status` says if none runs"
_NO_NOTE = "no note has this path, and no indexed note this title"
_CURES = {
    IgnoreRules.NO_DOMAIN: "give a domain in _domains.yaml its folder as `path:`, or one `legacy: true`",
    IgnoreRules.BY_OBSIDIAN: "take it off Obsidian's list: Settings, Files and links, Excluded files",
}
"""What lets a path in again, by the beginning of the rule that ignores it."""
_NOT_SEEN = (
    "no indexed note that you see has this path: it is misspelt, new, ignored or private; `everindex why` tells the"
    " vault's owner which"
)
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
        found = answer | _of_ignored(rule, rules.rule_of(raw))
        form = format_of(key)
        if owner and form and is_of_other_format(rule):
            (found["cure"],) = how_to_index(root, registry, {owner.slug: [form.name]})
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


def nothing_seen_at(key: str, registry: Registry) -> dict[str, Any]:
    """Return the same state and reason for every path that an asker does not see: they say nothing about a file."""
    return nothing_at(key, registry) | {"reason": _NOT_SEEN}


def _with_line(file: str, found: tuple[str, Rule] | None) -> dict[str, Any]:
    """Return the line of a rule file that decides, and the reason with it; nothing for a rule of another kind."""
    if found is None or found[0] != file:
        return {}
    rule = {"file": file, **asdict(found[1])}
    return {"reason": f"{file}:{rule['line']}: {rule['pattern']}", "rule": rule}


def _of_ignored(reason: str, found: tuple[str, Rule] | None) -> dict[str, Any]:
    """Return the state of an ignored path, with the line that decides and what lets the path in again."""
    state: dict[str, Any] = {"state": "ignored", "reason": reason} | _with_line(reason, found)
    cure = _CURES.get(reason.partition(":")[0])
    if found and "rule" in state:
        cure = _without_line(*found)
    return state | ({"cure": cure} if cure else {})


def _without_line(file: str, rule: Rule) -> str:
    """Say how a path is no longer ignored by a line of a rule file."""
    folder, _, name = file.rpartition("/")
    if name != IGNORE_FILE:
        own = f"{folder}/{IGNORE_FILE}" if folder else IGNORE_FILE
        return f"write `!{rule.pattern}` in {own}, which git does not read, and which overrides {file}"
    named = path_named(rule.pattern)
    if folder or named is None:
        return f"delete line {rule.line} of {file}, or let it match less"
    return f"`everindex ignore --undo {shlex.quote(named)}` removes that line"


def how_to_index(root: Path, registry: Registry, wanted: Mapping[str, Collection[str]]) -> list[str]:
    """Return what has files of further formats indexed: a line in `_domains.yaml` for each domain.

    `wanted` are the formats by the slug of their domain. Without the file, it is the command that writes one.
    """
    if registry.source is None and registry.error is None:
        return [
            f"`everindex init {shlex.quote(str(root))}` writes a {DOMAINS_FILE} with the formats of your files"
        ]
    cures = []
    for slug, names in wanted.items():
        domain = registry.get(slug)
        if domain and names:
            present = registry.formats if domain.formats is None else domain.formats
            whole = ", ".join(name for name in NAMES if name in {*present, *names})
            how = "add the line" if domain.formats is None else "change the line `formats:` to"
            cures.append(
                f"in {DOMAINS_FILE}, below `{slug}:`, {how} `formats: [{whole}]`; that line lists every format"
            )
    return cures


def _of_no_note(root: Path, raw: str, rules: IgnoreRules, *, has_notes: bool) -> dict[str, Any]:
    """Return the state and the reason of a path that is no note's; `has_notes`: notes below it are indexed."""
    if files.is_folder(root, raw):
        folder = raw.removeprefix(".").strip("/")  # the vault itself is "" and "."
        if rule := rules.for_folder(raw if folder else ""):
            return _of_ignored(rule, rules.rule_of(f"{raw}/_"))
        if folder and not has_notes:
            return {"state": "folder", "reason": "no note in it is indexed"}
        chosen = f" -f {shlex.quote(f'folder={raw}')}" if folder else ""
        return {"state": "folder", "reason": f"`everindex list{chosen}` lists its notes"}
    if files.look(root, raw):
        return {"state": "ignored", "reason": "not of a format that is indexed"}
    return {"state": "unknown", "reason": _NO_NOTE}
