"""Who asks, and which notes this asker may see: the owner sees every note, an agent none that is private."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from pipelines.cache.notes import Private
from pipelines.errors import CacheError, DomainNotFoundError, FilterError
from pipelines.formats import is_wanted
from pipelines.model import Domain, Privacy
from pipelines.notes.privacy import is_private_place
from pipelines.vault import files
from workers.resources import Resources


@dataclass(frozen=True, slots=True)
class Audience:
    """The notes that an asker may see. A hidden note answers like one that does not exist.

    With `resources`, private notes are hidden, and so are a domain's configuration (a review queue names notes) and
    every note whose privacy is not known. The settings of `_domains.yaml` count as they are at this moment.
    """

    resources: Resources | None = None

    @property
    def sees_all(self) -> bool:
        """Whether nothing is hidden."""
        return self.resources is None

    def hidden(self, domain: str) -> frozenset[str]:
        """Return the paths in a domain's cache that this asker must not see.

        Within a snapshot of this thread's connection, they belong to that snapshot. Raises CacheError,
        DomainNotFoundError.
        """
        if self.resources is None:
            return frozenset()
        owner, private = self._private(self.resources, domain)
        return private.notes | frozenset(owner.configuration)

    def known_private(self, domain: str) -> frozenset[str]:
        """Return those of the hidden paths whose last indexed version is hidden too. Raises as `hidden`.

        A save of such a note is nothing that this asker waits for.
        """
        if self.resources is None:
            return frozenset()
        owner, private = self._private(self.resources, domain)
        return private.known | frozenset(owner.configuration)

    @staticmethod
    def _private(resources: Resources, domain: str) -> tuple[Domain, Private]:
        registry = resources.registry()
        owner = registry.get(domain)
        if owner is None:
            raise DomainNotFoundError(domain, [one.slug for one in registry.domains])
        return owner, resources.reader(owner).notes.private(resources.privacy_rules(owner))

    def require_communities(self, domain: str) -> None:
        """Refuse to tell of communities where a note is hidden: they are made of all notes and their links.

        Raises FilterError, CacheError, DomainNotFoundError.
        """
        if self.resources is None:
            return
        owner, private = self._private(self.resources, domain)
        if private.known - frozenset(owner.configuration):
            raise FilterError("communities are not available to agents in a domain that has private notes")

    def sees(self, domain: str, path: str) -> bool:
        """Say whether the asker may see a path of a domain's cache. Raises CacheError."""
        return path not in self.hidden(domain)

    def judged(self, domain: str, path: str, sha256: str) -> bool:
        """Say whether the asker may see a note's file with this content: it is what was judged. Raises CacheError."""
        if self.resources is None:
            return True
        owner = self.resources.registry().get(domain)
        row = self.resources.reader(owner).ledger.row(path) if owner else None
        return row is not None and row.indexed_hash == sha256 and self.sees(domain, path)

    def named(self, targets: Collection[str]) -> frozenset[str]:
        """Return those of the files that links mean that the asker may know of.

        A note or document must be indexed, and the asker must see it; of other files, the folders decide.
        """
        resources = self.resources
        if resources is None:
            return frozenset(targets)
        registry = resources.registry()
        by_owner: dict[str, list[str]] = {}
        found: set[str] = set()
        for path in targets:
            owner = registry.owner(path)
            may_be_indexed = files.is_markdown(path) or (
                files.is_note(path) and is_wanted(path, registry.formats_of(path))
            )
            if owner and may_be_indexed:
                by_owner.setdefault(owner.slug, []).append(path)
            elif not may_be_indexed and not is_private_place(owner.privacy if owner else Privacy(), path):
                found.add(path)
        for slug, paths in by_owner.items():
            with suppress(CacheError):  # what cannot be asked is hidden
                found |= self._indexed(resources, slug, paths) - self.hidden(slug)
        return frozenset(found)

    @staticmethod
    def _indexed(resources: Resources, slug: str, paths: Collection[str]) -> set[str]:
        owner = resources.registry().get(slug)
        return set(resources.reader(owner).notes.names(paths)) if owner else set()


OWNER = Audience()
"""The owner of the vault, at the command line, on the pages and by a program with the token: sees every note."""


def agents(resources: Resources, client: str | None = None) -> Audience:
    """Return what an agent's client sees: no private notes, unless the operator's settings open them to its name."""
    return OWNER if client in resources.settings.clients_that_see_private else Audience(resources)


# The domains that a request names.


def named_domains(resources: Resources, slug: str | None) -> list[Domain]:
    """Return the domain of that name, or all where none is named. Raises DomainNotFoundError."""
    domains = resources.domains()
    found = [domain for domain in domains if slug in (None, domain.slug)]
    if slug is not None and not found:
        raise DomainNotFoundError(slug, [domain.slug for domain in domains])
    return found
