"""`make bench`: every benchmark in turn."""

from benchmarks import faults, freshness, frontmatters, graph, links, load, match, quality, tags

for benchmark in (freshness, links, graph, quality, match, frontmatters, tags, load, faults):
    benchmark.main()
