"""Find the note of a change that was moved before the index had its new bytes, so that no hash recognises it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pipelines.disk import vault
from pipelines.errors import NoteError, NoteVanishedError
from pipelines.store.cache import Cache
from pipelines.store.change_log import PROMOTED, Change
from pipelines.store.note_log import NoteLog
from pipelines.store.notes import texts_of
from pipelines.store.proposals import Looked, Proposals
from pipelines.store.rename_log import RENAMED, RENAMING
from pipelines.tagging.candidates import is_another, sketch
from pipelines.tagging.heads import begins


def found_again(
    cache: Cache, proposals: Proposals, log: NoteLog, root: Path, change: Change, max_bytes: int
) -> Change:
    """Return a change at the path where its note is now, and move what is known of the note there.

    Raises NoteVanishedError as `path_now` does.
    """
    path = path_now(cache, proposals, log, root, change, max_bytes)
    if path == change.path:
        return change
    proposals.keys.move(change.domain, change.path, path)
    return replace(change, path=path)


def former_paths(
    cache: Cache, proposals: Proposals, log: NoteLog, root: Path, domain: str, path: str, max_bytes: int
) -> list[str]:
    """Return where a note was when its tags were promoted, as far as the undoing would find it at `path` now."""
    if not cache.ledger.existing([path]):
        return []
    promoted = [
        one
        for one in proposals.changes.latest(-1)
        if one.domain == domain and one.action == PROMOTED and one.undone_at is None
    ]
    there = cache.ledger.existing({one.path for one in promoted})
    found: dict[str, None] = {}
    for change in promoted:
        if change.path not in there and path in log.appeared_as_it_went(change.path, change.at):
            with suppress(NoteVanishedError):
                if path_now(cache, proposals, log, root, change, max_bytes) == path:
                    found[change.path] = None
    return list(found)


def path_now(
    cache: Cache, proposals: Proposals, log: NoteLog, root: Path, change: Change, max_bytes: int
) -> str:
    """Return the path where the note of a change is now.

    A moved note appeared when the note of the change went, begins as the change left it, and has mostly the same
    text. Raises NoteVanishedError if no note is it, or if more than one may be it.
    """
    if cache.ledger.existing([change.path]):
        return change.path
    if cache.leases.owes("words"):
        raise NoteVanishedError(f"{change.path!r} no longer exists, or was just moved; try again in a minute")
    known = proposals.looked_at(change.domain).get(change.path)
    there = cache.ledger.stat_of(log.appeared_as_it_went(change.path, change.at))
    fits = [
        path
        for path, (raw, *_) in sorted(there.items())
        if known is not None
        and path in cache.ledger.existing([path])
        and _fits(root, raw, max_bytes, change)
        and _has_the_text(cache, path, known)
    ]
    if len(fits) > 1 or _has_twins(cache, proposals, change):
        # Equal notes are told apart by the names of their files, which a moved folder leaves as they are.
        same = [path for path in fits if PurePosixPath(path).name == PurePosixPath(change.path).name]
        if len(same) != 1 and fits:
            raise NoteVanishedError(
                f"{change.path!r} no longer exists, and {', '.join(map(repr, fits))} may be it under another name;"
                f" take {', '.join(change.tags)} out by hand"
            )
        fits = same
    if not fits:
        raise NoteVanishedError(f"{change.path!r} no longer exists")
    return fits[0]


def _fits(root: Path, raw: str, max_bytes: int, change: Change) -> bool:
    """Say whether a note begins as the change left its note."""
    try:
        return vault.is_markdown(raw) and begins(vault.read(root, raw, max_bytes).data, change.head_after)
    except NoteError:
        return False


def _has_the_text(cache: Cache, path: str, known: Looked) -> bool:
    return not is_another(known.sketch, sketch(texts_of(cache, path)))


def _has_twins(cache: Cache, proposals: Proposals, change: Change) -> bool:
    """Say whether another note that is gone was left with the same beginning: what is found may be that one."""
    if change.action in (RENAMED, RENAMING):
        left = {file.path: file.head_after for file in proposals.renames.files(change.id)}
        alike = {path for path, head in left.items() if path != change.path and head == change.head_after}
    else:
        alike = {
            one.path
            for one in proposals.changes.latest(-1)
            if one.action == change.action
            and one.domain == change.domain
            and one.path != change.path
            and one.undone_at is None
            and one.head_after == change.head_after
        }
    return bool(alike - cache.ledger.existing(alike))
