"""The ways in which a domain can be asked: as its settings say, without a layer, with another setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pipelines.model import Domain
from pipelines.retrieval.layers import Source

Way = Callable[[Source], Source]
"""What is changed in a domain's source before it is asked."""


def as_it_is(source: Source) -> Source:
    """Ask a domain as its settings say."""
    return source


def _no_words(source: Source) -> Source:
    return replace(source, by_words=False)


def _no_meaning(source: Source) -> Source:
    return replace(source, vector=None)


def _no_sentences(source: Source) -> Source:
    return _with_domain(source, sentences=False)


def _no_decay(source: Source) -> Source:
    return _with_domain(source, decay=replace(source.domain.decay, mode="off"))


def _no_graph(source: Source) -> Source:
    return _with_domain(source, graph_mode="off")


def _no_recency(source: Source) -> Source:
    return _with_domain(source, decay=replace(source.domain.decay, recency_boost_amount=0.0))


def _no_names(source: Source) -> Source:
    return replace(source, names=None)


WITHOUT: Mapping[str, Way] = {
    "meaning": _no_meaning,
    "words": _no_words,
    "sentences": _no_sentences,
    "decay": _no_decay,
    "graph": _no_graph,
    "recency": _no_recency,
    "names": _no_names,
}
"""Each layer of the answers, in the order in which they follow one another, and how to ask without it."""

RETRIEVERS = ("meaning", "words")
"""The layers that find notes; the others only order what these found."""


def without(layers: Iterable[str]) -> Way:
    """Return the way to ask without some layers."""
    names = tuple(layers)

    def ask(source: Source) -> Source:
        for name in names:
            source = WITHOUT[name](source)
        return source

    return ask


def with_settings(domains: Mapping[str, Domain]) -> Way:
    """Return the way to ask each domain by other settings, given by its slug."""
    return lambda source: replace(source, domain=domains.get(source.domain.slug, source.domain))


def steps() -> dict[str, Way]:
    """Return each retriever alone, both of them, and what each further layer makes of it; the last has them all."""
    later = [name for name in WITHOUT if name not in RETRIEVERS]
    found = {name: without({*WITHOUT} - {name}) for name in RETRIEVERS}
    found["fused"] = without(later)
    return found | {name: without(later[place:]) for place, name in enumerate(later, start=1)}


def _with_domain(source: Source, **settings: object) -> Source:
    return replace(source, domain=replace(source.domain, **settings))  # type: ignore[arg-type]
