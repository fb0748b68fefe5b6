"""`everindex index`, `index --rebuild` and `reembed`: the pipeline in this process, without a queue."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

from pipelines.cache.cache import Cache
from pipelines.cache.passages import owes_sentences
from pipelines.cache.schema import CacheMeta
from pipelines.cache.verify import damage
from pipelines.errors import CacheError, CacheMissingError
from pipelines.graph.ranking import rank_domain, ranks_are_otherwise
from pipelines.indexing.dates import date_notes
from pipelines.indexing.ingest import chunking_of
from pipelines.indexing.reconcile import reconcile
from pipelines.maintenance.backup import sweep_leftovers
from pipelines.maintenance.rebuild import build_beside, catch_up
from pipelines.model import Counts, Domain
from pipelines.search.find import prepare
from pipelines.state.note_log import NoteLog
from service.usecases.phrases import added, counted, not_asked_for
from workers.resources import Resources, chosen_chunking
from workers.tasks import compare

Progress = Callable[[str, Counts], None]


def index_once(resources: Resources, progress: Progress, *, confirmed: bool = False) -> list[str]:
    """Bring every cache up to date with the disk; return the lines to show. `confirmed` applies held deletions."""
    resources.check_models()
    reports = compare(resources, confirmed=confirmed)
    sweep_leftovers(resources.place.state, resources.state())
    resources.stores.of(NoteLog).prune(resources.settings.history_days, resources.settings.history_rows)
    lines = []
    for domain in resources.domains():
        cache, report = resources.cache(domain), reports[domain.slug]
        cache.leases.free_those_of_the_dead(resources.is_at_work)
        besides, ingest = domain.configuration, resources.ingest(domain, cache)
        embedded = catch_up(cache, ingest, partial(progress, domain.slug), besides)
        date_notes(resources.root, cache, domain, resources.date_order(domain))
        if cache.edges.ranks_behind() or ranks_are_otherwise(cache, domain):
            lines += _rank(cache, domain)
        counts = cache.counts(besides)
        lines.append(
            f"{domain.slug}: {report.new} new, {report.updated} changed, {report.removed} removed, "
            f"{report.unchanged} as they were; {counted(embedded, 'text')} embedded; "
            f"{counted(counts.notes, 'note')}, {counts.parked} parked, {counts.ignored} ignored"
        )
        if report.held:
            lines.append(
                f"{domain.slug}: {counted(report.held, 'deletion')} held; `everindex confirm-deletions` applies them"
            )
    for domain in resources.domains():
        _prepare_sentences(resources, resources.cache(domain))
    others = added(report.others for report in reports.values())
    return [*lines, *([not_asked_for(others)] if others else [])]


def rebuild_caches(resources: Resources, progress: Progress, *, only_other_models: bool = False) -> list[str]:
    """Build each domain's next cache beside the current one and switch to it; return a line per domain."""
    resources.require_present()
    lines = []
    for domain in resources.domains():
        old = resources.state().cache_path(domain.slug)
        if only_other_models and _is_as_configured(resources, domain):
            continue
        number = _next_number(resources, domain)
        path = resources.state().numbered(domain.slug, number)
        cache = resources.open_cache(path, resources.model_of(domain), domain)
        cache.leases.free_those_of_the_dead(resources.is_at_work)  # an interrupted build's
        embedded = build_beside(
            resources.registry(),
            cache,
            resources.ingest(domain, cache),
            partial(progress, domain.slug),
        )
        _prepare_sentences(resources, cache)
        date_notes(resources.root, cache, domain, resources.date_order(domain))
        lines += _rank(cache, domain)
        resources.state().switch_cache(domain.slug, number)
        # Saves between the last comparison and the switch went into the old cache.
        reconcile(
            resources.root,
            resources.registry(),
            {domain.slug: cache},
            max_bytes=resources.settings.max_note_bytes,
        )
        counts = cache.counts(domain.configuration)
        lines.append(
            f"{domain.slug}: {counted(counts.notes, 'note')} in {path.name} with {cache.meta.model}, "
            f"{counted(embedded, 'text')} embedded; {old.name} is kept"
        )
        cache.close()
    return lines


def _prepare_sentences(resources: Resources, cache: Cache) -> None:
    """Compute ranks and sentence vectors, as the service does when nothing else waits."""
    if owes_sentences(cache):
        prepare(cache, resources.embedders.bulk(cache.meta.model).encode_queries, lambda: False)


def _rank(cache: Cache, domain: Domain) -> list[str]:
    """Compute a domain's ranks; return a line if its communities do not use the configured method."""
    problem = rank_domain(cache, domain).problem
    return [problem] if problem else []


def _is_as_configured(resources: Resources, domain: Domain) -> bool:
    """Say whether a domain's index has the model, the way of splitting notes and the context of the settings."""
    try:
        cache = Cache.open(resources.state().cache_path(domain.slug))
    except CacheMissingError:
        return True  # it will be built with the right ones
    cache.close()
    return _is_built_for(resources, domain, cache.meta)


def _is_built_for(resources: Resources, domain: Domain, meta: CacheMeta) -> bool:
    info = resources.model_of(domain)
    return meta.model == info.name and chunking_of(meta.pipeline) == chosen_chunking(
        resources.settings, info, domain
    )


def _next_number(resources: Resources, domain: Domain) -> int:
    """Return the number of a sound interrupted build with the wanted settings, or the first one that is free."""
    state = resources.state()
    number = state.cache_number(domain.slug) + 1
    while (path := state.numbered(domain.slug, number)).exists():
        try:
            with closing(Cache.open(path)) as cache:
                fits = _is_built_for(resources, domain, cache.meta) and not damage(cache)
        except CacheError:
            fits = False
        if fits:
            break
        number += 1
    return number
