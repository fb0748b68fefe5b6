"""The domains that a request names."""

from __future__ import annotations

from fastapi import HTTPException

from pipelines.model import Domain
from workers.resources import Resources


def named_domains(resources: Resources, slug: str | None) -> list[Domain]:
    """Return the domain of that name, or all where none is named. Raises HTTPException 404."""
    domains = resources.domains()
    found = [domain for domain in domains if slug in (None, domain.slug)]
    if not found:
        known = ", ".join(domain.slug for domain in domains)
        raise HTTPException(404, f"there is no domain {slug!r}; the vault has {known}")
    return found
