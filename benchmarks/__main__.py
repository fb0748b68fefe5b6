"""`make bench`: every benchmark in turn."""

from benchmarks import faults, freshness, graph, links

for benchmark in (freshness, links, graph, faults):
    benchmark.main()
