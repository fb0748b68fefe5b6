"""Processes that start together, to test what they do at the same moment."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RACERS = 4
_WAIT = """
import sys
from pathlib import Path
print("ready", flush=True)
sys.stdin.readline()
"""
_EXCHANGE = """
import ctypes, os, sys
one, other = map(os.fsencode, sys.argv[1:])
rename = ctypes.CDLL(None).renameat2
rename(-100, one, -100, other, 2)
print(flush=True)
while True:
    rename(-100, one, -100, other, 2)
"""


def race(imports: str, word: str, folders: Path) -> list[list[str]]:
    """Let processes evaluate an expression of each `folder`, in order and all at once; return what each printed."""
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


def can_exchange() -> bool:
    """Say whether two names can be exchanged in one step here."""
    return hasattr(ctypes.CDLL(None), "renameat2")


@contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    """Let another process exchange two names, time and again, while the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", _EXCHANGE, str(one), str(other)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.read(1)
        yield
    finally:
        process.kill()
        process.communicate()
