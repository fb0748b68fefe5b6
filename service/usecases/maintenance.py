"""`everindex verify`, `backup`, `restore` and `migrate`: what the commands do, and the lines that they print."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from pipelines.cache.cache import SqliteCache, readable_second, readable_sentences
from pipelines.cache.schema import CacheMeta
from pipelines.cache.verify import damage
from pipelines.embedding.embedder import Vectors
from pipelines.errors import (
    AlreadyRunningError,
    CacheCorruptError,
    CacheError,
    CacheMissingError,
    ConfigurationError,
    ModelUnavailableError,
    NotRunningError,
)
from pipelines.graph.ranking import rank_domain, ranks_are_otherwise
from pipelines.indexing.dates import date_notes
from pipelines.indexing.ingest import chunking_of
from pipelines.indexing.reconcile import reconcile
from pipelines.indexing.status import how_to_index
from pipelines.maintenance.backup import (
    database_files,
    delete_database,
    restore_backup,
    sweep_leftovers,
    work_folder,
    write_backup,
)
from pipelines.maintenance.databases import is_damaged, salvage
from pipelines.maintenance.rebuild import build_beside, catch_up
from pipelines.maintenance.stores import carry
from pipelines.maintenance.verify import Difference, Verdict, repair, verify
from pipelines.model import Counts, Domain, Place, PostgresPlace
from pipelines.search.find import prepare, prepare_second
from pipelines.state.note_log import NoteLog
from pipelines.state.state import STATE_FILE
from pipelines.store import WritableCache
from pipelines.vault.atomic import file_bytes
from queue_config.settings import OF_POSTGRESQL
from service.runtime.lock import only_one
from service.usecases.memory import memory_counts
from service.usecases.text import added, counted, not_asked_for
from workers.heartbeat import lives
from workers.models import chosen_chunking
from workers.resources import Resources
from workers.tasks import compare, make_tasks, reconcile_now

# `everindex index`, `index --rebuild` and `reembed`: the pipeline in this process, without a queue.


Progress = Callable[[str, Counts], None]
_HASHES_AT_ONCE = 1_000


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
        lines += refine(resources, domain, cache)
        counts = cache.counts(besides)
        lines.append(
            f"{domain.slug}: {report.new} new, {report.updated} changed, {report.removed} removed, "
            f"{report.unchanged} as they were; {counted(embedded, 'text')} embedded; "
            f"{counted(counts.notes, 'note')}, {counts.parked} parked, {counts.ignored} ignored"
        )
        if report.held:
            lines.append(
                f"{domain.slug}: {counted(report.held, 'deletion')} held;"
                " `everindex index --confirm-deletions` applies them"
            )
    for domain in resources.domains():
        prepare_sentences(resources, domain, resources.cache(domain))
    others = added(report.others for report in reports.values())
    wanted = {slug: report.others for slug, report in reports.items()}
    return [*lines, *not_asked_for(others, how_to_index(resources.root, resources.registry(), wanted))]


def rebuild_caches(resources: Resources, progress: Progress, *, only_other_models: bool = False) -> list[str]:
    """Build each domain's next cache beside the current one and switch to it; return a line per domain."""
    resources.require_present()
    resources.show_views()
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
        prepare_sentences(resources, domain, cache)
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


def refine(resources: Resources, domain: Domain, cache: WritableCache) -> list[str]:
    """Date a domain's notes and compute its ranks where these are behind; return the lines to show."""
    date_notes(resources.root, cache, domain, resources.date_order(domain))
    behind = cache.edges.ranks_behind() or ranks_are_otherwise(cache, domain)
    return _rank(cache, domain) if behind else []


