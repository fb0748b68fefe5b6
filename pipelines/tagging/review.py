"""The review queue of a domain: read the operator's decisions, carry them out, and write the next page."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from pipelines.errors import NoteChangedError, NoteError, TaxonomyError, UnsafePathError
from pipelines.model import Domain
from pipelines.state.tags import Proposal
from pipelines.tagging import vocabulary
from pipelines.tagging.apply import DomainNotes, Promotion, promote
from pipelines.tagging.review_file import MARKER, KeptText, QueuedNote, QueuedTag, Reading, read, render
from pipelines.tagging.vocabulary import TaxonomyFile, add_tag
from pipelines.vault import files
from pipelines.vault import paths as beneath
from pipelines.vault.write import replace_if_unchanged

NOTES_A_PAGE = 25
_TRIES = 5
_LIMIT = 4_000_000  # bytes: a page has about 30,000, plus what a person wrote into it


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """What reviewing a domain needs. `apply` is false if accepted tags wait to be promoted."""

    domain: Domain
    vocabulary: TaxonomyFile
    notes: DomainNotes
    apply: bool = True


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What processing the queue did and left.

    `written` says whether a new page was written, `page` what the file contains (None: no file), and `version` which
    proposals the page shows.
    """

    accepted: int
    rejected: int
    promotion: Promotion
    written: bool
    page: bytes | None
    version: list[Any]


@dataclass(frozen=True, slots=True)
class _Page:
    """A page as it is written: its name, what it shows (proposal and path), its bytes."""

    name: str
    shown: tuple[tuple[int, str], ...]
    data: bytes


def review(context: ReviewContext, at: str, late: bytes | None = None) -> Reviewed:
    """Read the queue's page, carry out its decisions, and write the next page; `at` is the time, ISO 8601.

    `late` is a page that an editor wrote after it had been replaced: its decisions count, and the text that a person
    wrote in it is added. What is written meanwhile is read, too, because a page only replaces the version that was
    read. Raises NoteChangedError if the file keeps changing, NoteError if it cannot be used.
    """
    found = on_disk(context)
    more = _read(context, late) if late is not None else Reading()
    accepted, rejected = _decide(context, more, at)
    promotion = Promotion()
    for _ in range(_TRIES):
        reading = _read(context, found) if found is not None else Reading()
        one, other = _decide(context, reading, at)
        accepted, rejected = accepted + one, rejected + other
        if context.apply:
            _extend_vocabulary(context, at)
            promotion.add(promote(context.notes, at))
        _follow_vocabulary(context, at)
        kept = (*reading.kept, *_missing(more.kept, reading.kept))
        version = context.notes.proposals.version(context.domain.slug)
        page = _page(context, replace(reading, kept=kept), promotion)
        if found == page.data or (found is None and not page.shown and not kept):
            return Reviewed(accepted, rejected, promotion, written=False, page=found, version=version)
        context.notes.proposals.pages.show(page.name, context.domain.slug, page.shown, at)
        there = replace_if_unchanged(
            context.notes.root, _raw(context), found, page.data, context.notes.displaced
        )
        if there is None:
            return Reviewed(accepted, rejected, promotion, written=True, page=page.data, version=version)
        found = there
    raise NoteChangedError(f"{_raw(context)!r} is being written to; it will be read when it is quiet")


def _missing(more: Sequence[KeptText], there: Sequence[KeptText]) -> list[KeptText]:
    """Return the lines of kept text that are not there yet."""
    known = {line for one in there for line in one.text.split("\n")}
    left = [
        (one, [line for line in one.text.split("\n") if line.strip() and line not in known]) for one in more
    ]
    return [replace(one, text="\n".join(lines)) for one, lines in left if lines]


def _raw(context: ReviewContext) -> str:
    """Return the page's path on disk: the domain's folder may be there in another Unicode form."""
    return files.path_on_disk(context.notes.root, context.domain.within(context.domain.review_queue))


