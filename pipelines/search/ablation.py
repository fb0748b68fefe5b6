"""The ways in which a domain can be asked: by its settings, without a layer, or with another setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pipelines.model import Domain
from pipelines.search.rank import Source

Way = Callable[[Source], Source]
"""Return a changed copy of a domain's source, to be asked instead of it."""


def as_it_is(source: Source) -> Source:
    """Ask a domain by its settings, unchanged."""
    return source


def _no_words(source: Source) -> Source:
    return replace(source, by_words=False)


def _no_meaning(source: Source) -> Source:
    return replace(source, vector=None)


def _no_sentences(source: Source) -> Source:
    return _with_domain(source, sentences=False)


def _no_symbol(source: Source) -> Source:
    return replace(source, code=replace(source.code, symbols=None))


def _no_filename(source: Source) -> Source:
    return replace(source, code=replace(source.code, filename=False))


def _no_imports(source: Source) -> Source:
    return replace(source, code=replace(source.code, imports=False))


def _no_decay(source: Source) -> Source:
    return _with_domain(source, decay=replace(source.domain.decay, mode="off"))


def _no_attention(source: Source) -> Source:
    return _with_domain(source, attention=0.0)


def _no_graph(source: Source) -> Source:
    return _with_domain(source, graph_mode="off")


def _no_recency(source: Source) -> Source:
    return _with_domain(source, decay=replace(source.domain.decay, recency_boost_amount=0.0))


def _no_name_words(source: Source) -> Source:
    return replace(source, name_words=False)


def _no_names(source: Source) -> Source:
    return replace(source, names=None)


WITHOUT: Mapping[str, Way] = {
    "meaning": _no_meaning,
    "words": _no_words,
    "sentences": _no_sentences,
    "symbol": _no_symbol,
    "filename": _no_filename,
    "imports": _no_imports,
    "decay": _no_decay,
    "attention": _no_attention,
    "graph": _no_graph,
    "recency": _no_recency,
    "name_words": _no_name_words,
    "names": _no_names,
}
"""How to ask without each layer, in the order of the layers."""

RETRIEVERS = ("meaning", "words")
"""The layers that find notes; the other layers only order them."""


def without(layers: Iterable[str]) -> Way:
    """Return the way to ask without these layers."""
    names = tuple(layers)

    def ask(source: Source) -> Source:
        for name in names:
            source = WITHOUT[name](source)
        return source

    return ask


def with_settings(domains: Mapping[str, Domain]) -> Way:
    """Return the way to ask each domain with other settings, by slug."""
    return lambda source: replace(source, domain=domains.get(source.domain.slug, source.domain))


def steps() -> dict[str, Way]:
    """Return each retriever alone, both together, then each further layer added; the last has all layers."""
    later = [name for name in WITHOUT if name not in RETRIEVERS]
    found = {name: without({*WITHOUT} - {name}) for name in RETRIEVERS}
    found["fused"] = without(later)
    return found | {name: without(later[place:]) for place, name in enumerate(later, start=1)}


def _with_domain(source: Source, **settings: object) -> Source:
    return replace(source, domain=replace(source.domain, **settings))  # type: ignore[arg-type]
