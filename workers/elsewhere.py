"""Workers on hosts without the vault: the store gives them the bytes of notes, and they index these.

The worker beside the vault hands out what it will come to last, while there are such workers. They take no part in
the queue: leases say who does what.
"""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version

import structlog

from pipelines.cache.postgres import PostgresCache
from pipelines.errors import CacheMissingError, ConfigurationError, EverindexError, NoteError
from pipelines.indexing.ingest import Outcome, embed_pending, index_apart, index_words, split_otherwise
from pipelines.indexing.parse import ApartParser
from pipelines.model import Domain, FileContent
from pipelines.vault import files
from queue_config.logs import Trouble
from workers.heartbeat import heartbeat, lives
from workers.jobs import is_paused
from workers.resources import Resources
from workers.tasks import ingesting, release_broken_off

_POLL_SECONDS = 0.5
_AT_ONCE = 32
_VAULT_IS_HERE = 75  # EX_TEMPFAIL

log = structlog.get_logger()


def hand_out(resources: Resources) -> None:
    """Put notes that wait into the store, if another host has a worker for them. Raises CacheError."""
    said = resources.processes().recent()
    if not any(one.role == "helper" and lives(one.name, age) for one, age in said) or not resources.present():
        return
    for _, cache in _caches(resources):
        cache.handed_out.put(_read(resources, cache.handed_out.wanted(_AT_ONCE)))


def _read(resources: Resources, wanted: list[tuple[str, str]]) -> list[FileContent]:
    """Return the files that still have the content that is wanted; what cannot be read fails beside the vault."""
    found = []
    for raw, sha in wanted:
        try:
            content = files.read(resources.root, raw, resources.settings.max_note_bytes)
        except NoteError:
            continue
        if content.sha256 == sha:
            found.append(content)
    return found


def run_helper(resources: Resources, *, only_vectors: bool) -> None:
    """Index notes that the store hands out until SIGTERM or SIGINT. Call this in the main thread."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    log.info("helper started", vault=str(resources.root), only_vectors=only_vectors)
    trouble = Trouble("the store cannot be used; this worker waits for it")
    parser = ApartParser()
    for _, cache in _caches(resources):
        # Other hosts have to wait until a dead process has been silent for long enough; this one knows that it ended.
        cache.leases.free_those_of_the_dead(resources.is_at_work)
    with heartbeat(resources.store, "embedder" if only_vectors else "helper", version("everindex")):
        pause = 0.0
        while not stopped.wait(pause):
            pause = _POLL_SECONDS
            try:
                if resources.present():
                    log.warning("the vault is here now; this worker ends, and its next start is beside it")
                    raise SystemExit(_VAULT_IS_HERE)
                if _help(resources, parser, only_vectors=only_vectors):
                    pause = 0.0
                trouble.over()
            except (EverindexError, OSError) as error:
                trouble.met(str(error))
        parser.stop()
        resources.sandbox.stop()
        resources.embedders.close()
    log.info("helper stopped")


def _caches(resources: Resources) -> list[tuple[Domain, PostgresCache]]:
    """Return the domains with their caches; without those that the worker beside the vault is about to make."""
    found = []
    for domain in resources.domains():
        with suppress(CacheMissingError):
            found.append((domain, resources.stored(domain)))
    return found


def _help(resources: Resources, parser: ApartParser, *, only_vectors: bool) -> int:
    """Index a few notes of each domain; return how many."""
    caches = _caches(resources)
    release_broken_off(resources, (cache for _, cache in caches))
    return sum(
        _help_domain(resources, domain, cache, parser, only_vectors=only_vectors).touched
        for domain, cache in caches
        if not is_paused(resources, domain.slug)
    )


def _help_domain(
    resources: Resources, domain: Domain, cache: PostgresCache, parser: ApartParser, *, only_vectors: bool
) -> Outcome:
    """Index a few of a domain's notes, words before vectors."""
    done = Outcome()
    with ingesting(resources, domain, cache) as beside_vault:
        ingest = replace(beside_vault, content=cache.handed_out.read)
        if reason := split_otherwise(cache.meta.pipeline, ingest):
            raise ConfigurationError(
                f"{domain.slug}: {reason}; this host needs the same version and settings"
            )
        if not only_vectors:
            cache.leases.only_handed_out = True
            done.add(index_words(cache, ingest))
            done.add(index_apart(cache, ingest, parser))
        if not done.touched and cache.meta.embeds and cache.leases.has_pending("vectors"):
            resources.embedders.load(cache.meta.model)
            done.add(embed_pending(cache, ingest))
    return done
