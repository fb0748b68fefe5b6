"""The only rooms that execute SQL."""
