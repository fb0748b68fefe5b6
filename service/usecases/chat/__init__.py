"""Conversations with the vault: what is kept of them, one answer, and the tools of its model."""
