"""Checking, repairing, backing up and rebuilding what is stored."""
