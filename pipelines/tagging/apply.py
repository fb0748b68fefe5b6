"""Write accepted tags into notes' frontmatter, with an audit entry per note, and undo such changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path, PurePosixPath

from pipelines.errors import CannotUndoError, NoteChangedError, NoteError, NoteTagsError, NoteVanishedError
from pipelines.notes.encodings import decode
from pipelines.notes.frontmatter import read_frontmatter
from pipelines.state.note_log import NoteLog
from pipelines.state.tags import (
    OPERATOR,
    PROMOTED,
    RENAMED,
    RENAMING,
    REPLACED,
    UNDONE,
    Change,
    Looked,
    Proposal,
    Proposals,
)
from pipelines.store import WritableCache
from pipelines.tagging.note_tags import add_tags, differs_by, remove_tags, tags_of_head
from pipelines.tagging.propose import ANOTHER, is_another, sketch
from pipelines.tagging.vocabulary import renamed
from pipelines.vault import files
from pipelines.vault.write import Late, replace_if_unchanged

# Describe a change to a file so that it can be undone exactly: by the lines up to the last one that differs.


def heads(before: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Return the beginnings of two versions, in whole lines; the rest is the same in both."""
    same = 0
    shortest = min(len(before), len(after))
    while same < shortest and before[-1 - same] == after[-1 - same]:
        same += 1
    head_before, head_after = before[: len(before) - same], after[: len(after) - same]
    if head_after.endswith(b"\n") and (not head_before or head_before.endswith(b"\n")):
        return head_before, head_after
    # A line that differs belongs to the head as a whole, so that an edit on it is noticed.
    tail = before[len(before) - same :]
    rest = tail[: tail.find(b"\n") + 1] or tail
    return head_before + rest, head_after + rest


def restored(data: bytes, head_before: bytes, head_after: bytes) -> bytes | None:
    """Return a file as it was before a change, with later changes below it kept; None if that cannot be determined.

    A file that is already as it was is returned unchanged, because undoing may be repeated after a crash.
    """
    # If both beginnings fit, one is a prefix of the other, and the longer one is meant.
    for head in sorted((head_after, head_before), key=len, reverse=True):
        if begins(data, head):
            return data if head == head_before else head_before + data[len(head_after) :]
    return None


def begins(data: bytes, head: bytes) -> bool:
    """Say whether a file begins with these whole lines; if the last line goes on, it was edited."""
    follows = data[len(head) : len(head) + 1]
    return data.startswith(head) and (head.endswith(b"\n") or follows in (b"", b"\n", b"\r"))


# Find the note of a change that was moved before the index had its new bytes, so that no hash recognises it.


def found_again(
    cache: WritableCache, proposals: Proposals, log: NoteLog, root: Path, change: Change, max_bytes: int
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
    cache: WritableCache,
    proposals: Proposals,
    log: NoteLog,
    root: Path,
    domain: str,
    path: str,
    max_bytes: int,
) -> list[str]:
    """Return where a note was when its tags were promoted, as far as the undoing would find it at `path` now."""
    if not cache.ledger.hashes_of([path]):
        return []
    promoted = [
        one
        for one in proposals.changes.latest(-1)
        if one.domain == domain and one.action == PROMOTED and one.undone_at is None
    ]
    there = cache.ledger.hashes_of({one.path for one in promoted})
    found: dict[str, None] = {}
    for change in promoted:
        if change.path not in there and path in log.appeared_as_it_went(change.path, change.at):
            with suppress(NoteVanishedError):
                if path_now(cache, proposals, log, root, change, max_bytes) == path:
                    found[change.path] = None
    return list(found)


