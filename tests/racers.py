"""Processes that start together, to see whether what they do at the same moment holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_RACERS = 4
_WAIT = """
import sys
from pathlib import Path
print("ready", flush=True)
sys.stdin.readline()
"""


def race(imports: str, word: str, folders: Path) -> list[list[str]]:
    """Let processes say a word of each folder's `folder`, in order and all at once; return what each said."""
    code = f"{imports}\n{_WAIT}for folder in sorted(Path(sys.argv[1]).iterdir()):\n    print({word})\n"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(_RACERS)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [racer.communicate()[0].split() for racer in racers]
