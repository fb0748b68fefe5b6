"""The age of what processes record in `state.db`, by two clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

AGE = "CASE WHEN uptime <= :uptime THEN :uptime - uptime ELSE max(0.0, :at - at) END"
"""The SQL for the seconds since a row was recorded, from its columns `at` and `uptime` and from `Clocks.now`.

The wall clock may be set to another time, so it counts only for rows from before the last reboot, which resets the
monotonic clock.
"""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks that give `at` (seconds since 1970) and `uptime` (monotonic, in seconds)."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def now(self) -> dict[str, float]:
        """Return the current time as the SQL bindings `at` and `uptime`."""
        return {"at": self.wall(), "uptime": self.monotonic()}


SYSTEM_CLOCKS = Clocks()
