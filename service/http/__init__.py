"""The HTTP layer: authentication, limits and error answers."""