def on_disk(context: ReviewContext) -> bytes | None:
    """Return the page's bytes, or None if there is no file. Raises NoteError, also for a file that is not a page."""
    raw = _raw(context)
    how = "move it away, or name another `review_queue` in _domains.yaml"
    try:
        data = beneath.read_file(context.notes.root, raw, _LIMIT)
    except FileNotFoundError:
        return None
    except UnsafePathError as error:
        raise NoteError(f"the review queue is not written: {error}; {how}") from error
    except OSError as error:
        raise NoteError(f"{raw!r} cannot be read ({error.strerror}); check its permissions") from error
    text = data.decode("utf-8", "replace")
    if text.strip("\ufeff \t\r\n") and not MARKER.search(text):
        raise NoteError(f"{raw!r} is not a review queue of Everindex and stays as it is; {how}")
    return data


# Reading a page


def _read(context: ReviewContext, data: bytes) -> Reading:
    # Bytes that are not UTF-8 are written back unchanged.
    text = data.decode("utf-8", "surrogateescape")
    marker = next((match for match in MARKER.finditer(text) if match["kind"].lower() == "page"), None)
    name = marker["id"].lower() if marker else ""
    shown = context.notes.proposals.pages.shown(name, context.domain.slug) or []
    paths = dict(shown)
    proposals = {one.id: one for one in context.notes.proposals.get(paths)}
    # Each item stays under the path that its note had when the page was written.
    known = [replace(proposals[number], path=path) for number, path in shown if number in proposals]

    def find(written: str) -> str | None:
        entry = vocabulary.find(context.vocabulary.taxonomy, written)
        return entry.tag if entry else None

    reading = read(text, _queued(context, known), name, find)
    moved = {path: proposals[number].path for number, path in shown if number in proposals}
    return replace(
        reading,
        typed=tuple((moved.get(path, path), tag) for path, tag in reading.typed),
        additions=tuple((moved.get(path, path), tag) for path, tag in reading.additions),
    )


def _queued(context: ReviewContext, proposals: Sequence[Proposal]) -> list[QueuedNote]:
    """Group proposals, which are ordered by note, into what a page shows."""
    opened = context.notes.cache.notes.openings({one.path for one in proposals})
    notes = []
    for path, group in groupby(proposals, key=lambda one: one.path):
        title, opening = opened.get(path, (Path(path).stem, ""))
        tags = tuple(
            QueuedTag(one.id, one.tag, one.group, one.confidence, _proposer(one), one.state == "addition")
            for one in group
        )
        notes.append(QueuedNote(path, title, _without_headings(opening), tags))
    return notes


def _proposer(one: Proposal) -> str:
    """Return who proposes a tag, and why if it says so; the queue escapes both."""
    said = [one.rationale, one.reason if one.state == "waiting" else None]
    return ": ".join([one.proposer, *(["; ".join(filter(None, said))] if any(said) else [])])


def _without_headings(opening: str) -> str:
    """Leave out the headings that a note begins with, because the title is already above the quote."""
    lines = opening.lstrip().splitlines()
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    return "\n".join(lines[first:])


def _decide(context: ReviewContext, reading: Reading, at: str) -> tuple[int, int]:
    """Record the decisions of a page; return how many tags were accepted and rejected. Earlier decisions stay."""
    proposals, slug = context.notes.proposals, context.domain.slug
    yes = set(reading.accepted) | {number for number, accepted in reading.elsewhere.items() if accepted}
    no = set(reading.rejected) | {number for number, accepted in reading.elsewhere.items() if not accepted}
    own = {one.id for one in proposals.get(yes | no) if one.domain == slug}
    accepted = proposals.decide(yes & own, "accepted", at)
    rejected = proposals.decide(no & own, "rejected", at)
    for path, tag in reading.typed:
        entry = vocabulary.find(context.vocabulary.taxonomy, tag)
        proposals.want(slug, path, tag, entry.group if entry else "", "accepted", at)
    for path, tag in reading.additions:
        proposals.want(slug, path, tag, "", "addition", at)
    return accepted + len(reading.typed), rejected


