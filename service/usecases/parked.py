"""List, retry and forget parked notes."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.cache.cache import Cache
from pipelines.cache.graph import ParkedRow, parked_notes
from pipelines.errors import CacheError, CacheMissingError
from pipelines.indexing.status import unforgotten
from pipelines.model import Domain
from service.usecases.audience import OWNER, Audience
from service.usecases.schemas.operations import ParkedChoice, ParkedList, ParkedNote, ParkedPaths
from workers.resources import Resources
from workers.tasks import Tasks


class Parked:
    """The parked notes of a vault's domains."""

    def __init__(self, resources: Resources, tasks: Tasks) -> None:
        self._resources = resources
        self._tasks = tasks

    def each_domain(self, failed: dict[str, str]) -> Iterator[tuple[Domain, Cache]]:
        """Yield the domains that have a cache, each with it; `failed` learns why others cannot be asked."""
        for domain in self._resources.domains():
            try:
                yield domain, self._resources.reader(domain)
            except CacheMissingError:
                continue  # the watcher is about to make it
            except CacheError as error:
                failed[domain.slug] = str(error)

    def of(self, domain: Domain, cache: Cache) -> list[ParkedRow]:
        """Return a domain's parked notes but the forgotten ones. Raises CacheError."""
        return self._shown_of(domain, parked_notes(cache))

    def _shown_of(self, domain: Domain, rows: list[ParkedRow]) -> list[ParkedRow]:
        return unforgotten(rows, self._resources.state(), domain.slug)

    def _forgotten(self, domain: Domain) -> dict[str, int]:
        """Return the notes that the operator forgot, each with the generation that failed."""
        return self._resources.state().decisions.dismissed(domain.slug)

    def _all(self) -> Iterator[tuple[Domain, list[ParkedRow]]]:
        """Yield every domain that can be asked with its parked notes; the overview names the others."""
        for domain, cache in self.each_domain({}):
            try:
                rows = parked_notes(cache)
            except CacheError:
                continue
            yield domain, rows

    def shown(self, *, audience: Audience = OWNER) -> ParkedList:
        """List the parked notes; whether one that was never read is private is not known."""
        notes: list[ParkedNote] = []
        kinds: dict[str, int] = {}
        forgotten = 0
        for domain, rows in self._all():
            hidden = audience.hidden(domain.slug)
            rows = [row for row in rows if row.path not in hidden]  # noqa: PLW2901 - only these count
            shown = self._shown_of(domain, rows)
            forgotten += len(rows) - len(shown)
            for row in shown:
                kinds[row.kind] = kinds.get(row.kind, 0) + 1
                notes.append(
                    ParkedNote(
                        domain=domain.slug,
                        path=row.path,
                        kind=row.kind,
                        reason=row.reason,
                        attempts=row.attempts,
                        since_s=round(row.since_s, 1),
                    )
                )
        return ParkedList(notes=notes, kinds=kinds, forgotten=forgotten)

    def retry(self, choice: ParkedChoice) -> ParkedPaths:
        """Have a worker retry parked notes; return their paths."""
        paths = [row.path for domain, rows in self._all() for row in self._chosen(domain, rows, choice)]
        for path in paths:
            self._tasks.retry_parked(path)
        return ParkedPaths(paths=paths)

    def forget(self, choice: ParkedChoice) -> ParkedPaths:
        """Hide parked notes until they change and fail again; return their paths."""
        paths: list[str] = []
        for domain, rows in self._all():
            chosen = {row.path: row.generation for row in self._chosen(domain, rows, choice)}
            if chosen:
                still = {row.path: row.generation for row in rows}
                kept = {path: g for path, g in self._forgotten(domain).items() if still.get(path) == g}
                self._resources.state().decisions.replace_dismissed(domain.slug, kept | chosen)
                paths += chosen
        return ParkedPaths(paths=paths)

    def _chosen(self, domain: Domain, rows: list[ParkedRow], choice: ParkedChoice) -> list[ParkedRow]:
        paths = frozenset(choice.paths)
        return [row for row in self._shown_of(domain, rows) if row.path in paths or row.kind == choice.kind]
