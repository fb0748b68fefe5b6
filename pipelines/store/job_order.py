"""The orders in which the list of jobs is shown, as SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SortKey = Literal["began", "task", "state", "domain", "notes", "waited", "ran", "attempt"]
_COLUMNS: Mapping[SortKey, str] = {"began": "id", "waited": "waited_ms", "ran": "ran_ms"}
_INDEXED = ("began", "task", "state", "domain")


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What a list of jobs is sorted by, and how many jobs come before it.

    Values that are missing come last; of equal ones the newest job comes first. Jobs of the tasks `without_done` are
    listed only if they are not done.
    """

    by: SortKey = "began"
    ascending: bool = False
    skip: int = 0
    without_done: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """Return what follows ORDER BY."""
        return f"{_COLUMNS.get(self.by, self.by)} {'ASC' if self.ascending else 'DESC'} NULLS LAST, id DESC"

    @property
    def index(self) -> str:
        """Return which index to read: the covering one if it has the column, else none, as it would be slower."""
        return "INDEXED BY job_history_page" if self.by in _INDEXED else "NOT INDEXED"

    @property
    def condition(self) -> str:
        """Return the condition on a job."""
        if not self.without_done:
            return "TRUE"
        return "NOT (state = 'done' AND task IN (SELECT value FROM json_each(:without_done)))"

    @property
    def bindings(self) -> dict[str, Any]:
        """Return the values that the SQL binds."""
        bound: dict[str, Any] = {"skip": self.skip}
        return bound | ({"without_done": json.dumps(self.without_done)} if self.without_done else {})


NEWEST = JobOrder()
"""The newest first."""