def path_now(
    cache: WritableCache, proposals: Proposals, log: NoteLog, root: Path, change: Change, max_bytes: int
) -> str:
    """Return the path where the note of a change is now.

    A moved note appeared when the note of the change went, begins as the change left it, and has mostly the same
    text. Raises NoteVanishedError if no note is it, or if more than one may be it.
    """
    if cache.ledger.hashes_of([change.path]):
        return change.path
    if cache.leases.has_pending("words"):
        raise NoteVanishedError(f"{change.path!r} no longer exists, or was just moved; try again in a minute")
    known = proposals.looked_at(change.domain).get(change.path)
    there = cache.ledger.stat_of(log.appeared_as_it_went(change.path, change.at))
    fits = [
        path
        for path, (raw, *_) in sorted(there.items())
        if known is not None
        and path in cache.ledger.hashes_of([path])
        and _fits(root, raw, max_bytes, change)
        and _has_the_text(cache, path, known)
    ]
    if len(fits) > 1 or _has_twins(cache, proposals, change):
        # The names of their files distinguish equal notes; a moved folder leaves the names as they are.
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
        return files.is_markdown(raw) and begins(files.read(root, raw, max_bytes).data, change.head_after)
    except NoteError:
        return False


def _has_the_text(cache: WritableCache, path: str, known: Looked) -> bool:
    return not is_another(known.sketch, sketch(cache.notes.texts_of(path)))


def _has_twins(cache: WritableCache, proposals: Proposals, change: Change) -> bool:
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
    return bool(alike - cache.ledger.hashes_of(alike).keys())


@dataclass(frozen=True, slots=True)
class DomainNotes:
    """A domain's notes and what is known of them; `displaced` is a folder of the state folder."""

    domain: str
    root: Path
    max_bytes: int
    cache: WritableCache
    proposals: Proposals
    log: NoteLog
    displaced: Path


@dataclass(slots=True)
class Promotion:
    """The result of a promotion: (path, tag) applied, refused with reason, and paths postponed while in use."""

    applied: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str, str]] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)

    def add(self, more: Promotion) -> None:
        """Add the result of another run."""
        self.applied += more.applied
        self.refused += more.refused
        self.postponed = more.postponed


def promote(notes: DomainNotes, at: str) -> Promotion:
    """Give every note the tags that were accepted for it; `at` is the time for the audit log.

    If a note changed by more than half since a tag was proposed, the tag waits again; a typed tag is applied anyway.
    It also waits again if the note has to be corrected before it can be edited.
    A tag that was renamed since is written with its new name.
    """
    done = Promotion()
    looked = notes.proposals.looked_at(notes.domain)
    accepted = sorted(notes.proposals.of_state(notes.domain, "accepted"), key=lambda one: one.path)
    for path, group in groupby(accepted, key=lambda one: one.path):
        wanted = list(group)
        if not notes.cache.ledger.hashes_of([path]):
            _miss(notes, path, wanted, at, done)
            continue
        if path in looked:
            stale = _of_former_text(notes, path, wanted, looked[path].sketch)
            _refuse(notes, stale, ANOTHER, at, done, waits=True)
            wanted = [one for one in wanted if one not in stale]
        if wanted:
            _apply(notes, path, wanted, at, done)
    return done


def _of_former_text(
    notes: DomainNotes, path: str, wanted: Sequence[Proposal], former: bytes
) -> list[Proposal]:
    """Return the tags that were proposed for a text of which more than half is gone; `former` is its sketch.

    The file decides: the index may not have its text yet. Such a text is compared without being parsed: it may have
    been written to take long.
    """
    found = notes.cache.ledger.stat_of([path]).get(path)
    if found is None:
        return []
    try:
        content = files.read(notes.root, found[0], notes.max_bytes)
    except NoteError:
        return []  # writing the tags reports it
    if notes.cache.notes.indexed_hashes([path]).get(path) == content.sha256:
        texts = notes.cache.notes.texts_of(path)
    else:
        text = decode(content.data)[0]
        texts = [text[read_frontmatter(text).end :]]
    if not is_another(former, sketch(texts)):
        return []
    return [one for one in wanted if one.proposer != OPERATOR and one.note_hash != content.sha256]


