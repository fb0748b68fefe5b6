"""The domains that a request names."""

from __future__ import annotations

from pipelines.errors import DomainNotFoundError
from pipelines.model import Domain
from workers.resources import Resources


def named_domains(resources: Resources, slug: str | None) -> list[Domain]:
    """Return the domain of that name, or all where none is named. Raises DomainNotFoundError."""
    domains = resources.domains()
    found = [domain for domain in domains if slug in (None, domain.slug)]
    if slug is not None and not found:
        raise DomainNotFoundError(slug, [domain.slug for domain in domains])
    return found
