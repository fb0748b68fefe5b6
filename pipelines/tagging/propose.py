"""Make proposals for the notes that are due: choose the proposer, respect privacy and the day's budget."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np

from pipelines.cache.vectors import Vector, mean_vector
from pipelines.domains import Registry
from pipelines.errors import NoteError, ProposerBusyError, ProposerError
from pipelines.model import Domain, Note, Suggestion, Taxonomy, as_iso
from pipelines.notes.lexical import telling_words
from pipelines.notes.markdown import read_note
from pipelines.notes.privacy import may_leave
from pipelines.state.tags import OPERATOR, Looked, Outcome, Proposals
from pipelines.store import WritableCache
from pipelines.tagging.claude import HaikuProposer, PromptText
from pipelines.tagging.local import EmbeddedNote, LocalProposer, tag_text
from pipelines.tagging.vocabulary import find, renamed
from pipelines.vault import files
from pipelines.vault.files import is_markdown, look

# Select the notes to examine for tags: new ones, and those of which more than half changed since the last time.


_SIZE = 64
_WORD = re.compile(r"\w+")
_PRIME = np.uint64(4_294_967_311)
_CHANCE = np.random.default_rng(1)
_FACTORS = _CHANCE.integers(1, 2**32 - 1, _SIZE, dtype=np.uint64)
_SUMMANDS = _CHANCE.integers(0, 2**32 - 1, _SIZE, dtype=np.uint64)
_STILL_THE_SAME = 0.5
_NOT_SKETCHED = b""
_HASHED = 1024  # places among which the words of a text are spread, where no model makes a vector of it
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


def begin(cache: WritableCache, proposals: Proposals, domain: str, began_ns: float = math.inf) -> None:
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
                sketch(cache.notes.texts_of(path)) if path in settled else _NOT_SKETCHED,
                "baseline",
                None,
                0,
                None,
            )
            for path, note_hash in existing.items()
            if path not in known
        },
    )


def follow_moves(cache: WritableCache, proposals: Proposals, domain: str) -> None:
    """Recognise notes that were renamed: the same bytes at a new path, and the old path is gone."""
    settled, known = cache.ledger.settled(), proposals.looked_at(domain)
    gone = {known[path].note_hash: path for path in known.keys() - cache.ledger.hashes_of(known.keys())}
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


def withdraw(cache: WritableCache, proposals: Proposals, domain: str) -> None:
    """Hide the waiting tags of notes that are gone, and show them again when the notes are back.

    A renamed note keeps its proposals. If another text is now at the old path, the waiting proposals of the former
    note are deleted. A deletion held for confirmation does not count yet.
    """
    waiting, before = proposals.open_paths(domain), proposals.gone(domain)
    if waiting - cache.ledger.hashes_of(waiting).keys():
        follow_moves(cache, proposals, domain)
        waiting = proposals.open_paths(domain)
    gone = waiting - cache.ledger.hashes_of(waiting).keys()
    back = (before & waiting) - gone
    known = proposals.looked_at(domain) if back else {}
    for path in back:
        texts = cache.notes.texts_of(path)
        if not texts:
            gone.add(path)  # not indexed yet
        elif path in known and is_another(known[path].sketch, sketch(texts)):
            proposals.forget(domain, path)
    if gone != before:
        proposals.set_gone(domain, gone)


def drop_given(cache: WritableCache, proposals: Proposals, domain: str, root: Path) -> None:
    """Delete the waiting proposals of tags that a person has given to the note.

    The index has to be as the file is: while the undoing of a tag is not indexed yet, the note seems to have it.
    """
    waiting = proposals.of_state(domain, "waiting")
    facets = cache.filters.facets({one.path for one in waiting})
    tags = {path: {tag.casefold() for tag in of_note} for path, of_note, _ in facets}
    given = [one for one in waiting if one.tag.casefold() in tags.get(one.path, ())]
    files = cache.ledger.stat_of([one.path for one in given])
    proposals.drop([one.id for one in given if one.path in files and _is_current(root, *files[one.path])])


def _is_current(root: Path, raw: str, size: int, mtime_ns: int, is_dirty: bool) -> bool:  # noqa: FBT001 - a row
    file = look(root, raw)
    return not is_dirty and file is not None and (file.size, file.mtime_ns) == (size, mtime_ns)


def due(
    cache: WritableCache, proposals: Proposals, domain: str, now: float, leave_out: Collection[str] = ()
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
            body = sketch(cache.notes.texts_of(path))
            if is_another(last.sketch, body):
                found.append(path)
            else:
                little[path] = replace(last, note_hash=note_hash, sketch=last.sketch or body)
    proposals.look(domain, little)
    return found


LOCAL = "local"
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 3600.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits per day (UTC): notes that are sent, and US dollars."""

    notes: int
    dollars: float


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """What proposing for a domain needs. `local` returns the fitted local proposer; `haiku` is None without a key."""

    domain: Domain
    taxonomy: Taxonomy
    cache: WritableCache
    proposals: Proposals
    root: Path
    max_bytes: int
    local: Callable[[], LocalProposer]
    haiku: HaikuProposer | None
    budget: Budget


