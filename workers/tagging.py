"""The huey tasks of tagging; `workers.tag_sweep` finds the pending work."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from huey.api import Task

from pipelines.errors import DomainNotFoundError, EverindexError, NoteChangedError, NoteError, NotFoundError
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, Domain, now_iso
from pipelines.state.state import REVIEWED, TAGGED
from pipelines.state.tags import RENAMED, RENAMING
from pipelines.tagging.apply import take_accepted_back, undo
from pipelines.tagging.propose import due, propose
from pipelines.tagging.review import Reviewed, review
from queue_config.queue import Queue
from workers import tag_context
from workers.attention import chosen
from workers.jobs import job
from workers.renames import finish_renames, rename_tags, take_back_renames
from workers.tag_context import QUEUE_PROBLEM, TaggingContext

_SLICE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TagTasks:
    """The registered tasks; calling one enqueues it."""

    propose_tags: Callable[[str], Any]
    review_tags: Callable[[str, str, bool], Any]
    apply_renames: Callable[[list[str], str, bool], Any]
    undo_change: Callable[[str, str, int], Any]
    undo_decisions: Callable[[str, str, list[int]], Any]


def make_tag_tasks(huey: Queue, context: TaggingContext) -> TagTasks:
    """Register the tasks, which alone use `context`; the reply to a request's id goes to `state.db`, `tags:<id>`."""

    def run(task: Task, domain: str, request: str, work: Callable[[Domain], dict[str, Any]]) -> None:
        found = context.resources.registry().get(domain)
        if found is None:
            _answer_for_none(context, request, domain)
        else:
            with job(task, domain) as doing:
                doing.update(_counts(_answered(context, request, lambda: work(found))))

    @huey.task(name="propose_tags", priority=LOW_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def propose_tags(domain: str, task: Task) -> None:
        run(task, domain, "", lambda found: propose_due(context, found))

    @huey.task(name="review_tags", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def review_tags(domain: str, request: str, apply: bool, task: Task) -> None:  # noqa: FBT001 - a task's argument
        run(task, domain, request, lambda found: review_now(context, found, apply=apply))

    @huey.task(name="apply_renames", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def apply_renames(domains: list[str], request: str, dry_run: bool, task: Task) -> None:  # noqa: FBT001 - likewise
        registry = context.resources.registry()
        found = [domain for slug in domains if (domain := registry.get(slug))]
        with job(task, domains[0] if len(domains) == 1 else "*") as doing:
            answer = _answered(
                context, request, lambda: {"domains": rename_tags(context, found, dry_run=dry_run)}
            )
            doing.update(_sums(answer.get("domains", {}).values()))

    @huey.task(name="undo_change", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def undo_change(domain: str, request: str, number: int, task: Task) -> None:
        run(task, domain, request, lambda found: take_back(context, found, number))

    @huey.task(name="undo_decisions", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def undo_decisions(domain: str, request: str, ids: list[int], task: Task) -> None:
        run(task, domain, request, lambda found: take_decisions_back(context, found, ids))

    return TagTasks(propose_tags, review_tags, apply_renames, undo_change, undo_decisions)


def _answer_for_none(context: TaggingContext, request: str, domain: str) -> None:
    """Publish, if there is a request, that its domain no longer exists; without one, nothing waits for an answer."""
    if request:
        known = [one.slug for one in context.resources.registry().domains]
        answer = {"error": str(DomainNotFoundError(domain, known))}
        context.resources.state().put(TAGGED, answer, request)


def _counts(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer for the log, which quotes no note: with the length of each list instead of the list."""
    return {name: len(value) if isinstance(value, list) else value for name, value in answer.items()}


def _sums(answers: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return the length of each list, over all domains; the log quotes no note."""
    sums: Counter[str] = Counter()
    for answer in answers:
        sums.update({name: len(value) for name, value in answer.items() if isinstance(value, list)})
    return dict(sums)


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
    finish_renames(context, domain)  # what a crash interrupted
    problems = context.resources.problems()
    before = tag_context.current(context, domain)
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
    chosen(context.resources, {path for path, _ in done.promotion.applied}, "promoted")
    context.resources.state().put(REVIEWED, tag_context.after(context, domain, done, before), domain.slug)
    return _plain(done)


def _plain(done: Reviewed) -> dict[str, Any]:
    return {
        "accepted": done.accepted,
        "rejected": done.rejected,
        "applied": [list(pair) for pair in done.promotion.applied],
        "refused": [list(one) for one in done.promotion.refused],
        "put_off": done.promotion.postponed,
    }


def take_back(context: TaggingContext, domain: Domain, number: int) -> dict[str, Any]:
    """Undo a promotion or a run of renames; return what was restored. Raises NotFoundError, CannotUndoError."""
    context.resources.require_present()
    change = context.proposals().changes.find(number)
    if change is None or change.domain != domain.slug:
        raise NotFoundError(f"{domain.slug} has no change {number}; `everindex tags log` lists them")
    done = {"change": number, "action": change.action, "tags": list(change.tags)}
    if change.action in (RENAMED, RENAMING):
        return done | take_back_renames(context, domain, change)
    changed = undo(context.notes(domain), change, now_iso())
    path = (context.proposals().changes.find(number) or change).path  # the note may have moved
    if changed:
        return done | {"restored": [path], "left": []}
    why = "it no longer had these tags" if change.tags else "it was so already"
    return done | {"restored": [], "left": [[path, why]]}


def take_decisions_back(context: TaggingContext, domain: Domain, ids: Collection[int]) -> dict[str, Any]:
    """Make accepted proposals wait again and remove them from notes; return the notes left alone, with reasons."""
    context.resources.require_present()
    return {"left": take_accepted_back(context.notes(domain), ids, now_iso())}
