"""What a stranger may put at the place of a file."""

from __future__ import annotations

import os
from pathlib import Path

ODDITIES = ("folder", "fifo", "too large", "link", "dangling", "device", "loop", "environment")
SECRET = b"export EDITOR=vi\n"


def make_outside(folder: Path) -> Path:
    """Make a file beside the vault that nothing may read or write; return its path."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / ".bashrc").write_bytes(SECRET)
    return outside / ".bashrc"


def put(path: Path, kind: str, outside: Path) -> None:
    """Put something that is no regular file at a path."""
    if path.exists():
        path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "too large":
        with path.open("wb") as file:
            file.truncate(5_000_000_000_000)
    else:
        targets = {
            "link": outside,
            "dangling": outside.with_name("new"),
            "device": "/dev/zero",
            "loop": path.name,
            "environment": "/proc/self/environ",
        }
        path.symlink_to(targets[kind])


def is_untouched(outside: Path) -> bool:
    """Say whether the folder outside is as it was made."""
    return outside.read_bytes() == SECRET and [*outside.parent.iterdir()] == [outside]