@dataclass(frozen=True, slots=True)
class _Examination:
    """The outcome of examining a note."""

    outcome: Outcome
    suggestions: tuple[Suggestion, ...] = ()
    proposer: str = LOCAL
    reason: str | None = None
    next_attempt: float | None = None


def fit_local(
    cache: WritableCache, taxonomy: Taxonomy, encode: Callable[[Sequence[str]], Sequence[Vector]]
) -> LocalProposer:
    """Fit the local proposer to a domain's current index; `encode` embeds documents.

    In a domain without a model, notes that share words are similar.
    """
    encode = encode if cache.meta.embeds else lambda texts: [word_vector(text) for text in texts]
    active = [entry for entry in taxonomy.entries if entry.status == "active"]
    vectors = encode([tag_text(entry) for entry in active]) if active else []
    notes = [
        EmbeddedNote(path, title, text, mean_vector(own if cache.meta.embeds else [word_vector(text)]), tags)
        for path, title, tags, text, own in cache.notes.weighed()
    ]
    return LocalProposer.fit(
        taxonomy, notes, {entry.tag: vector for entry, vector in zip(active, vectors, strict=True)}
    )


def word_vector(text: str) -> Vector:
    """Return the words of a text as a vector (Weinberger et al., "Feature Hashing", ICML 2009); zeros: none."""
    vector = np.zeros(_HASHED, np.float32)
    for word in telling_words(text):
        vector[zlib.crc32(word.encode(errors="surrogatepass")) % _HASHED] += 1
    return vector / max(np.float32(1), np.linalg.norm(vector))


def propose(
    context: ProposalContext, paths: Sequence[str], now: datetime, enough: Callable[[], bool] = lambda: False
) -> dict[str, int]:
    """Examine notes and record the proposals for them; return how many notes had which outcome.

    A note that differs from what is indexed, and all notes left once `enough` is true, wait for the next time.
    """
    counted: dict[str, int] = {}
    known, settled = context.proposals.looked_at(context.domain.slug), context.cache.ledger.settled()
    for path in paths:
        note_hash = settled.get(path)
        note = _read(context, path, note_hash) if note_hash else None
        if note is None or note_hash is None:
            continue
        before = known.get(path)
        if before and is_another(before.sketch, sketch(context.cache.notes.texts_of(path))):
            _leave_former_text(context, path, note_hash, as_iso(now))
        attempts = before.attempts if before and before.outcome == "failed" else 0
        outcome = _record(context, note, note_hash, _ask(context, note, attempts, now), attempts, now)
        counted[outcome] = counted.get(outcome, 0) + 1
        if enough():
            break
    return counted


def _leave_former_text(context: ProposalContext, path: str, note_hash: str, at: str) -> None:
    """Delete the proposals that wait for a text that is gone; what was accepted for it waits again."""
    proposals = context.proposals
    former = [
        one
        for one in proposals.of_note(context.domain.slug, path)
        if one.proposer != OPERATOR and one.note_hash != note_hash
    ]
    proposals.drop([one.id for one in former])
    proposals.settle([one.id for one in former if one.state == "accepted"], "waiting", at, ANOTHER)


