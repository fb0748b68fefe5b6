"""`make bench`: every benchmark in turn that needs no network and nothing to compare with."""

from benchmarks import (
    context,
    documents,
    faults,
    floors,
    freshness,
    growth,
    load,
    match,
    models,
    names,
    pages,
    quality,
    search,
)

ALL = (
    floors,
    freshness,
    quality,
    match,
    models,
    names,
    context,
    search,
    documents,
    load,
    pages,
    growth,
    faults,
)
for benchmark in ALL:
    benchmark.main()