def prepare_sentences(resources: Resources, domain: Domain, cache: WritableCache) -> None:
    """Compute vectors of sentences and by a second model, as the service does when nothing else waits.

    Those that another cache has are taken from it.
    """
    others = [*resources.siblings(cache.path), *(path for _, path in resources.kept_caches())]
    for path in others:
        pending = cache.passages.hashes_of_pending_sentences()
        for at in range(0, len(pending), _HASHES_AT_ONCE):
            known = readable_sentences(path, cache.meta, pending[at : at + _HASHES_AT_ONCE])
            cache.passages.keep_quantized(known)
    if pending := cache.passages.hashes_of_pending_sentences():
        left = len(pending)

        def encode(texts: Sequence[str]) -> Vectors:
            # Asked for each time, because torch is ready after the first of many texts.
            return resources.embedders.bulk(cache.meta.model, lambda: left).encode_queries(texts)

        with suppress(ModelUnavailableError):  # no endpoint may read them
            prepare(cache, encode, lambda: False)
    second = resources.second_model(domain)
    if second and not second.is_cross_encoder:
        cache.second.want(second.name)
        _prepare_second(resources, domain, cache, second.name, others)


def _prepare_second(
    resources: Resources, domain: Domain, cache: WritableCache, model: str, others: Sequence[Path]
) -> None:
    for path in others:
        pending = cache.second.hashes_pending()
        for at in range(0, len(pending), _HASHES_AT_ONCE):
            cache.second.keep(model, readable_second(path, model, pending[at : at + _HASHES_AT_ONCE]))
    if pending := cache.second.hashes_pending():
        try:
            encode = resources.embedders.bulk(model, lambda: len(pending)).encode_documents
            prepare_second(cache, model, encode, lambda: False)
        except ModelUnavailableError as error:  # it only orders what is found, so that the index is complete
            resources.refuse_second(domain, error)


# The indexes on the disk: those in use, and those kept so that a change can be taken back without embedding.


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """A domain's index on the disk, in use or kept. What was built is None if it cannot be read."""

    domain: str
    path: Path
    size: int
    in_use: bool
    model: str | None = None
    context: str | None = None
    vectors: int | None = None


def stored_indexes(resources: Resources) -> list[StoredIndex]:
    """Return the index of each domain, then those that a rebuild or a changed model left, newest first."""
    state = resources.state()
    current = [(domain.slug, state.cache_path(domain.slug)) for domain in resources.registry().domains]
    return [
        *(_stored(domain, path, in_use=True) for domain, path in current if path.exists()),
        *(_stored(domain, path, in_use=False) for domain, path in resources.kept_caches()),
    ]


def _stored(domain: str, path: Path, *, in_use: bool) -> StoredIndex:
    stored = StoredIndex(domain, path, sum(map(file_bytes, database_files(path))), in_use)
    with suppress(CacheError), closing(SqliteCache.open(path)) as cache:
        chunking = chunking_of(cache.meta.pipeline)
        context = chunking.context if chunking else None
        stored = replace(stored, model=cache.meta.model, context=context, vectors=cache.vectors.count())
    return stored


def remove_kept(resources: Resources) -> list[StoredIndex]:
    """Delete the indexes that are not in use; return them."""
    kept = [one for one in stored_indexes(resources) if not one.in_use]
    for one in kept:
        delete_database(one.path)
    return kept


def _rank(cache: WritableCache, domain: Domain) -> list[str]:
    """Compute a domain's ranks; return a line if its communities do not use the configured method."""
    problem = rank_domain(cache, domain).problem
    return [problem] if problem else []


def _is_as_configured(resources: Resources, domain: Domain) -> bool:
    """Say whether a domain's index has the model, the way of splitting notes and the context of the settings."""
    try:
        cache = SqliteCache.open(resources.state().cache_path(domain.slug))
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
            with closing(SqliteCache.open(path)) as cache:
                fits = _is_built_for(resources, domain, cache.meta) and not damage(cache)
        except CacheError:
            fits = False
        if fits:
            break
        number += 1
    return number


# Recover a damaged `state.db`: copy what is readable into a new one.