def _extend_vocabulary(context: ReviewContext, at: str) -> None:
    """Add accepted tags that the vocabulary lacks to it; one that cannot be added is shown again, with the reason."""
    proposals = context.notes.proposals
    for one in proposals.of_state(context.domain.slug, "accepted"):
        if not _is_known(context, one.tag) and not _add_to_vocabulary(context, one.tag):
            proposals.settle([one.id], "addition", at)


def _follow_vocabulary(context: ReviewContext, at: str) -> None:
    """Make waiting tags that the vocabulary lost additions to it, and additions that it has ordinary tags."""
    if context.vocabulary.error:
        return
    proposals, slug = context.notes.proposals, context.domain.slug
    if gone := [one.id for one in proposals.of_state(slug, "waiting") if not _is_known(context, one.tag)]:
        proposals.settle(gone, "addition", at)
    if known := [one.id for one in proposals.of_state(slug, "addition") if _is_known(context, one.tag)]:
        proposals.settle(known, "waiting", at)


def _is_known(context: ReviewContext, tag: str) -> bool:
    """Say whether the vocabulary, as it was read for this review, has a tag."""
    return vocabulary.find(context.vocabulary.taxonomy, tag) is not None


def _add_to_vocabulary(context: ReviewContext, tag: str) -> bool:
    """Add a tag to the taxonomy file; say whether the file now has it. Raises NoteError."""
    root = context.notes.root
    raw = files.path_on_disk(root, context.domain.within(context.domain.taxonomy))
    try:
        data = beneath.read_file(root, raw, vocabulary.TAXONOMY_LIMIT)
    except FileNotFoundError:
        data = b""
    except (OSError, UnsafePathError):
        return False
    try:
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        new = mark + add_tag(data.decode("utf-8-sig"), tag).encode()
    except (TaxonomyError, UnicodeDecodeError):
        return False
    return new == data or replace_if_unchanged(root, raw, data, new, context.notes.displaced) is None


# Writing the next page


def _page(context: ReviewContext, reading: Reading, promotion: Promotion) -> _Page:
    waiting = context.notes.proposals.of_state(context.domain.slug, "waiting", "addition")
    there = context.notes.cache.notes.openings({one.path for one in waiting})
    waiting = [one for one in waiting if one.path in there]
    by_note = {path: list(group) for path, group in groupby(_by_note(waiting), key=lambda one: one.path)}
    first = [one for group in list(by_note.values())[:NOTES_A_PAGE] for one in group]
    queued = _queued(context, first)
    beyond, message = len(waiting) - len(first), _message(context, reading, promotion)
    # A page's name is derived from its content: the same page, written again, has the same bytes.
    unnamed = render(queued, beyond, "", kept=reading.kept, message=message)
    name = hashlib.sha256(unnamed.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    text = render(queued, beyond, name, kept=reading.kept, message=message)
    shown = tuple((one.id, one.path) for one in first)
    return _Page(name, shown, text.encode("utf-8", "surrogateescape"))


def _by_note(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Order proposals by the newest of their note, with each note's proposals together."""
    newest: dict[str, int] = {}
    for place, one in enumerate(proposals):
        newest.setdefault(one.path, place)
    return sorted(proposals, key=lambda one: newest[one.path])


def _message(context: ReviewContext, reading: Reading, promotion: Promotion) -> str | None:
    said = []
    if reading.damaged:
        said.append(
            f"This file was incomplete: {reading.damaged}. Marked tags count; missing ones wait again."
            " To reject those, put a - into their boxes."
        )
    said += [f"{tag} was not given to {path}: {why}." for path, tag, why in promotion.refused]
    accepted = context.notes.proposals.of_state(context.domain.slug, "accepted")
    if accepted and not context.apply:
        said.append(f"Accepted and not applied yet: {len(accepted)}. everindex tags apply adds them.")
    asked = [one.tag for one in context.notes.proposals.get(reading.accepted) if one.state == "addition"]
    if asked:
        said.append(
            f"Not added to the vocabulary: {', '.join(asked)}. Correct the vocabulary, and accept again."
        )
    if context.vocabulary.error:
        said.append(f"The vocabulary cannot be used: {context.vocabulary.error}")
    return " ".join(said) or None
