"""Compare the data held in memory with the caches in the background; count and report differences."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from pipelines.cache.cache import Cache
from pipelines.model import Domain
from pipelines.search.bm25 import Compared
from pipelines.state.state import MEMORY, State
from service.usecases.memory_index import InMemory
from workers.resources import Resources

_KIND = "memory"

log = structlog.get_logger()


def check_memory(resources: Resources, memory: InMemory, readers: Sequence[tuple[Domain, Cache]]) -> None:
    """Compare a part of each domain's data in memory with its cache. Raises CacheError.

    A difference stays a problem until all data was compared again without one.
    """
    counts = memory_counts(resources.state())
    problems = resources.problems()
    for domain, cache in readers:
        slug = domain.slug
        found, is_last = memory.compare(cache)
        counts[slug] = counts.get(slug, Compared(0, 0)) + found
        if found.differing:
            log.error("what is held in memory differed from the index", domain=slug, lists=found.differing)
            problems.report(
                _KIND,
                slug,
                f"{slug}: words or vectors held in memory differed from the index, so answers may have lacked notes;"
                " they were reloaded; please report this bug with the query worker's log",
            )
        elif is_last:
            problems.clear(_KIND, slug)
    resources.state().put(MEMORY, {slug: (one.checked, one.differing) for slug, one in counts.items()})


def memory_counts(state: State) -> dict[str, Compared]:
    """Return by domain how many lists in memory were compared with the cache so far, and how many differed."""
    said = state.get(MEMORY)
    return {slug: Compared(*counts) for slug, counts in said.value.items()} if said else {}
