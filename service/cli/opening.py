"""Open the note that the user chose among the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.cli.options import resources_of, settings_of
from service.runtime.programs import open_note


def open_hit(given: dict[str, Any], root: Path, path: str, line: int) -> None:
    """Record that the user chose a note, and open it like `open_note`, with the same errors."""
    if settings_of(given).attention:
        from workers.attention import chosen  # noqa: PLC0415 - most users record nothing

        chosen(resources_of(given), [path], "opened")
    open_note(root, path, line)
