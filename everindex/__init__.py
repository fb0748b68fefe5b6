"""Everindex in a Python program."""
