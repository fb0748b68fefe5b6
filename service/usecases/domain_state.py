"""The state of one domain's index, with what `everindex reembed` would change in it and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pipelines.cache.cache import Cache
from pipelines.errors import CacheError, ConfigurationError, ModelUnavailableError
from pipelines.indexing.ingest import chunking_of
from pipelines.indexing.status import domain_status
from pipelines.model import ChunkSettings, Domain
from pipelines.state.state import EMBEDDING_SPEED
from service.usecases.notes import uncounted
from service.usecases.schemas.health import ReembedCost
from workers.resources import Resources, chosen_chunking, recorded_model


def state_of(resources: Resources, domain: Domain, cache: Cache) -> dict[str, Any]:
    """Return what `pipelines.indexing.status.domain_status` does, and the cost of `everindex reembed`."""
    cost = _reembed_cost(resources, domain, cache)
    return domain_status(cache, resources.state(), domain.slug, uncounted(resources, domain)) | {
        "reembed": cost
    }


def _reembed_cost(resources: Resources, domain: Domain, cache: Cache) -> ReembedCost | None:
    """Return what differs between an index and the settings; None if nothing does.

    Its model is left out: a service does not start with another. The number of texts is that of the passages now.
    """
    try:
        wanted = _wanted(resources, domain, cache)
    except (ModelUnavailableError, ConfigurationError):
        return None  # a problem of its own
    change = describe_change(chunking_of(cache.meta.pipeline), wanted)
    if change is None:
        return None
    texts = cache.counts().chunks
    speed = resources.state().get(EMBEDDING_SPEED, domain.slug)
    rate = speed.value.texts_per_s if speed else 0.0
    return ReembedCost(change=change, texts=texts, seconds=round(texts / rate) if rate else None)


def passages_problems(resources: Resources) -> Iterator[str]:
    """Yield why the settings cannot split the notes of a domain, whose index keeps the passages that it has."""
    for domain in resources.domains():
        try:
            with suppress(CacheError, ModelUnavailableError):  # problems of their own
                _wanted(resources, domain, resources.reader(domain))
        except ConfigurationError as error:
            yield f"{domain.slug}: {error}; until then its index keeps the passages that it has"


def _wanted(resources: Resources, domain: Domain, cache: Cache) -> ChunkSettings:
    """Return how the settings split a domain's notes. Raises ModelUnavailableError, ConfigurationError."""
    info = recorded_model(resources.settings, cache.meta.model, resources.root)
    return chosen_chunking(resources.settings, info, domain)


def describe_change(indexed: ChunkSettings | None, wanted: ChunkSettings) -> str | None:
    """Return what differs between the ways in which an index and the settings split and embed; None: nothing."""
    if indexed is None or indexed == wanted:
        return None
    parts = []
    if indexed.context != wanted.context:
        parts.append(f"embedding_context {indexed.context}, and the settings say {wanted.context}")
    cuts = [(one.target_words, one.overlap_words) for one in (indexed, wanted)]
    if cuts[0] != cuts[1]:
        (words, shared), (other, others) = cuts
        parts.append(
            f"passages of {words} words with {shared} in common, and the settings say {other} with {others}"
        )
    return f"the index has {'; and '.join(parts)}" if parts else None
