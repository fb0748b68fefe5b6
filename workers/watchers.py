"""Which processes watch a vault, wherever their state lies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil


def watchers(root: Path) -> dict[Path, int]:
    """Return the watchers of a vault that run on this machine: their processes, by state folder."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        vault, state = _after("--vault", words), _after("--state", words)
        if "watch" in words and vault == str(root) and state:
            found[Path(state)] = process.pid
    return found


def _after(option: str, words: Sequence[str]) -> str | None:
    return words[words.index(option) + 1] if option in words[:-1] else None
