"""The huey tasks of tagging; `workers.tag_sweep` finds the pending work."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from huey.api import Task

from pipelines import beneath, vault
from pipelines.errors import (
    CannotUndoError,
    EverindexError,
    NoteChangedError,
    NoteError,
    NotFoundError,
    TaxonomyError,
)
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, Domain
from pipelines.moments import now_iso
from pipelines.safe_replace import replace_if_unchanged
from pipelines.store.change_log import Change
from pipelines.store.facts import REVIEWED, TAGGED
from pipelines.store.rename_log import RENAMED, RENAMING, RenamedFile
from pipelines.tagging import renames
from pipelines.tagging.candidates import due
from pipelines.tagging.heads import heads
from pipelines.tagging.promote import UNDONE, take_accepted_back, undo
from pipelines.tagging.propose import propose
from pipelines.tagging.review import Reviewed, review
from pipelines.tagging.taxonomy import TAXONOMY_LIMIT
from queue_config.queue import Queue
from workers import review_state
from workers.jobs import job
from workers.tagging_context import QUEUE_PROBLEM, TaggingContext

_SLICE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TagTasks:
    """The registered tasks; calling one enqueues it."""

    propose_tags: Callable[[str], Any]
    review_tags: Callable[[str, str, bool], Any]
    apply_renames: Callable[[str, str, bool], Any]
    undo_change: Callable[[str, str, int], Any]
    undo_decisions: Callable[[str, str, list[int]], Any]


def make_tag_tasks(huey: Queue, context: TaggingContext) -> TagTasks:
    """Register the tasks on a queue. `context` is not used before a task runs.

    A task with a request's id writes its reply to `state.db`, under `tags:<id>`.
    """

    def run(task: Task, domain: str, request: str, work: Callable[[Domain], dict[str, Any]]) -> None:
        found = context.resources.registry().get(domain)
        if found is None:
            return  # the domain no longer exists
        with job(task, domain) as doing:
            doing.update(_counts(_answered(context, request, lambda: work(found))))

    @huey.task(name="propose_tags", priority=LOW_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def propose_tags(domain: str, task: Task) -> None:
        run(task, domain, "", lambda found: propose_due(context, found))

    @huey.task(name="review_tags", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def review_tags(domain: str, request: str, apply: bool, task: Task) -> None:  # noqa: FBT001 - a task's argument
        run(task, domain, request, lambda found: review_now(context, found, apply=apply))

    @huey.task(name="apply_renames", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def apply_renames(domain: str, request: str, dry_run: bool, task: Task) -> None:  # noqa: FBT001 - likewise
        run(task, domain, request, lambda found: rename_tags(context, found, dry_run=dry_run))

    @huey.task(name="undo_change", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def undo_change(domain: str, request: str, number: int, task: Task) -> None:
        run(task, domain, request, lambda found: take_back(context, found, number))

    @huey.task(name="undo_decisions", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def undo_decisions(domain: str, request: str, ids: list[int], task: Task) -> None:
        run(task, domain, request, lambda found: take_decisions_back(context, found, ids))

    return TagTasks(propose_tags, review_tags, apply_renames, undo_change, undo_decisions)


def _counts(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer for the log, which quotes no note: with the length of each list instead of the list."""
    return {name: len(value) if isinstance(value, list) else value for name, value in answer.items()}


