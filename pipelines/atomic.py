"""Files that are written whole or not at all. Light: every command loads it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old bytes or the new ones: beside, fsync, replace."""
    with _written_beside(path, data) as beside:
        beside.replace(path)


def write_once(path: Path, data: bytes) -> None:
    """Write a file unless it is there: of several processes the first one wins, and its bytes stay."""
    with _written_beside(path, data) as beside, suppress(FileExistsError):
        path.hardlink_to(beside)


@contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[Path]:
    beside = path.with_name(f".everindex-{secrets.token_hex(8)}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield beside
    finally:
        beside.unlink(missing_ok=True)
