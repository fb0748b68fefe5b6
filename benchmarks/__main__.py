"""`make bench`: every benchmark in turn."""

from benchmarks import freshness, links

freshness.main()
links.main()
