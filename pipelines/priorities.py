"""The priorities of tasks on the queue; a higher one runs first."""

from __future__ import annotations

SAVE_PRIORITY = 110
"""The task that indexes saves; no other task runs before it."""

REQUEST_PRIORITY = 105
"""The task that looks at one note on request: before all others but saves, which no flood of requests may delay."""

HIGH_PRIORITY = 100
"""A save or a request, for which a person is waiting."""

LOW_PRIORITY = 10
"""A scan or a re-chunk; it may take any time."""

LOWEST_PRIORITY = 1
"""Optional work (ranks, sentence vectors); runs only when nothing else waits."""
