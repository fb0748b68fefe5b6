"""`everindex reembed --older` and `--version`: index the notes of a given pipeline again."""

from __future__ import annotations

from pipelines.cache.cache import Cache
from pipelines.cache.ledger import want_version
from service.usecases.maintenance import Progress, complete_work
from service.usecases.phrases import counted
from workers.resources import Resources


def index_again(resources: Resources, progress: Progress, version: str | None = None) -> list[str]:
    """Index the notes of a version of the pipeline again (None: of every earlier one); return a line per domain.

    A running service does it, if there is one. Raises VaultNotFoundError, NotRunningError, ModelMismatchError.
    """
    resources.require_present()
    resources.check_models()
    caches = {domain.slug: resources.cache(domain) for domain in resources.domains()}
    wanted = {slug: want_version(cache.con, cache.ledger, version) for slug, cache in caches.items()}
    if not any(wanted.values()):
        return ["no note was indexed by such a pipeline"]
    complete_work(resources, progress)
    return [_report(slug, cache, wanted[slug]) for slug, cache in caches.items()]


def _report(slug: str, cache: Cache, wanted: list[str]) -> str:
    failed = len({path for path, *_ in cache.ledger.parked_rows()}.intersection(wanted))
    done = counted(len(wanted) - failed, "note")
    line = f"{slug}: {done} indexed again by the pipeline {cache.meta.pipeline}"
    return f"{line}; {failed} could not be, `everindex why` says why" if failed else line
