"""Processes, sockets, locks and tokens. Every command loads it, so it imports nothing heavy."""
