"""`make bench`: every benchmark in turn."""

from benchmarks import (
    bulk,
    context,
    documents,
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
    mcp,
    pages,
    quality,
    questions,
    search,
    tags,
    walks,
)

ALL = (
    freshness, links, graph, walks, heldout, quality, context, domains, match, frontmatters, tags, embedding,
    questions, search, mcp, documents, bulk, load, pages, growth, faults,
)  # fmt: skip
for benchmark in ALL:
    benchmark.main()
