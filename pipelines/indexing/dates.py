"""Keep the dates of notes up to date with the order of their sources and with the commits of the vault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pipelines.formats import format_of
from pipelines.model import BY_GIT, DateOrder, Domain, as_iso
from pipelines.notes.dates import read_dates, redated
from pipelines.store import Cache
from pipelines.vault.git_dates import head_commit, read_git_dates

_Committed = tuple[str, str | None, str | None, int | None]


def dates_are_behind(root: Path, cache: Cache, order: DateOrder) -> bool:
    """Say whether notes were dated by another order, or by git as of another commit. Raises CacheError."""
    return cache.dates.order() != order or cache.dates.commit() != _commit(root, order)


def date_notes(root: Path, cache: Cache, domain: Domain, order: DateOrder) -> int:
    """Date a domain's notes by its order and the current commit; return how many state other dates now.

    Git runs only if HEAD names another commit than before. Raises CacheError.
    """
    count = date_again(cache, order) if cache.dates.order() != order else 0
    commit = _commit(root, order)
    if cache.dates.commit() != commit:
        cache.dates.keep_commits(commit, _committed(root, commit, domain, order))
    return count


def date_again(cache: Cache, order: DateOrder) -> int:
    """Date all notes by another order of sources, from their rows; return how many state other dates now."""
    with cache.transaction():
        old, restated = cache.dates.order(), []
        for path, properties, warnings in cache.dates.stated():
            values = json.loads(properties)
            before, now = read_dates(path, values, old), read_dates(path, values, order)
            if before != now:
                restated.append((path, now, redated(json.loads(warnings), before, now)))
        cache.dates.restate(order, restated)
    return len(restated)


def _commit(root: Path, order: DateOrder) -> str:
    """Return the commit in HEAD with the dates that are wanted from it; empty if there is or is wanted none."""
    wanted = [name for name in ("created", "changed") if BY_GIT in getattr(order, name)]
    head = head_commit(root) if wanted else ""
    return " ".join((head, *wanted)) if head else ""


def _committed(root: Path, commit: str, domain: Domain, order: DateOrder) -> Iterator[_Committed]:
    start = f"{domain.path}/" if domain.path else ""
    for path, file in read_git_dates(root, commit.partition(" ")[0]).items():
        if path.startswith(start) and format_of(path):
            created, changed = (
                as_iso(datetime.fromtimestamp(at, UTC), "seconds") if BY_GIT in sources else None
                for at, sources in ((file.created, order.created), (file.changed, order.changed))
            )
            yield path, created, changed, file.written
