"""Ranks and communities of the notes, from their links."""
