"""The long-running processes, and their user interfaces."""