def _record(
    context: ProposalContext, note: Note, note_hash: str, answer: _Examination, attempts: int, now: datetime
) -> Outcome:
    """Record the tags that a note lacks, and that it was examined; return the outcome."""
    names = {tag.casefold() for tag in note.tags}
    lacking = [
        (one, entry.group)
        for one in answer.suggestions
        if (entry := find(context.taxonomy, one.tag)) and one.tag.casefold() not in names
    ]
    slug = context.domain.slug
    if lacking:
        context.proposals.add(
            slug, note.path, lacking, proposer=answer.proposer, note_hash=note_hash, at=as_iso(now)
        )
    outcome, reason = answer.outcome, answer.reason
    if outcome == "proposed" and (
        why := _why_nothing(context, note, answer, [one.tag for one, _ in lacking])
    ):
        outcome, reason = "nothing", "; ".join(filter(None, (why, reason)))
    failed = attempts + 1 if outcome == "failed" else 0
    body = sketch(context.cache.notes.texts_of(note.path))
    looked = Looked(note_hash, body, outcome, reason, failed, answer.next_attempt)
    context.proposals.look(slug, {note.path: looked})
    return outcome


def _why_nothing(
    context: ProposalContext, note: Note, answer: _Examination, lacking: Sequence[str]
) -> str | None:
    """Return why no tag waits or was accepted after a note was examined; None: one was proposed, now or earlier."""
    if lacking:
        known = context.proposals.of_note(context.domain.slug, note.path)
        rejected = {one.tag.casefold() for one in known if one.state == "rejected"}
        if any(tag.casefold() not in rejected for tag in lacking):
            return None
        return f"you rejected what fits: {', '.join(lacking)}"
    names = {tag.casefold() for tag in note.tags}
    has = [one.tag for one in answer.suggestions if one.tag.casefold() in names]
    if has:
        return f"it already has the tags that fit: {', '.join(has)}"
    # The local proposer suggests only what a note lacks.
    own = [
        one.tag for one in context.taxonomy.entries if one.status == "active" and one.tag.casefold() in names
    ]
    if own:
        return f"it already has {', '.join(own)}, and no other tag of the vocabulary surely fits it"
    return "no tag of the vocabulary surely fits it"


def _read(context: ProposalContext, path: str, note_hash: str) -> Note | None:
    """Return a note if it still is what was indexed, else None: the ledger will notice the change soon."""
    found = context.cache.ledger.stat_of([path]).get(path)
    try:
        content = files.read(context.root, found[0], context.max_bytes) if found else None
    except NoteError:
        return None
    return read_note(path, content.data) if content and content.sha256 == note_hash else None


def _ask(context: ProposalContext, note: Note, attempts: int, now: datetime) -> _Examination:
    if context.haiku is None:
        return _local(context, note)
    kept = may_leave(
        context.domain.privacy,
        path=note.path,
        text=note.text,
        frontmatter=note.frontmatter,
        tags=note.tags,
        warnings=note.warnings,
    )
    if kept:
        return _local(context, note, reason=f"not sent: {kept}")
    notes, dollars = context.proposals.spending.of_day(now.date().isoformat())
    if notes >= context.budget.notes or dollars >= context.budget.dollars:
        midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
        reason = f"today's budget is used ({notes} note{'' if notes == 1 else 's'}, {dollars:.4f} dollars)"
        return _Examination("failed", reason=reason, next_attempt=midnight.timestamp())
    return _paid(context, context.haiku, note, attempts, now)


def _paid(
    context: ProposalContext, haiku: HaikuProposer, note: Note, attempts: int, now: datetime
) -> _Examination:
    """Ask Claude. Every request counts towards the budget, even one that fails."""
    cost = 0.0
    try:
        proposed = haiku.propose(
            PromptText(note.title, note.text[note.body_start : note.body_end]), context.taxonomy
        )
        cost = proposed.cost_usd
    except ProposerBusyError as error:
        cost = error.cost_usd
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempts)
        wait = max(pause, error.retry_after or 0.0)
        return _Examination("failed", reason=str(error), next_attempt=now.timestamp() + wait)
    except ProposerError as error:
        return _Examination("failed", reason=str(error), next_attempt=now.timestamp() + _LONGEST_PAUSE)
    finally:
        context.proposals.spending.add(now.date().isoformat(), haiku.model, cost)
    return _Examination("proposed", proposed.suggestions, haiku.model)


def _local(context: ProposalContext, note: Note, reason: str | None = None) -> _Examination:
    body = note.text[note.body_start : note.body_end]
    # The vector of a note without text is that of its names.
    cache = context.cache
    own = cache.notes.vectors_of(note.path) if cache.meta.embeds else [word_vector(body)]
    vector = mean_vector(own) if body.strip() else None
    weighed = EmbeddedNote(note.path, note.title, body, vector, note.tags)
    return _Examination("proposed", context.local().propose(weighed, context.domain.threshold), LOCAL, reason)
