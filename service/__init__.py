"""Long-running processes and their faces."""
