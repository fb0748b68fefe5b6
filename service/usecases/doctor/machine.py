"""Checks of the machine: Python, the environment, SQLite, memory and the clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path

import psutil

from pipelines.errors import ConfigurationError, SqliteTooOldError
from pipelines.maintenance.databases import try_library
from queue_config.settings import unknown_variables
from service.usecases.doctor.finding import Finding, Installation, cured, failure, ok, warning

_LITTLE_MEMORY = 1_000_000_000
"""The three processes of a vault of some thousand notes hold about as much, in bytes."""
_CGROUP = Path("/sys/fs/cgroup")
_CLASSIFIER = "Programming Language :: Python :: "
_OLDEST_YEAR = 2024
"""No version of Everindex is older: a clock that says so was never set."""


def check_python(_: Installation) -> Iterator[Finding]:
    """Compare the version of Python with those that this version of Everindex was tested with."""
    classifiers = metadata("everindex").get_all("Classifier") or []
    tested = [one.removeprefix(_CLASSIFIER) for one in classifiers if one.startswith(_CLASSIFIER)]
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running in tested:
        yield ok("python", f"Python {running}")
    else:
        versions = ", ".join(tested)
        yield warning(
            "python",
            f"Everindex was not tested with Python {running}",
            f"if something fails, install it with one of: {versions} (`uv tool install --python {tested[-1]} ...`)",
        )


def check_environment(_: Installation) -> Iterator[Finding]:
    """Find variables of the environment that are misspelled settings."""
    for unknown in unknown_variables():
        yield warning(
            "environment", unknown, "correct its name, or unset it; `everindex config` lists the settings"
        )


def check_sqlite(_: Installation) -> Iterator[Finding]:
    """Try full-text search and the vector extension in a database in memory."""
    try:
        library = try_library()
    except (ConfigurationError, SqliteTooOldError) as error:
        yield failure("sqlite", *cured(error))
    else:
        yield ok("sqlite", f"SQLite {library.sqlite} with full-text search, sqlite-vec {library.vectors}")


def check_memory(_: Installation) -> Iterator[Finding]:
    """Compare the free memory, or what a container leaves of it, with what the processes need."""
    free = min(psutil.virtual_memory().available, _left_in_container())
    if free < _LITTLE_MEMORY:
        yield warning(
            "memory",
            f"{free / 1e6:.0f} MB of memory are free; the three processes need about 1 GB",
            "close other programs, or give the container more memory",
        )
    else:
        yield ok("memory", f"{free / 1e9:.1f} GB free")


def _left_in_container() -> float:
    """Return the memory that this process's container may still take; infinity outside of one."""
    try:
        most = int((_CGROUP / "memory.max").read_text())
        return most - int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")


def check_clock(_: Installation) -> Iterator[Finding]:
    """Say whether the clock was ever set."""
    year = time.localtime().tm_year
    if year < _OLDEST_YEAR:
        yield failure(
            "clock",
            f"the clock says that it is {year}",
            "set it: `timedatectl set-ntp true`, or `date --set`",
        )
    else:
        yield ok("clock", time.strftime("%Y-%m-%d %H:%M"))
