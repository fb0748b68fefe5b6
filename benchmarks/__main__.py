"""`make bench`: every benchmark in turn."""

from benchmarks import (
    bulk,
    embedding,
    faults,
    freshness,
    frontmatters,
    graph,
    growth,
    links,
    load,
    match,
    quality,
    search,
    tags,
)

ALL = (
    freshness, links, graph, quality, match, frontmatters, tags, embedding, search, bulk, load, growth, faults,
)  # fmt: skip
for benchmark in ALL:
    benchmark.main()