def _apply(notes: DomainNotes, path: str, wanted: Sequence[Proposal], at: str, done: Promotion) -> None:
    tags = tuple(dict.fromkeys(_name_now(notes, one) for one in wanted))
    try:
        before, after = _edit(notes, path, lambda data: add_tags(data, tags))
    except NoteVanishedError:
        _miss(notes, path, wanted, at, done)
    except NoteChangedError:
        done.postponed.append(path)
    except NoteError as error:
        if error.retry_helps:
            done.postponed.append(path)
        else:
            # Only another kind of file can never have a tag; what is wrong with a note can be corrected.
            _refuse(notes, wanted, str(error), at, done, waits=files.is_markdown(path))
    else:
        ids = [one.id for one in wanted]
        if before == after:
            notes.proposals.settle(ids, "applied", at)  # a person, or an interrupted run, did it before
            done.refused += [(path, tag, "the note has it already") for tag in tags]
        else:
            notes.proposals.changes.record(
                _change(notes.domain, path, tags, PROMOTED, before, after, at), ids
            )
            done.applied += [(path, tag) for tag in tags]


def _name_now(notes: DomainNotes, one: Proposal) -> str:
    """Return the name of a proposal's tag after the renames made since."""
    return _name_after(notes, one.tag, one.proposed_at)


def _name_after(notes: DomainNotes, tag: str, since: str) -> str:
    """Return the name of a tag after the renames made since a time."""
    for run in notes.proposals.renames.since(notes.domain, since):
        tag = renamed(tag, {old.casefold(): new for old, new in run.items()}) or tag
    return tag


def _miss(notes: DomainNotes, path: str, wanted: Sequence[Proposal], at: str, done: Promotion) -> None:
    """Refuse the tags of a note that is gone, unless it may only have moved, which pending work will show."""
    if notes.cache.leases.has_pending("words"):
        done.postponed.append(path)
    else:
        _refuse(notes, wanted, f"{path!r} no longer exists", at, done)


def _refuse(
    notes: DomainNotes, which: Sequence[Proposal], why: str, at: str, done: Promotion, *, waits: bool = False
) -> None:
    if which:
        notes.proposals.settle([one.id for one in which], "waiting" if waits else "refused", at, why)
        said = f"{why}; it waits again" if waits else why
        done.refused += [(one.path, one.tag, said) for one in which]