def mend_state(state: Path) -> list[str]:
    """Replace a damaged `state.db` by its readable rows; return the message for the user.

    Raises AlreadyRunningError.
    """
    file = state / STATE_FILE
    if not file.exists() or not is_damaged(file):
        return []
    try:
        with only_one(state), work_folder(state, "salvage") as folder:
            done = salvage(state, folder)
    except AlreadyRunningError as error:
        raise AlreadyRunningError(
            f"{file} is damaged, and Everindex runs on it; stop it (Ctrl-C, or its service), and rebuild again"
        ) from error
    decisions, changes = done.kept.get("tag_proposal", 0), done.kept.get("tag_audit", 0)
    said = (
        f"{file} was damaged: {sum(done.kept.values())} rows of it are kept, among them {decisions} proposals and"
        f" decisions and {changes} changes of notes"
    )
    if done.cut:
        said += f"; not all could be read of: {', '.join(done.cut)}"
    return [
        f"{said}. The damaged file is {done.aside}; `everindex restore FILE` brings back a backup's state"
    ]


Verdicts = dict[str, Verdict]
# A save is in the ledger after at most 3 s (the debouncer's longest wait) plus the time to read it.
_SETTLE_SECONDS = 4.0
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 60.0


def verify_caches(resources: Resources) -> Verdicts:
    """Compare every domain's cache with the disk and with itself.

    While a service runs, a note that was just saved differs without being a fault. So only differences that remain
    in a second comparison count.
    """
    resources.require_present()
    verdicts = {domain.slug: _verify(resources, domain) for domain in resources.domains()}
    if not _is_watched(resources.place.state):
        return verdicts
    suspects = [d for d in resources.domains() if verdicts[d.slug].differences]
    if suspects:
        time.sleep(_SETTLE_SECONDS)
    for domain in suspects:
        again = _verify(resources, domain)
        both = tuple(d for d in again.differences if d in verdicts[domain.slug].differences)
        verdicts[domain.slug] = Verdict(both, again.compared, again.left_out)
    in_memory = memory_counts(resources.state())
    return {slug: replace(verdict, in_memory=in_memory.get(slug)) for slug, verdict in verdicts.items()}


def _verify(resources: Resources, domain: Domain) -> Verdict:
    try:
        resources.follow()
        cache = resources.reader(domain)
    except CacheCorruptError as error:
        return Verdict((Difference(domain.slug, "damage", "", str(error)),), 0, 0)
    return verify(cache, resources.ingest(domain, cache), resources.registry())


def _is_watched(state: Path) -> bool:
    try:
        with only_one(state):
            return False
    except AlreadyRunningError:
        return True


def describe(verdicts: Verdicts) -> list[str]:
    """Return a line per difference, and a summary line per domain."""
    lines = []
    for slug, verdict in verdicts.items():
        lines += [
            f"{slug}: {d.kind}: {d.path}{': ' if d.path else ''}{d.detail}" for d in verdict.differences
        ]
        outcome = counted(len(verdict.differences), "difference") if verdict.differences else "no difference"
        skipped = counted(verdict.left_out, "pending or parked one was", "pending or parked ones were")
        left_out = f"; {skipped} left out" if verdict.left_out else ""
        lines.append(
            f"{slug}: {outcome}; {counted(verdict.compared, 'file')} compared with the disk{left_out}"
        )
        if held := verdict.in_memory:
            lists = counted(held.checked, "list")
            lines.append(
                f"{slug}: the service compared {lists} held in memory with the index; {held.differing} differed"
            )
    return lines


def repair_caches(resources: Resources, verdicts: Verdicts, progress: Progress) -> Verdicts:
    """Repair the differences from the disk, and compare again. A running service does the indexing, if there is one.

    Raises NotRunningError where a watcher runs, but no worker.
    """
    for domain in resources.domains():
        if any(d.kind != "damage" for d in verdicts[domain.slug].differences):
            repair(resources.cache(domain), verdicts[domain.slug])
    complete_work(resources, progress)
    return verify_caches(resources)


