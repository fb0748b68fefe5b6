"""Make proposals for the notes that are due: choose the proposer, respect privacy and the day's budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipelines.disk import vault
from pipelines.errors import NoteError, ProposerBusyError, ProposerError
from pipelines.model import Domain, Note, Suggestion, Taxonomy
from pipelines.moments import as_iso
from pipelines.parsing.markdown import read_note
from pipelines.parsing.privacy import may_leave
from pipelines.store.cache import Cache, Vector
from pipelines.store.notes import texts_of, vectors_of, weighed_notes
from pipelines.store.proposals import OPERATOR, Looked, Outcome, Proposals
from pipelines.tagging.candidates import ANOTHER, is_another, sketch
from pipelines.tagging.haiku import HaikuProposer, NoteText
from pipelines.tagging.local import EmbeddedNote, LocalProposer, tag_text
from pipelines.tagging.taxonomy import find
from pipelines.vectors import mean_vector

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
    cache: Cache
    proposals: Proposals
    root: Path
    max_bytes: int
    local: Callable[[], LocalProposer]
    haiku: HaikuProposer | None
    budget: Budget


@dataclass(frozen=True, slots=True)
class _Answer:
    """The outcome of examining a note."""

    outcome: Outcome
    suggestions: tuple[Suggestion, ...] = ()
    proposer: str = LOCAL
    reason: str | None = None
    next_attempt: float | None = None


def fit_local(
    cache: Cache, taxonomy: Taxonomy, encode: Callable[[Sequence[str]], Sequence[Vector]]
) -> LocalProposer:
    """Fit the local proposer to a domain's current index; `encode` embeds documents."""
    active = [entry for entry in taxonomy.entries if entry.status == "active"]
    vectors = encode([tag_text(entry) for entry in active]) if active else []
    notes = [
        EmbeddedNote(path, title, text, mean_vector(own), tags)
        for path, title, tags, text, own in weighed_notes(cache)
    ]
    return LocalProposer.fit(
        taxonomy, notes, {entry.tag: vector for entry, vector in zip(active, vectors, strict=True)}
    )


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
        if before and is_another(before.sketch, sketch(texts_of(context.cache, path))):
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
    context: ProposalContext, note: Note, note_hash: str, answer: _Answer, attempts: int, now: datetime
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
    body = sketch(texts_of(context.cache, note.path))
    looked = Looked(note_hash, body, outcome, reason, failed, answer.next_attempt)
    context.proposals.look(slug, {note.path: looked})
    return outcome


def _why_nothing(context: ProposalContext, note: Note, answer: _Answer, lacking: Sequence[str]) -> str | None:
    """Return why no tag waits or was accepted after a note was examined; None: one was proposed, now or earlier."""
    if lacking:
        known = context.proposals.of_note(context.domain.slug, note.path)
        rejected = {one.tag.casefold() for one in known if one.state == "rejected"}
        if any(tag.casefold() not in rejected for tag in lacking):
            return None
        return f"you rejected what fits: {', '.join(lacking)}"
    names = {tag.casefold() for tag in note.tags}
    has = [one.tag for one in answer.suggestions if one.tag.casefold() in names]
    return f"it already has what fits: {', '.join(has)}" if has else "no tag of the vocabulary surely fits it"


def _read(context: ProposalContext, path: str, note_hash: str) -> Note | None:
    """Return a note if it still is what was indexed, else None: the ledger will notice the change soon."""
    found = context.cache.ledger.stat_of([path]).get(path)
    try:
        content = vault.read(context.root, found[0], context.max_bytes) if found else None
    except NoteError:
        return None
    return read_note(path, content.data) if content and content.sha256 == note_hash else None


def _ask(context: ProposalContext, note: Note, attempts: int, now: datetime) -> _Answer:
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
        return _Answer("failed", reason=reason, next_attempt=midnight.timestamp())
    return _paid(context, context.haiku, note, attempts, now)


def _paid(
    context: ProposalContext, haiku: HaikuProposer, note: Note, attempts: int, now: datetime
) -> _Answer:
    """Ask Claude. Every request counts towards the budget, even one that fails."""
    cost = 0.0
    try:
        proposed = haiku.propose(
            NoteText(note.title, note.text[note.body_start : note.body_end]), context.taxonomy
        )
        cost = proposed.cost_usd
    except ProposerBusyError as error:
        cost = error.cost_usd
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempts)
        wait = max(pause, error.retry_after or 0.0)
        return _Answer("failed", reason=str(error), next_attempt=now.timestamp() + wait)
    except ProposerError as error:
        return _Answer("failed", reason=str(error), next_attempt=now.timestamp() + _LONGEST_PAUSE)
    finally:
        context.proposals.spending.add(now.date().isoformat(), haiku.model, cost)
    return _Answer("proposed", proposed.suggestions, haiku.model)


def _local(context: ProposalContext, note: Note, reason: str | None = None) -> _Answer:
    body = note.text[note.body_start : note.body_end]
    # The vector of a note without text is that of its names.
    vector = mean_vector(vectors_of(context.cache, note.path)) if body.strip() else None
    weighed = EmbeddedNote(note.path, note.title, body, vector, note.tags)
    return _Answer("proposed", context.local().propose(weighed, context.domain.threshold), LOCAL, reason)
