"""Every error that a call of the library raises."""

from pipelines.errors import *  # noqa: F403 - these are the errors
