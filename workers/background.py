"""Background work beside indexing: ranks, dates by git, and sentence vectors for excerpts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from huey.api import Task

from pipelines.cache.cache import Cache
from pipelines.cache.passages import owes_sentences
from pipelines.child import Child
from pipelines.graph.ranking import rank_domain, ranks_are_otherwise
from pipelines.indexing.dates import date_notes as date_notes_of
from pipelines.indexing.dates import dates_are_behind
from pipelines.model import LOW_PRIORITY, LOWEST_PRIORITY, Domain
from pipelines.search.find import prepare
from queue_config.inspect import waiting, waits
from queue_config.queue import Queue
from workers.jobs import SLICE_SECONDS, is_paused, job, require_running
from workers.resources import Resources
from workers.tasks import owes

COMMUNITIES = "communities"
"""The kind of the problem that a domain's communities were not computed by the configured method."""
_AGAIN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class UpkeepTasks:
    """The registered tasks; calling one enqueues it."""

    recompute_graph: Callable[[str], Any]
    prepare_sentences: Callable[[str], Any]
    date_notes: Callable[[str], Any]
    ranking: set[str]
    """The domains whose graph this process is computing."""
    dating: set[str]
    """The domains whose notes this process is dating."""
    failed: dict[str, float]
    """When Louvain's method last failed, by domain (monotonic, in seconds)."""
    child: Child
    """Runs Louvain's method."""


def make_upkeep_tasks(huey: Queue, resources: Resources) -> UpkeepTasks:
    """Register the tasks on a queue. `resources` are not used before a task runs."""

    # It takes seconds in a vault of 100,000 notes, in libraries that let other threads run meanwhile.
    @huey.task(name="recompute_graph", priority=LOW_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def recompute_graph(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        tasks.ranking.add(domain)
        try:
            with job(task, domain) as doing:
                cache = resources.cache(found)
                # While this task waited for another domain's, an identical one may have run.
                behind = cache.edges.ranks_behind() or ranks_are_otherwise(cache, found)
                doing.update(ranked=_rank(resources, tasks, found, cache) if behind else 0)
        finally:
            tasks.ranking.discard(domain)

    @huey.task(name="prepare_sentences", priority=LOWEST_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def prepare_sentences(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        with job(task, domain) as doing:
            require_running(resources, domain)
            doing.update(sentences=_prepare_some(huey, resources, resources.cache(found)))
            hint_at_upkeep(huey, tasks, resources, found)

    # Git may take seconds.
    @huey.task(name="date_notes", priority=LOW_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def date_notes(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        tasks.dating.add(domain)
        try:
            with job(task, domain) as doing:
                order = resources.date_order(found)
                doing.update(dated=date_notes_of(resources.root, resources.cache(found), found, order))
        finally:
            tasks.dating.discard(domain)

    tasks = UpkeepTasks(recompute_graph, prepare_sentences, date_notes, set(), set(), {}, Child())
    return tasks


def _rank(resources: Resources, tasks: UpkeepTasks, domain: Domain, cache: Cache) -> int:
    """Rank a domain; while its communities were not computed by the configured method, report that as a problem."""
    ranked = rank_domain(cache, domain, tasks.child)
    if ranked.problem:
        tasks.failed[domain.slug] = time.monotonic()
        resources.problems().report(COMMUNITIES, domain.slug, ranked.problem)
    else:
        tasks.failed.pop(domain.slug, None)
        resources.problems().clear(COMMUNITIES, domain.slug)
    return ranked.notes


def _are_otherwise(tasks: UpkeepTasks, domain: Domain, cache: Cache) -> bool:
    """Say whether a domain's ranks used other settings than its own; false for ten minutes after a failure."""
    failed = tasks.failed.get(domain.slug)
    waits = failed is not None and time.monotonic() - failed < _AGAIN_SECONDS
    return not waits and ranks_are_otherwise(cache, domain)


def _prepare_some(huey: Queue, resources: Resources, cache: Cache) -> int:
    """Work for about a second; stop as soon as any other task waits."""
    started = time.monotonic()
    encode = resources.embedders.bulk(cache.meta.model).encode_queries
    return prepare(
        cache, encode, lambda: bool(waiting(huey, 1)) or time.monotonic() - started >= SLICE_SECONDS
    )


def hint_at_upkeep(huey: Queue, tasks: UpkeepTasks, resources: Resources, domain: Domain) -> None:
    """Enqueue what is due in a domain unless it already waits."""
    cache = resources.cache(domain)
    is_ranked = domain.slug in tasks.ranking or waits(huey, "recompute_graph", LOW_PRIORITY, domain.slug)
    if not is_ranked and (cache.edges.ranks_due() or _are_otherwise(tasks, domain, cache)):
        tasks.recompute_graph(domain.slug)
    is_dated = domain.slug in tasks.dating or waits(huey, "date_notes", LOW_PRIORITY, domain.slug)
    if not is_dated and dates_are_behind(resources.root, cache, resources.date_order(domain)):
        tasks.date_notes(domain.slug)
    if (
        not is_paused(resources, domain.slug)
        and not owes(cache)
        and resources.embedders.has_loaded(cache.meta.model)
        and owes_sentences(cache)
        and not waits(huey, "prepare_sentences", LOWEST_PRIORITY, domain.slug)
    ):
        tasks.prepare_sentences(domain.slug)


def sweep_upkeep(huey: Queue, tasks: UpkeepTasks, resources: Resources) -> None:
    """Enqueue what is due in all domains."""
    if resources.present():
        for domain in resources.domains():
            hint_at_upkeep(huey, tasks, resources, domain)
