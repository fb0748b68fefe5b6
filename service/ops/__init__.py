"""The dashboard at `/ops`: what waits, what runs, what failed and why, and what a person can do about it."""
