"""Recover a damaged `state.db`: copy what is readable into a new one."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import AlreadyRunningError
from pipelines.maintenance.backup import work_folder
from pipelines.maintenance.databases import is_damaged, salvage
from pipelines.state.state import STATE_FILE
from service.runtime.lock import only_one


def mend_state(state: Path) -> list[str]:
    """Replace a damaged `state.db` by its readable rows; return the message for the user.

    Raises AlreadyRunningError.
    """
    file = state / STATE_FILE
    if not is_damaged(file):
        return []
    try:
        with only_one(state), work_folder(state, "salvage") as folder:
            done = salvage(state, folder)
    except AlreadyRunningError as error:
        raise AlreadyRunningError(
            f"{file} is damaged, and Everindex runs on it; stop it (Ctrl-C, or its service), and rebuild again"
        ) from error
    decisions, changes = done.kept.get("tag_proposal", 0), done.kept.get("tag_audit", 0)
    said = (
        f"{file} was damaged: {sum(done.kept.values())} rows of it are kept, among them {decisions} proposals and"
        f" decisions and {changes} changes of notes"
    )
    if done.cut:
        said += f"; not all could be read of: {', '.join(done.cut)}"
    return [
        f"{said}. The damaged file is {done.aside}; `everindex restore FILE` brings back a backup's state"
    ]