def _edit(notes: DomainNotes, path: str, edited: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
    """Replace a note by its edited version; return its bytes before and after.

    Raises NoteError (NoteChangedError: it is being written).
    """
    if not files.is_markdown(path):
        raise NoteTagsError(f"{path!r} is not Markdown, and tags are written into frontmatter only")
    found = notes.cache.ledger.stat_of([path]).get(path)
    if found is None:
        raise NoteVanishedError(f"{path!r} no longer exists")
    data = files.read(notes.root, found[0], notes.max_bytes).data
    after = edited(data)
    if after != data and replace_if_unchanged(notes.root, found[0], data, after, notes.displaced) is not None:
        raise NoteChangedError(f"{path!r} is being written; its tags are written when it is quiet")
    return data, after


def _change(
    domain: str, path: str, tags: tuple[str, ...], action: str, before: bytes, after: bytes, at: str
) -> Change:
    """Describe a change by the beginnings that differ."""
    return Change(0, at, domain, path, tags, action, *heads(before, after), None)


def taken_back(data: bytes, head_before: bytes, head_after: bytes, tags: Collection[str]) -> bytes:
    """Return a note without the tags that a promotion added to it, and otherwise with what was written since.

    Tags that it had before stay. Raises NoteTagsError.
    """
    had = tags_of_head(head_before)
    added = [tag for tag in tags if tag.casefold() not in had]
    # Exact in every byte, but what was written since, such as another tag, may hang on the lines that it takes out.
    exact = restored(data, head_before, head_after)
    return exact if exact is not None and differs_by(data, exact, added) else remove_tags(data, added)


def _before_replaced(data: bytes, change: Change) -> bytes:
    """Return a note with the text that it had before a program replaced it. Raises CannotUndoError."""
    text = restored(data, change.head_before, change.head_after)
    if text is None:
        raise CannotUndoError(f"{change.path!r} was changed since; correct it by hand")
    return text


def undo(notes: DomainNotes, change: Change, at: str) -> bool:
    """Undo a promotion, and say whether the note had to be changed; its tags wait again, by their names of today.

    A note that a program replaced gets its text back; what was changed since below what differed stays. After a
    promotion, the note becomes as it was if its frontmatter then only lacks these tags; otherwise the tags alone are
    removed. Raises CannotUndoError if there is nothing to undo, and NoteError if the note cannot be changed.
    """
    if change.undone_at is not None:
        raise CannotUndoError(f"change {change.id} is already undone")
    if change.action not in (PROMOTED, REPLACED):
        raise CannotUndoError(f"change {change.id} is neither a promotion nor a run of renames")
    change = found_again(notes.cache, notes.proposals, notes.log, notes.root, change, notes.max_bytes)
    if change.action == REPLACED:
        before, after = _edit(notes, change.path, lambda data: _before_replaced(data, change))
        notes.proposals.changes.undo(change.id, at)
        return before != after
    names = {*change.tags, *(_name_after(notes, tag, change.at) for tag in change.tags)}
    before, after = _edit(
        notes, change.path, lambda data: taken_back(data, change.head_before, change.head_after, names)
    )
    notes.proposals.changes.undo(change.id, at)
    waiting = [one for one in notes.proposals.of_note(notes.domain, change.path) if one.state == "waiting"]
    now = {one.id: name for one in waiting if (name := _name_now(notes, one)) != one.tag}
    notes.proposals.keys.retag(now)
    if before != after:
        notes.proposals.changes.record(
            _change(notes.domain, change.path, change.tags, UNDONE, before, after, at)
        )
    return before != after


def take_accepted_back(notes: DomainNotes, ids: Collection[int], at: str) -> list[tuple[str, str]]:
    """Make accepted proposals wait again, and undo the promotions that wrote them, including their other tags.

    Return the notes that were left alone, with the reasons.
    """
    own = [one for one in notes.proposals.get(ids) if one.domain == notes.domain]
    notes.proposals.settle([one.id for one in own if one.state == "accepted"], "waiting", at)
    left = []
    for path in dict.fromkeys(one.path for one in own if one.state == "applied"):
        tags = {_name_now(notes, one).casefold() for one in own if one.path == path}
        found = [
            change
            for change in notes.proposals.changes.latest(-1, path)
            if change.action == PROMOTED
            and change.undone_at is None
            and tags.intersection(tag.casefold() for tag in change.tags)
        ]
        if not found:
            left.append((path, "no change that can be taken back gave it its tags"))
        try:
            for change in found:
                undo(notes, notes.proposals.changes.find(change.id) or change, at)  # it may have moved
        except NoteError as error:
            left.append((path, str(error)))
    return left


def merge_late(notes: DomainNotes, path: str, late: Late) -> bool:
    """Merge what an editor wrote into a note after Everindex had replaced it; say whether that was done.

    The editor's version wins, with the tags that Everindex had added. If the note is no longer what Everindex made of
    it, both versions are a person's, and nothing is done.
    """
    tags = [change.tags for change in notes.proposals.changes.latest(1, path) if change.action == PROMOTED]
    found = notes.cache.ledger.stat_of([path]).get(path)
    if not tags or found is None:
        return False
    data = files.read(notes.root, found[0], notes.max_bytes).data
    if data != add_tags(late.base, tags[0]):
        return False
    return (
        replace_if_unchanged(notes.root, found[0], data, add_tags(late.late, tags[0]), notes.displaced)
        is None
    )
