"""`make bench`: every benchmark in turn."""

from benchmarks import (
    bulk,
    faults,
    freshness,
    frontmatters,
    graph,
    growth,
    links,
    load,
    match,
    quality,
    tags,
)

for benchmark in (freshness, links, graph, quality, match, frontmatters, tags, bulk, load, growth, faults):
    benchmark.main()
