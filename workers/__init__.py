"""Huey tasks: thin; each opens its resources and calls one pipeline function."""
