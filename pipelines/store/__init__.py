"""SQL over the caches and `state.db`; no other package executes SQL."""