def _answered(context: TaggingContext, request: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run `work` and publish its result, or its error, under the request's id."""
    try:
        answer = work()
    except (EverindexError, OSError) as error:
        if not request:
            raise
        answer = {"error": str(error)}
    if request:
        context.resources.state().put(TAGGED, answer, request)
    return answer


# What the tasks do


def propose_due(context: TaggingContext, domain: Domain) -> dict[str, int]:
    """Examine the notes that are due, for about a second; the sweep finds the rest."""
    proposing = context.proposing(domain)
    paths = due(proposing.cache, proposing.proposals, domain.slug, time.time(), domain.configuration)
    until = time.monotonic() + _SLICE_SECONDS
    outcomes = propose(proposing, paths, datetime.now(UTC), lambda: time.monotonic() >= until)
    return {"due": len(paths)} | outcomes


def review_now(context: TaggingContext, domain: Domain, *, apply: bool) -> dict[str, Any]:
    """Read and rewrite a domain's review queue; return what was decided and done. Raises NoteError."""
    context.resources.require_present()
    if journal_of(context, domain).exists():
        _finish_renames(context, domain)  # finish what a crash interrupted first
    problems = context.resources.problems()
    before = review_state.current(context, domain)
    try:
        done = review(context.reviewing(domain, apply=apply), now_iso())
    except NoteChangedError:
        raise
    except NoteError as error:
        problems.report(QUEUE_PROBLEM, domain.slug, f"{domain.slug}: {error}")
        if not error.retry_helps:
            context.resources.state().put(REVIEWED, before, domain.slug)
        raise
    problems.clear(QUEUE_PROBLEM, domain.slug)
    context.resources.state().put(REVIEWED, review_state.after(context, domain, done, before), domain.slug)
    return _plain(done)


def _plain(done: Reviewed) -> dict[str, Any]:
    return {
        "accepted": done.accepted,
        "rejected": done.rejected,
        "applied": [list(pair) for pair in done.promotion.applied],
        "refused": [list(one) for one in done.promotion.refused],
        "put_off": done.promotion.put_off,
    }


def take_back(context: TaggingContext, domain: Domain, number: int) -> dict[str, Any]:
    """Undo a promotion or a run of renames; return what was restored. Raises NotFoundError, CannotUndoError."""
    context.resources.require_present()
    change = context.proposals().changes.find(number)
    if change is None or change.domain != domain.slug:
        raise NotFoundError(f"{domain.slug} has no change {number}; `everindex tags log` lists them")
    done = {"change": number, "action": change.action, "tags": list(change.tags)}
    if change.action in (RENAMED, RENAMING):
        return done | _take_back_renames(context, domain, change)
    undo(context.notes(domain), change, now_iso())
    return done | {"restored": [change.path], "left": []}


def take_decisions_back(context: TaggingContext, domain: Domain, ids: Collection[int]) -> dict[str, Any]:
    """Make accepted proposals wait again and remove them from notes; return the notes left alone, with reasons."""
    context.resources.require_present()
    return {"left": take_accepted_back(context.notes(domain), ids, now_iso())}


# Renames


def journal_of(context: TaggingContext, domain: Domain) -> Path:
    """Return the journal of unfinished renames."""
    return context.resources.place.state / f"renames-{domain.slug}.json"


def rename_tags(context: TaggingContext, domain: Domain, *, dry_run: bool) -> dict[str, Any]:
    """Apply the taxonomy's renames over a domain's notes, all or nothing; return what was, or would be, changed.

    What an earlier run left unfinished is finished first. Raises TaxonomyError.
    """
    context.resources.require_present()
    journal = journal_of(context, domain)

    if journal.exists() and not dry_run:
        earlier = _finish_renames(context, domain)
        if earlier and not earlier.finished:
            return _report(earlier)
    vocabulary = context.vocabulary(domain)
    if vocabulary.error:
        raise TaxonomyError(f"nothing was renamed: {vocabulary.error}")
    file = vault.path_on_disk(context.resources.root, domain.within(domain.taxonomy))
    pairs = vocabulary.taxonomy.renames
    taxonomy = (file, beneath.read_file(context.resources.root, file, TAXONOMY_LIMIT) if pairs else b"")
    planned = renames.plan(_notes_of(context, domain), pairs, taxonomy)
    if dry_run or not pairs:
        return {
            "renames": [list(pair) for pair in pairs],
            "changes": [_change(change) for change in planned.changes],
            "refused": [[one.path, one.reason] for one in planned.refused],
            "finished": not pairs,
        }
    if planned.refused:
        return {"renames": [list(pair) for pair in pairs]} | _report(renames.refused(planned))
    number, replace = _logged(context, domain, pairs)
    done = renames.apply(planned, context.resources.root, journal, replace)
    if done.finished:
        context.proposals().renames.finish(number)
    return {"renames": [list(pair) for pair in pairs], "change": number} | _report(done)


def _finish_renames(context: TaggingContext, domain: Domain) -> renames.Report | None:
    """Finish the renames that a crash or a refused note left unfinished, in the same log entry."""
    number, replace = _logged(context, domain, context.vocabulary(domain).taxonomy.renames)
    done = renames.recover(context.resources.root, journal_of(context, domain), replace)
    if done and done.finished:
        context.proposals().renames.finish(number)
    return done


def _logged(
    context: TaggingContext, domain: Domain, pairs: Sequence[tuple[str, str]]
) -> tuple[int, renames.Replace]:
    """Return the log entry of a run of renames, and the function that records a file there before replacing it."""
    root, log = context.resources.root, context.proposals().renames
    number = log.begin(domain.slug, domain.within(domain.taxonomy), pairs, now_iso())

    def replace(raw: str, read: bytes, new: bytes) -> bytes | None:
        log.write(number, RenamedFile(vault.note_key(raw), *heads(read, new)))
        return replace_if_unchanged(root, raw, read, new, context.displaced)

    return number, replace


def _take_back_renames(context: TaggingContext, domain: Domain, change: Change) -> dict[str, Any]:
    if change.undone_at is not None:
        raise CannotUndoError(f"change {change.id} is already undone")
    if journal_of(context, domain).exists():
        raise CannotUndoError(
            f"the renames of {domain.slug} are not finished; correct the notes that `everindex tags rename` reports,"
            " finish the renames, and then undo them"
        )
    store, root = context.proposals(), context.resources.root
    files = store.renames.files(change.id)
    # A path that is not UTF-8 can be opened only by the name in the ledger.
    raws = context.resources.reader(domain).ledger.stat_of([file.path for file in files])
    named = [
        replace(file, path=raws[file.path][0] if file.path in raws else vault.path_on_disk(root, file.path))
        for file in files
    ]
    done = renames.take_back(
        named, root, lambda raw, read, new: replace_if_unchanged(root, raw, read, new, context.displaced)
    )
    if not done.restored:
        first = done.left[0]
        raise CannotUndoError(f"nothing was undone: {first.path}: {first.reason}")
    if done.finished:
        store.changes.undo(change.id, now_iso())
        store.changes.record(replace(change, at=now_iso(), action=UNDONE, undone_at=None))
    return {
        "restored": list(done.restored),
        "left": [[one.path, one.reason] for one in done.left],
    }


def _notes_of(context: TaggingContext, domain: Domain) -> list[tuple[str, bytes]]:
    """Read a domain's notes as they are; unreadable notes have no known tags."""
    cache = context.resources.reader(domain)
    notes = []
    for raw, _, _, _ in cache.ledger.stat_of(sorted(cache.ledger.settled())).values():
        with suppress(NoteError):
            data = vault.read(context.resources.root, raw, context.resources.settings.max_note_bytes).data
            notes.append((raw, data))
    return notes


def _change(change: renames.Change) -> dict[str, Any]:
    """Return the lines of a change that differ."""
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (change.before, change.after))
    pairs = zip(before, after, strict=False)
    return {"path": change.path, "lines": [[old, new] for old, new in pairs if old != new]}


def _report(done: renames.Report) -> dict[str, Any]:
    return {
        "changed": list(done.changed),
        "refused": [[one.path, one.reason] for one in done.refused],
        "vanished": list(done.vanished),
        "finished": done.finished,
    }
