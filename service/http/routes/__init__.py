"""The routes by subject: each reads a request, calls a use case, and returns its schema."""
