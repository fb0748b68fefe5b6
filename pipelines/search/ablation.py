"""The ways in which a domain can be asked: by its settings, without a signal, or with another setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pipelines.model import Domain
from pipelines.search.rank import SIGNALS, Source

Way = Callable[[Source], Source]
"""Return a changed copy of a domain's source, to be asked instead of it."""


def as_it_is(source: Source) -> Source:
    """Ask a domain by its settings, unchanged."""
    return source


RETRIEVERS = ("meaning", "words")
"""The signals that find notes; the others only order them."""


def without(signals: Iterable[str]) -> Way:
    """Return the way to ask without these signals."""
    left_out = frozenset(signals)

    def ask(source: Source) -> Source:
        # Without meaning, nothing may be compared with the question.
        vector = None if "meaning" in left_out else source.vector
        return replace(source, vector=vector, without=source.without | left_out)

    return ask


def with_settings(domains: Mapping[str, Domain]) -> Way:
    """Return the way to ask each domain with other settings, by slug."""
    return lambda source: replace(source, domain=domains.get(source.domain.slug, source.domain))


def steps() -> dict[str, Way]:
    """Return each retriever alone, both together, then each further signal added; the last has all signals."""
    later = [name for name in SIGNALS if name not in RETRIEVERS]
    found = {name: without({*SIGNALS} - {name}) for name in RETRIEVERS}
    found["fused"] = without(later)
    return found | {name: without(later[place:]) for place, name in enumerate(later, start=1)}
