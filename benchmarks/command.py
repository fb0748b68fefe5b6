"""What the commands of benchmarks share: options, the folder of what they make, and how figures are shown."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

DATA = Path(__file__).parents[2] / "shared" / "data"
EXAMPLE = Path(__file__).parents[1] / "examples" / "vault"


def parser(description: str | None, *, data: bool = False, keep: bool = False) -> argparse.ArgumentParser:
    """Return a parser of options that shows a module's docstring; with `--data` and `--keep` where asked for."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if data:
        options.add_argument("--data", type=Path, default=DATA, help="a folder of vaults and judged sets")
    if keep:
        options.add_argument("--keep", type=Path, help="vaults and indexes stay here for the next run")
    return options


@contextmanager
def folder_of(kept: Path | None) -> Iterator[Path]:
    """Yield the folder that keeps what is made, or one that is removed at the end."""
    if kept:
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def present(names: Iterable[str], data: Path, console: Console) -> list[str]:
    """Return the names of the folders that are among the data, and print which are not."""
    names = list(names)
    missing = [name for name in names if not (data / name).is_dir()]
    if missing:
        console.print(f"not measured, as {data} lacks them: {', '.join(missing)}")
    return [name for name in names if name not in missing]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def p95(values: Sequence[float]) -> float:
    """Return the value that 95 of 100 are not above."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def milliseconds(seconds: Sequence[float]) -> str:
    """Return the median and the 95th percentile of seconds, in milliseconds."""
    return f"{1000 * statistics.median(seconds):.0f} / {1000 * p95(seconds):.0f} ms"


def conditions() -> str:
    """Say when and on which machine something was measured."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores"
        f" (load {os.getloadavg()[0]:.1f}), Python {platform.python_version()}"
    )
