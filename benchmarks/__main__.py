"""`make bench`: every benchmark in turn."""

from benchmarks import freshness

freshness.main()
