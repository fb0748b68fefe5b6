"""The memory of the worker process."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8
"""As glibc's malloc.h calls it."""
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads that start from now on allocate from two arenas of glibc's, not from up to eight per core.

    An arena keeps much of the most that it ever held, and the threads that embed and read come and go.
    """
    with suppress(AttributeError, OSError):  # other C libraries have no arenas
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def return_memory() -> None:
    """Return to the system what is free but kept, in milliseconds; for the end of work that needed much."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
