"""`everindex verify`, `backup` and `restore`: what the commands do, and the lines that they print."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from pipelines.cache.cache import Cache
from pipelines.cache.leases import waiting
from pipelines.errors import AlreadyRunningError, CacheCorruptError, NotRunningError
from pipelines.maintenance.backup import restore_backup, write_backup
from pipelines.maintenance.verify import Difference, Verdict, repair, verify
from pipelines.model import Counts, Domain
from service.runtime.lock import only_one
from service.usecases.indexing import index_once
from service.usecases.memory_check import memory_counts
from service.usecases.phrases import counted
from workers.resources import Resources
from workers.tasks import make_tasks, reconcile_now

Progress = Callable[[str, Counts], None]
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
    cache = resources.reader(domain)
    last, since = (-1, -1), time.monotonic()
    while True:
        counts = cache.counts()
        progress(domain.slug, counts)
        owed = counts.pending, counts.vectors_pending
        if owed == (0, 0):
            return
        if owed != last or _is_worked_on(cache):
            last, since = owed, time.monotonic()
        if time.monotonic() - since > _PATIENCE_SECONDS:
            raise NotRunningError(
                f"{domain.slug}: {counted(counts.pending, 'note waits', 'notes wait')}, and no worker takes them up;"
                " start `everindex work`"
            )
        time.sleep(_POLL_SECONDS)


def _is_worked_on(cache: Cache) -> bool:
    """Say whether a worker has taken up some of what is pending; a file with scanned pages takes it minutes."""
    found = waiting(cache.con)
    return found is not None and found.is_leased


def back_up(resources: Resources, file: Path, *, attention: bool = False, replaces: bool = False) -> str:
    """Write a backup, with `attention` also which notes were chosen; return the message for the user.

    Only with `replaces` may the file exist. Raises BackupError, CacheCorruptError.
    """
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


def restore(resources: Resources, file: Path, *, same_notes: bool = False) -> list[str]:
    """Restore a backup, of another vault only with `same_notes`; return the messages for the user.

    Raises AlreadyRunningError, BackupError.
    """
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
