"""`state.db`, which nothing can rebuild: decisions, proposals, evidence, jobs, and what processes tell each other."""
