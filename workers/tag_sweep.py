"""Find pending tagging work every few seconds: proposals for new notes, an edited queue, late saves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import structlog

from pipelines.domains import DOMAINS_FILE, Registry
from pipelines.errors import EverindexError, NoteChangedError
from pipelines.indexing.reconcile import Comparison, last_comparison
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, Domain, now_iso
from pipelines.state.state import REVIEWED, TAGGING_BEGAN
from pipelines.tagging.apply import merge_late
from pipelines.tagging.propose import begin, drop_given, due, follow_domains, withdraw
from pipelines.tagging.review import review
from pipelines.vault import files
from pipelines.vault.atomic import write_atomic
from pipelines.vault.write import UNCLAIMED, Late, late_writes, leftovers, settle
from queue_config.inspect import waits
from queue_config.queue import Queue
from workers import tag_context
from workers.renames import has_unfinished
from workers.tag_context import QUEUE_PROBLEM, VOCABULARY_PROBLEM, TaggingContext, vocabulary_problem
from workers.tagging import TagTasks

QUIET_SECONDS = 5.0
"""How many seconds a queue must be unchanged before it is read."""

LATE_WRITE = "late-write"
"""The kind of the problem that late saves are kept because they could not be merged."""

FORMER_QUEUE = "former-queue"
"""The kind of the problem that the review queue of a domain that is gone is still there; its subject is the path."""

_LOOK_ANYWAY_SECONDS = 30.0

log = structlog.get_logger()


@dataclass(slots=True)
class TagSweep:
    """Finds pending tagging work.

    `seen` records when each queue's file was last seen to change, `domains` which ones were followed last.
    """

    context: TaggingContext
    huey: Queue
    tasks: TagTasks
    clock: Callable[[], float] = time.monotonic
    seen: dict[str, tuple[Any, float]] = field(default_factory=dict)
    versions: dict[str, tuple[int, float]] = field(default_factory=dict)
    withdrawn: dict[str, tuple[int, float]] = field(default_factory=dict)
    domains: tuple[Domain, ...] = ()

    def start(self) -> None:
        """Log the files that a crash left beside notes."""
        for file in leftovers(self.context.resources.root, self.context.displaced):
            log.warning("found an unfinished write; nothing was deleted", file=str(file))

    def __call__(self) -> None:
        """Enqueue pending work: proposals for new notes, edited queues, late saves."""
        resources = self.context.resources
        if not resources.present():
            return
        self._take_in_late()
        self._report_unclaimed()
        self._clear_reports_of_gone_domains()
        self._follow_domains()
        for domain in resources.domains():
            self._withdraw(domain)
            vocabulary = self.context.vocabulary(domain)
            self._report(domain.slug, vocabulary_problem(vocabulary))
            proposes = vocabulary.source is not None or bool(vocabulary.taxonomy.entries)
            if not proposes and not self.context.proposals().version(domain.slug):
                resources.problems().clear(QUEUE_PROBLEM, domain.slug)
                continue  # without a vocabulary there is nothing to propose, and no former domain left anything
            if (
                proposes
                and self._proposals_due(domain)
                and not waits(self.huey, "propose_tags", LOW_PRIORITY, domain.slug)
            ):
                self.tasks.propose_tags(domain.slug)
            if self._review_due(domain) and not waits(self.huey, "review_tags", HIGH_PRIORITY, domain.slug):
                self.tasks.review_tags(domain.slug, "", domain.promote == "on_save")

    def _report(self, slug: str, problem: str | None) -> None:
        """Report what is wrong with a domain's vocabulary, or clear that report."""
        problems = self.context.resources.problems()
        if problem:
            problems.report(VOCABULARY_PROBLEM, slug, problem)
        else:
            problems.clear(VOCABULARY_PROBLEM, slug)

    def _clear_reports_of_gone_domains(self) -> None:
        registry = self.context.resources.registry()
        present = {domain.slug for domain in registry.domains}
        for one in self.context.resources.problems().reported():
            of_gone = one.kind in (VOCABULARY_PROBLEM, QUEUE_PROBLEM) and one.subject not in present
            if of_gone or (one.kind == FORMER_QUEUE and not self._is_former_queue(one.subject, registry)):
                self.context.resources.problems().clear(one.kind, one.subject)

    def _is_former_queue(self, path: str, registry: Registry) -> bool:
        """Say whether a file is there that was a review queue and is none of the current domains."""
        root = self.context.resources.root
        return path not in registry.generated and files.look(root, files.path_on_disk(root, path)) is not None

    def _follow_domains(self) -> None:
        """Take what is known of notes to their new domains when `_domains.yaml` changed, and at the first sweep."""
        registry = self.context.resources.registry()
        if registry.domains != self.domains:
            follow_domains(self.context.proposals(), registry)
            former = {domain.within(domain.review_queue) for domain in self.domains}
            for path in sorted(one for one in former if self._is_former_queue(one, registry)):
                message = (
                    f"{path!r} is the review queue of a domain that {DOMAINS_FILE} no longer has, and is not read:"
                    " what waited is in the queues of the domains that own the notes now; delete it"
                )
                self.context.resources.problems().report(FORMER_QUEUE, path, message)
            self.domains = registry.domains

    def _withdraw(self, domain: Domain) -> None:
        """Hide the waiting tags of notes that are gone, and drop those that notes have by now.

        Done when the cache changed, and every half minute.
        """
        cache = self.context.resources.cache(domain)
        version, (last, at) = cache.data_version(), self.withdrawn.get(domain.slug, (-1, 0.0))
        if version != last or self.clock() - at >= _LOOK_ANYWAY_SECONDS:
            withdraw(cache, self.context.proposals(), domain.slug)
            drop_given(cache, self.context.proposals(), domain.slug, self.context.resources.root)
            self.withdrawn[domain.slug] = (version, self.clock())

    def _proposals_due(self, domain: Domain) -> bool:
        """Say whether notes are due; checked when the cache changed and every half minute."""
        cache = self.context.resources.cache(domain)
        state = self.context.resources.state()
        if state.get(TAGGING_BEGAN, domain.slug) is None:
            compared = last_comparison(state)
            if compared is None or domain.slug not in compared.found:
                return False  # existing notes are not known yet, and would seem new
            began_ns = self._began_ns(compared, domain)
            begin(cache, self.context.proposals(), domain.slug, began_ns)
            state.put(TAGGING_BEGAN, now_iso(), domain.slug)
        if cache.ledger.pending()[0] or cache.vectors.pending():
            return False
        version, (last, at) = cache.data_version(), self.versions.get(domain.slug, (-1, 0.0))
        if version == last and self.clock() - at < _LOOK_ANYWAY_SECONDS:
            return False
        found = due(cache, self.context.proposals(), domain.slug, time.time(), domain.configuration)
        if not found:
            self.versions[domain.slug] = (version, self.clock())
        return bool(found)

    def _began_ns(self, compared: Comparison, domain: Domain) -> float:
        """Return the time (ns since the epoch) from which notes are new: of the vocabulary or the comparison.

        The later one, because a clone of a vault writes the vocabulary and all notes at once.
        """
        root = self.context.resources.root
        file = files.look(root, files.path_on_disk(root, domain.within(domain.taxonomy)))
        return max(file.mtime_ns if file else 0, time.time_ns() - compared.age_s * 1e9)

    def _review_due(self, domain: Domain) -> bool:
        """Say whether a queue must be processed: its inputs changed, and its file is quiet."""
        now = self.clock()
        present = tag_context.current(self.context, domain)
        said = self.context.resources.state().get(REVIEWED, domain.slug)
        last = said.value if said else None
        if domain.slug not in self.seen or self.seen[domain.slug][0] != present[0]:
            # A file that we wrote ourselves, or have processed already, counts as quiet.
            quiet_since = now - QUIET_SECONDS if last and last[0] == present[0] else now
            self.seen[domain.slug] = (present[0], quiet_since)
        if now - self.seen[domain.slug][1] < QUIET_SECONDS:
            return False
        accepted = domain.promote == "on_save" and self.context.proposals().of_state(
            domain.slug, "accepted", limit=1
        )
        return last != present or bool(accepted) or has_unfinished(self.context, domain)

    def _take_in_late(self) -> None:
        for late in late_writes(self.context.resources.root, self.context.displaced, self.clock()):
            try:
                taken = self._take_in(late)
            except NoteChangedError:
                continue  # retry at the next sweep
            except EverindexError as error:
                log.warning("a late save could not be merged", file=late.raw, reason=str(error))
                continue
            if taken:
                settle(late)
            else:
                self._put_aside(late)

    def _take_in(self, late: Late) -> bool:
        resources = self.context.resources
        path = files.disk_key(late.raw)
        for domain in resources.domains():
            if path == domain.within(domain.review_queue):
                review(
                    self.context.reviewing(domain, apply=domain.promote == "on_save"), now_iso(), late.late
                )
                return True
        owner = resources.registry().owner(path)
        return owner is not None and merge_late(self.context.notes(owner), path, late)

    def _report_unclaimed(self) -> None:
        """Report the files in `displaced/unclaimed` as a problem while there are any."""
        folder, problems = self.context.displaced / UNCLAIMED, self.context.resources.problems()
        kept = sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []
        if kept:
            problems.report(
                LATE_WRITE,
                "",
                f"{len(kept)} saves collided with a write of Everindex and are kept in {folder} ({kept[0]!r} is one),"
                " because their notes have changed since: compare each with its note, copy what is missing, and"
                " delete the file",
            )
        else:
            problems.clear(LATE_WRITE)

    def _put_aside(self, late: Late) -> None:
        """Keep a save that cannot be merged in a place where a person finds it."""
        file = self.context.displaced / UNCLAIMED / f"{late.record.stem}-{PurePosixPath(late.raw).name}"
        file.parent.mkdir(exist_ok=True)
        write_atomic(file, late.late)
        log.warning(
            "a late save was set aside, because its note has changed since", file=str(file), note=late.raw
        )
        settle(late)