def complete_work(resources: Resources, progress: Progress) -> None:
    """Index what is pending, or wait until a running service has. Raises NotRunningError where no worker runs."""
    try:
        with only_one(resources.place.state):
            index_once(resources, progress)
    except AlreadyRunningError:
        queue = resources.queue()
        reconcile_now(queue, make_tasks(queue, resources), resources)
        for domain in resources.domains():
            _wait_for_workers(resources, domain, progress)


def _wait_for_workers(resources: Resources, domain: Domain, progress: Progress) -> None:
    """Return when no work is pending."""
    cache = resources.cache(domain)
    last, since = (-1, -1), time.monotonic()
    while True:
        counts = cache.counts()
        progress(domain.slug, counts)
        pending = counts.pending, counts.vectors_pending
        if pending == (0, 0):
            return
        if pending != last or _is_worked_on(cache):
            last, since = pending, time.monotonic()
        if time.monotonic() - since > _PATIENCE_SECONDS:
            raise NotRunningError(
                f"{domain.slug}: {counted(counts.pending, 'note waits', 'notes wait')}, and no worker takes them up;"
                " start `everindex work`"
            )
        time.sleep(_POLL_SECONDS)


def _is_worked_on(cache: WritableCache) -> bool:
    """Say whether a worker has taken up some of what is pending; a file with scanned pages takes it minutes."""
    found = cache.leases.waiting()
    return found is not None and found.is_leased


def back_up(resources: Resources, file: Path, *, attention: bool = False, replaces: bool = False) -> str:
    """Write a backup, with `attention` also which notes were chosen; return the message for the user.

    Only with `replaces` may the file exist. Raises BackupError, CacheCorruptError, ConfigurationError.
    """
    _require_files(resources, "`pg_dump` backs it up")
    manifest = write_backup(
        file,
        resources.place.state,
        [domain.slug for domain in resources.registry().domains],
        vault_id=resources.place.identity.vault_id,
        root=resources.root,
        version=version("everindex"),
        attention=attention,
        replaces=replaces,
    )
    caches = counted(len(manifest.caches), "cache")
    return f"{file}: state and {caches} of {manifest.root}, {file.stat().st_size / 1e6:.1f} MB"


def _require_files(resources: Resources, instead: str) -> None:
    if not isinstance(resources.store, Path):
        raise ConfigurationError(f"what is known of {resources.root} is in PostgreSQL; {instead}")


def restore(resources: Resources, file: Path, *, same_notes: bool = False) -> list[str]:
    """Restore a backup, of another vault only with `same_notes`; return the messages for the user.

    Raises AlreadyRunningError, BackupError, ConfigurationError.
    """
    _require_files(resources, "`pg_restore` restores it")
    try:
        with only_one(resources.place.state):
            placed = restore_backup(
                file,
                resources.place.state,
                vault_id=None if same_notes else resources.place.identity.vault_id,
                root=resources.root,
            )
    except AlreadyRunningError as error:
        raise AlreadyRunningError(
            f"Everindex runs on {resources.root}; stop it (Ctrl-C, or its service), and restore again"
        ) from error
    return [
        *(f"{domain}: restored as {path.name}" for domain, path in placed.items()),
        "`everindex up` or `everindex index` brings it up to date with the notes",
    ]


# `everindex migrate`: from files to PostgreSQL, or back.


FILES = "files"
"""What the store in the state folder is called."""


def migrate(resources: Resources, to: str, progress: Callable[[str, int, int], None]) -> list[str]:
    """Copy a vault's state and current indexes to another store, and compare; return the lines to show.

    `to`: an address of PostgreSQL, or `FILES`. The store of the settings is only read. Raises VaultNotFoundError,
    AlreadyRunningError, ConfigurationError, MigrationError, StateError, CacheError.
    """
    resources.require_present()
    target = _other_store(resources, to)
    _require_rest(resources)
    try:
        with only_one(resources.place.state):
            rows = carry(
                resources.store,
                target,
                [domain.slug for domain in resources.registry().domains],
                vault_id=resources.place.identity.vault_id,
                progress=progress,
                require_rest=partial(_require_rest, resources),
            )
    except AlreadyRunningError as error:
        raise AlreadyRunningError(_stop(f"Everindex runs on {resources.root}")) from error
    copied = [f"{name}: {counted(number, 'row')}, the same in both stores" for name, number in rows.items()]
    return [*copied, *_how_to_switch(resources, to, list(rows))]


