"""The huey tasks of tagging; what is owed is found by `workers.tag_sweep`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from huey.api import Task

from pipelines import vault
from pipelines.errors import EverindexError, NoteError
from pipelines.exchange import exchange
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, Domain
from pipelines.tagging import renames
from pipelines.tagging.candidates import due
from pipelines.tagging.promote import undo
from pipelines.tagging.propose import propose
from pipelines.tagging.review import Reviewed, review
from queue_config.queue import Queue
from workers.tag_desk import TagDesk
from workers.tasks import job

_SLICE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TagTasks:
    """The registered tasks; calling one enqueues it."""

    propose_tags: Callable[[str], Any]
    review_tags: Callable[[str, str, bool], Any]
    apply_renames: Callable[[str, str, bool], Any]
    undo_change: Callable[[str, str, int], Any]


def make_tag_tasks(huey: Queue, desk: TagDesk) -> TagTasks:
    """Register the tasks on a queue. `desk` is used when a task runs, not before.

    A task that was given a request's name answers it in `state.db`, under `tags:<name>`.
    """

    def run(task: Task, domain: str, request: str, work: Callable[[Domain], dict[str, Any]]) -> None:
        found = desk.resources.registry().get(domain)
        if found is None:
            return  # the domain went
        with job(task, domain) as doing:
            doing.update(_answered(desk, request, lambda: work(found)))

    @huey.task(name="propose_tags", priority=LOW_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def propose_tags(domain: str, task: Task) -> None:
        run(task, domain, "", lambda found: propose_due(desk, found))

    @huey.task(name="review_tags", priority=HIGH_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def review_tags(domain: str, request: str, apply: bool, task: Task) -> None:  # noqa: FBT001 - a task's argument
        run(task, domain, request, lambda found: review_now(desk, found, apply=apply))

    @huey.task(name="apply_renames", priority=HIGH_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def apply_renames(domain: str, request: str, dry_run: bool, task: Task) -> None:  # noqa: FBT001 - likewise
        run(task, domain, request, lambda found: rename_tags(desk, found, dry_run=dry_run))

    @huey.task(name="undo_change", priority=HIGH_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def undo_change(domain: str, request: str, number: int, task: Task) -> None:
        run(task, domain, request, lambda found: take_back(desk, found, number))

    return TagTasks(propose_tags, review_tags, apply_renames, undo_change)


def _answered(desk: TagDesk, request: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do a piece of work, and tell what came of it to whoever asked by a request's name."""
    try:
        answer = work()
    except (EverindexError, OSError) as error:
        if not request:
            raise
        answer = {"error": str(error)}
    if request:
        desk.resources.state().say(f"tags:{request}", answer)
    return answer


def now_iso() -> str:
    """Return the time as the tables have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# What the tasks do


def propose_due(desk: TagDesk, domain: Domain) -> dict[str, int]:
    """Look at the notes that are due, for about a second; the sweep finds the rest."""
    proposing = desk.proposing(domain)
    left_out = (domain.within(domain.taxonomy),)
    paths = due(proposing.cache, proposing.proposals, domain.slug, time.time(), left_out)
    until = time.monotonic() + _SLICE_SECONDS
    outcomes = propose(proposing, paths, datetime.now(UTC), lambda: time.monotonic() >= until)
    return {"due": len(paths)} | outcomes


def review_now(desk: TagDesk, domain: Domain, *, apply: bool) -> dict[str, Any]:
    """Read and rewrite a domain's review queue; return what was decided and done. Raises NoteError."""
    desk.resources.require_present()
    if journal_of(desk, domain).exists():
        rename_tags(desk, domain, dry_run=False)  # what a crash left comes first
    done = review(desk.reviewing(domain, apply=apply), now_iso())
    desk.resources.state().say(f"review:{domain.slug}", signature(desk, domain))
    return _plain(done)


def _plain(done: Reviewed) -> dict[str, Any]:
    return {
        "accepted": done.accepted,
        "rejected": done.rejected,
        "applied": [list(pair) for pair in done.promotion.applied],
        "refused": [list(one) for one in done.promotion.refused],
        "put_off": done.promotion.put_off,
    }


def signature(desk: TagDesk, domain: Domain) -> list[Any]:
    """Return what differs whenever the queue must be looked at: its file, and the proposals."""
    return [
        _stat(desk.resources.root / domain.within(domain.review_queue)),
        desk.proposals().version(domain.slug),
    ]


def _stat(file: Path) -> list[int] | None:
    try:
        info = file.lstat()
    except OSError:
        return None
    return [info.st_size, info.st_mtime_ns, info.st_ino]


def take_back(desk: TagDesk, domain: Domain, number: int) -> dict[str, Any]:
    """Take a promotion back. Raises EverindexError."""
    change = desk.proposals().change(number)
    if change is None or change.domain != domain.slug:
        raise EverindexError(f"{domain.slug} has no change {number}; `everindex tags log` lists them")
    undo(desk.notes(domain), change, now_iso())
    return {"path": change.path, "tags": list(change.tags)}


# Renames


def journal_of(desk: TagDesk, domain: Domain) -> Path:
    """Return where renames that were begun are written down."""
    return desk.resources.place.state / f"renames-{domain.slug}.json"


def rename_tags(desk: TagDesk, domain: Domain, *, dry_run: bool) -> dict[str, Any]:
    """Apply the taxonomy's renames over a domain's notes, all or nothing; return what was, or would be, changed.

    What an earlier run left unfinished is finished first. Raises EverindexError.
    """
    desk.resources.require_present()
    journal = journal_of(desk, domain)

    def replace(path: Path, read: bytes, new: bytes) -> bytes | None:
        return exchange(path, read, new, desk.displaced)

    if journal.exists() and not dry_run:
        earlier = renames.recover(desk.resources.root, journal, replace)
        if earlier and not earlier.finished:
            return _report(earlier)
    vocabulary = desk.vocabulary(domain)
    if vocabulary.error:
        raise EverindexError(f"nothing was renamed: {vocabulary.error}")
    file = domain.within(domain.taxonomy)
    pairs = vocabulary.taxonomy.renames
    taxonomy = (file, (desk.resources.root / file).read_bytes()) if pairs else (file, b"")
    planned = renames.plan(_notes_of(desk, domain), pairs, taxonomy)
    if dry_run or not pairs:
        return {
            "renames": [list(pair) for pair in pairs],
            "changes": [_change(change) for change in planned.changes],
            "refused": [[one.path, one.reason] for one in planned.refused],
            "finished": not pairs,
        }
    done = renames.apply(planned, desk.resources.root, journal, replace)
    return {"renames": [list(pair) for pair in pairs]} | _report(done)


def _notes_of(desk: TagDesk, domain: Domain) -> list[tuple[str, bytes]]:
    """Read a domain's notes as they are; what cannot be read has no tags that anybody knows."""
    cache = desk.resources.reader(domain)
    notes = []
    for raw, _, _, _ in cache.ledger.stat_of(sorted(cache.ledger.settled())).values():
        with suppress(NoteError):
            data = vault.read(desk.resources.root, raw, desk.resources.settings.max_note_bytes).data
            notes.append((raw, data))
    return notes


def _change(change: renames.Change) -> dict[str, Any]:
    """Show a change by the lines that differ."""
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
