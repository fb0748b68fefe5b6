"""`make bench`: every benchmark in turn."""

from benchmarks import (
    bulk,
    domains,
    embedding,
    faults,
    freshness,
    frontmatters,
    graph,
    growth,
    heldout,
    links,
    load,
    match,
    pages,
    quality,
    search,
    tags,
    walks,
)

ALL = (
    freshness, links, graph, walks, heldout, quality, domains, match, frontmatters, tags, embedding, search, bulk,
    load, pages, growth, faults,
)  # fmt: skip
for benchmark in ALL:
    benchmark.main()
