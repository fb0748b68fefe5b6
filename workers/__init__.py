"""Huey tasks: each one opens its resources and calls one pipeline function."""
