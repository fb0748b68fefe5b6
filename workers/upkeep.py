"""What is owed to no note, and makes answers better or faster: ranks, and sentences prepared for excerpts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from huey.api import Task

from pipelines.model import LOW_PRIORITY, LOWEST_PRIORITY, Domain
from pipelines.ranking import rank_domain
from pipelines.retrieval.sentences import prepare
from pipelines.store.cache import Cache
from pipelines.store.sentences import owes_sentences
from queue_config.inspect import waiting
from queue_config.queue import Queue
from workers.resources import Resources
from workers.tasks import SLICE_SECONDS, is_paused, job, owes, require_running, waits


@dataclass(frozen=True, slots=True)
class UpkeepTasks:
    """The registered tasks; calling one enqueues it."""

    recompute_graph: Callable[[str], Any]
    prepare_sentences: Callable[[str], Any]
    ranking: set[str]
    """The domains whose graph this process computes just now."""


def make_upkeep_tasks(huey: Queue, resources: Resources) -> UpkeepTasks:
    """Register the tasks on a queue. `resources` are used when a task runs, not before."""

    # Seconds in a vault of 100,000 notes, in libraries that let others compute meanwhile.
    @huey.task(name="recompute_graph", priority=LOW_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def recompute_graph(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        tasks.ranking.add(domain)
        try:
            with job(task, domain) as doing:
                cache = resources.cache(found)
                # While it waited for another domain's it may have been asked for, and computed, again.
                behind = cache.edges.ranks_behind()
                doing.update(ranked=rank_domain(cache, found.pagerank_over) if behind else 0)
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

    tasks = UpkeepTasks(recompute_graph, prepare_sentences, set())
    return tasks


def _prepare_some(huey: Queue, resources: Resources, cache: Cache) -> int:
    """Work for about a second; stop as soon as anything else waits."""
    started = time.monotonic()
    encode = resources.bulk_embedder(cache.meta.model).encode_queries
    return prepare(
        cache, encode, lambda: bool(waiting(huey, 1)) or time.monotonic() - started >= SLICE_SECONDS
    )


def hint_at_upkeep(huey: Queue, tasks: UpkeepTasks, resources: Resources, domain: Domain) -> None:
    """Enqueue what is due in a domain and does not wait already."""
    cache = resources.cache(domain)
    is_ranked = domain.slug in tasks.ranking or waits(huey, "recompute_graph", domain)
    if cache.edges.ranks_due() and not is_ranked:
        tasks.recompute_graph(domain.slug)
    if (
        not is_paused(resources, domain.slug)
        and not owes(cache)
        and resources.has_loaded(cache.meta.model)
        and owes_sentences(cache)
        and not waits(huey, "prepare_sentences", domain)
    ):
        tasks.prepare_sentences(domain.slug)


def sweep_upkeep(huey: Queue, tasks: UpkeepTasks, resources: Resources) -> None:
    """Hint at what is due in any domain."""
    if resources.present():
        for domain in resources.domains():
            hint_at_upkeep(huey, tasks, resources, domain)
