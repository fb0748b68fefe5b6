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


def make_upkeep_tasks(huey: Queue, resources: Resources) -> UpkeepTasks:
    """Register the tasks on a queue. `resources` are used when a task runs, not before."""

    @huey.task(name="recompute_graph", priority=LOW_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def recompute_graph(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        with job(task, domain) as doing:
            doing.update(ranked=rank_domain(resources.cache(found), found.pagerank_over))

    @huey.task(name="prepare_sentences", priority=LOWEST_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def prepare_sentences(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        with job(task, domain) as doing:
            require_running(resources, domain)
            doing.update(sentences=_prepare_some(huey, resources, resources.cache(found)))
            hint_at_upkeep(huey, tasks, resources, found)

    tasks = UpkeepTasks(recompute_graph, prepare_sentences)
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
    if cache.edges.ranks_due() and not waits(huey, "recompute_graph", domain):
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