def _other_store(resources: Resources, to: str) -> Place:
    """Return the store of that name, which is not the current one. Raises ConfigurationError."""
    is_in_files = isinstance(resources.store, Path)
    if to != FILES and not to.startswith(OF_POSTGRESQL):
        raise ConfigurationError("a vault is migrated to postgresql://USER@HOST/DATABASE, or to `files`")
    if is_in_files != (to == FILES):
        return resources.place.state if to == FILES else resources.in_postgresql(to)
    if is_in_files:
        raise ConfigurationError(
            f"{resources.root} is kept in files already; to migrate what is in PostgreSQL, set EVERINDEX_STORE to it"
        )
    raise ConfigurationError(
        f"{resources.root} is kept in PostgreSQL already, by the setting `store`; without it, `everindex migrate`"
        " copies what is in files. `pg_dump` and `pg_restore` copy it from one server to another"
    )


def _require_rest(resources: Resources) -> None:
    """Raise AlreadyRunningError if a process of Everindex lives, on whichever host."""
    living = [one.name for one, age in resources.processes().recent() if lives(one.name, age)]
    if living:
        raise AlreadyRunningError(_stop(f"Everindex runs on {resources.root} ({', '.join(living)})"))


def _stop(what: str) -> str:
    return f"{what}; stop it (Ctrl-C, or its service) on every host, and migrate again"


def _how_to_switch(resources: Resources, to: str, names: Sequence[str]) -> list[str]:
    folder, store = resources.place.state, resources.store
    if isinstance(store, PostgresPlace):
        schemas = ", ".join(f'"{store.schema(name)}"' for name in (*names, "views", "views_all"))
        return [
            f"Remove the setting `store` (EVERINDEX_STORE), and start Everindex again: it uses {folder}.",
            f"PostgreSQL was only read. When it works: DROP SCHEMA IF EXISTS {schemas} CASCADE;",
            f"The copies in {store.folder} are not needed any more.",
        ]
    from pipelines.postgres import without_password  # noqa: PLC0415 - its library is not always installed

    files = " ".join(f"{shlex.quote(str(folder / name))}.db*" for name in names)
    return [
        f"Set EVERINDEX_STORE={shlex.quote(without_password(to))}, and start Everindex again.",
        f"The files were only read. When it works: rm {files}",
    ]


# `everindex reembed --older` and `--version`: index the notes of a given pipeline again.


def index_again(resources: Resources, progress: Progress, version: str | None = None) -> list[str]:
    """Index the notes of a version of the pipeline again (None: of every earlier one); return a line per domain.

    A running service does it, if there is one. Raises VaultNotFoundError, NotRunningError, ModelMismatchError.
    """
    resources.require_present()
    resources.check_models()
    caches = {domain.slug: resources.cache(domain) for domain in resources.domains()}
    wanted = {slug: cache.ledger.want_version(version) for slug, cache in caches.items()}
    if not any(wanted.values()):
        return ["no note was indexed by such a pipeline"]
    complete_work(resources, progress)
    return [_report(slug, cache, wanted[slug]) for slug, cache in caches.items()]


def _report(slug: str, cache: WritableCache, wanted: list[str]) -> str:
    failed = len({row.path for row in cache.ledger.parked_notes()}.intersection(wanted))
    done = counted(len(wanted) - failed, "note")
    line = f"{slug}: {done} indexed again by the pipeline {cache.meta.pipeline}"
    return f"{line}; {failed} could not be, `everindex why` says why" if failed else line
