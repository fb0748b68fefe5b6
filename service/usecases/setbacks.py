"""Reasons why a known note is not found, or not yet, or not by all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.cache import passages
from pipelines.cache.cache import Cache
from pipelines.state.note_log import NoteLog, followed
from pipelines.state.state import HELD
from pipelines.vault import files
from service.usecases.audience import agents
from service.usecases.notes import dates_of
from service.usecases.phrases import moment
from workers.resources import Resources


def gone_because(resources: Resources, cache: Cache, path: str) -> str | None:
    """Say that no answer has a note because its file is gone, or return None."""
    raw, *_ = cache.ledger.stat_of([path]).get(path, (path,))
    if not resources.present() or files.look(resources.root, raw) is not None:
        return None
    return "its file is gone, and no answer has a note without a file"


def _history_of(resources: Resources, path: str) -> dict[str, str]:
    """Return what became of a note that is not there, as far as its log says."""
    log = resources.stores.of(NoteLog)
    last = next(iter(log.of_note(path, 1)), None)
    if last is None or last.passages is not None:
        return {}
    if last.other_path:
        root = resources.root
        now = followed(
            log.renamed(), path, lambda name: files.look(root, files.path_on_disk(root, name)) is not None
        )
        return {"reason": f"it was renamed to {now}", "renamed_to": now}
    return {"reason": f"it was taken out of the index on {moment(last.at)}; there is no such file"}


def _vanished_because(resources: Resources, cache: Cache, slug: str, path: str) -> str | None:
    """Say that a note's file is gone while the index keeps the note, or return None."""
    if path not in resources.vanished().waiting(slug) and gone_because(resources, cache, path) is None:
        return None
    if resources.state().get(HELD, slug):
        return (
            "its file vanished with many others, and no answer has it; the index keeps it until it is back,"
            " until `everindex confirm-deletions`, or until nothing about them has changed for an hour while"
            " Everindex runs"
        )
    return "its file is gone, so no answer has it; the index forgets it within a minute while Everindex runs"


def paused_because(resources: Resources, slug: str) -> str | None:
    """Say since when a domain's notes wait for an operator, or return None."""
    paused = resources.state().decisions.paused_since(slug)
    if paused is None:
        return None
    since = moment(paused)
    return f"{slug} is paused since {since}; it is indexed when an operator resumes {slug} (`/ops/queue`)"


def _as_read(resources: Resources, cache: Cache, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return which parts of an indexed note could not be read, and why agents do not see it. Raises CacheError."""
    node = passages.node(cache, known["path"])
    warnings = node.warnings if node else []
    hidden = None
    if known["path"] in agents(resources).known_private(known["domain"]):
        unread = any("frontmatter" in warning for warning in warnings)
        hidden = (
            "its frontmatter cannot be read, and may say that it is private"
            if unread
            else "it is private by its folder, a tag or a `private` property, or it configures its domain"
        )
    return {"warnings": warnings, "hidden_from_agents": hidden}


def explained(
    resources: Resources, caches: Mapping[str, Cache], known: Mapping[str, Any], *, is_owner: bool
) -> dict[str, Any]:
    """Return the state of a path with what keeps its note from answers, and for the owner with what became of it.

    Raises CacheError.
    """
    state, slug, path = known["state"], known["domain"], known["path"]
    if state == "pending":
        return {**known, "reason": paused_because(resources, slug) or known["reason"]}
    if state == "indexed":
        if gone := _vanished_because(resources, caches[slug], slug, path):
            return {**known, "state": "pending", "reason": gone}  # that it is removed
        node = passages.node(caches[slug], path)
        more = _as_read(resources, caches[slug], known) if is_owner else {}
        return {**known, "dates": dates_of(node).model_dump() if node else None, **more}
    return {**known, **(_history_of(resources, path) if state == "unknown" and is_owner else {})}
