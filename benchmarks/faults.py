"""Whether anything is lost, whatever dies: repeated faults, over the real processes and files, and their cost.

    python -m benchmarks.faults [CHECK ...] [--minutes M] [--seed S] [--record FILE] [--show]

Each check repeats its rounds until its time is over. Rounds add up in the record, so that large figures can be
reached over several runs. A tiny real model replaces MiniLM.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, parser
from benchmarks.running import redis_server
from tests.faults import crowds, disk, hosts, kills, outages, places, reviews, tag_places
from tests.postgres import postgres_server
from tests.tiny import build_tiny_model

RECORD = Path(__file__).with_name("faults.json")

WRONG = frozenset(
    [
        "lost",
        "ghosts",
        "duplicates",
        "drift",
        "unequal",
        "missed",
        "failed",
        "locked",
        "failed_runs",
        "failed_answers",
        "unsaid",
        "unmet",
        "restarts",
        "lines_twice",
        "items_twice",
        "resurrected",
        "ticks_lost",
        "orphans",
        "damaged",
        "half_indexed",
    ]
)
"""The figures that must be zero."""

_FILES_IN_POSTGRESQL = 20_000  # so that a round takes minutes
Round = Mapping[str, float]
Check = Callable[[random.Random, Path], Iterator[Round]]


def _kills_with_redis(chance: random.Random, folder: Path) -> Iterator[Round]:
    with redis_server() as url:
        yield from kills.kills(chance, folder, url)


def _state_machine(chance: random.Random, folder: Path) -> Iterator[Round]:
    """Run the state machine of the test suite, a hundred new examples per round."""
    examples = 100
    while True:
        seed = chance.randrange(2**32)
        environment = {**os.environ, "EXAMPLES": str(examples)}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--hypothesis-seed={seed}",
            f"--basetemp={folder}/p",
        ]
        command += ["-p", "no:cacheprovider", "-o", "timeout=0", "tests/pipelines/test_state_machine.py"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-5000:], file=sys.stderr)
        yield {"examples": examples, "failed_runs": int(done.returncode != 0)}


def _writers(_: random.Random, folder: Path) -> Iterator[Round]:
    return crowds.writers(folder, build_tiny_model(folder))


def _writers_in_postgresql(_: random.Random, folder: Path) -> Iterator[Round]:
    with postgres_server() as server:
        yield from crowds.writers(folder, build_tiny_model(folder), _FILES_IN_POSTGRESQL, server)


def _readers(chance: random.Random, folder: Path) -> Iterator[Round]:
    return crowds.readers(chance, folder, build_tiny_model(folder))


CHECKS: dict[str, tuple[str, Check]] = {
    "kills": ("kill -9 of a process under edits, embedded queue", kills.kills),
    "kills-redis": ("kill -9 of a process under edits, Redis", _kills_with_redis),
    "places": ("kill at every failpoint", lambda chance, _: places.kill_at_every_place(chance)),
    "places-postgres": (
        "kill at every failpoint, PostgreSQL",
        lambda chance, _: places.kill_at_every_place(chance, in_postgresql=True),
    ),
    "tag-places": (
        "kill at every failpoint of tags",
        lambda chance, _: tag_places.kill_at_every_place(chance),
    ),
    "queue": ("queue file deleted, FLUSHALL, Redis kill -9, in a burst", outages.queue_losses),
    "writers": ("100,000 files written and renamed by 4 writers", _writers),
    "writers-postgres": ("20,000 files by 4 writers, PostgreSQL", _writers_in_postgresql),
    "machine": ("state machine", _state_machine),
    "readers": ("two workers and eight readers", _readers),
    "writes": ("write faults at every Nth I/O", lambda chance, _: disk.write_faults(chance)),
    "reviews": ("a person and the service write one review queue", reviews.races),
    "disk": ("disk full, then freed", outages.disk_full),
    "hosts": ("hosts cut off, killed and frozen, PostgreSQL kill -9, its disk full", hosts.rounds),
}


def add_up(total: dict[str, float], one: Round) -> None:
    """Add a round to a check's figures: what begins with "worst" is the largest seen, the rest is summed."""
    for name, value in one.items():
        if name.startswith("worst"):
            total[name] = max(total.get(name, 0.0), value)
        else:
            total[name] = round(total.get(name, 0.0) + value, 3)


def run(name: str, seed: int, minutes: float, record: Path) -> dict[str, float]:
    """Repeat a check's rounds for some minutes (at least one), writing each into the record.

    Return the figures of this run that must be zero and are not.
    """
    _, check = CHECKS[name]
    found: dict[str, float] = {}
    until = time.monotonic() + 60 * minutes
    with (
        tempfile.TemporaryDirectory(prefix="everindex-") as folder,
        closing(check(random.Random(seed), Path(folder))) as rounds,  # type: ignore[type-var]  # noqa: S311 - a generator; faults, not secrets
    ):
        for one in rounds:
            figures = json.loads(record.read_text()) if record.exists() else {}
            entry = figures.setdefault(name, {"seeds": [], "figures": {}})
            if seed not in entry["seeds"]:
                entry["seeds"].append(seed)
            add_up(entry["figures"], one)
            add_up(found, {key: value for key, value in one.items() if key in WRONG and value})
            record.write_text(json.dumps(figures, indent=1))
            if time.monotonic() > until:
                break
    return found


def show(record: Path, console: Console) -> None:
    """Print what the record holds."""
    figures = json.loads(record.read_text()) if record.exists() else {}
    table = Table("check", "figures", "seeds", title="Faults")
    for name, (what, _) in CHECKS.items():
        entry = figures.get(name)
        if entry is None:
            table.add_row(what, "not run", "")
            continue
        said = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in entry["figures"].items())
        table.add_row(what, said, ", ".join(map(str, entry["seeds"])))
    console.print(table)
    console.print(conditions())


def main() -> None:
    """Run the checks that were named (default: all, one after another) and print the table."""
    options = parser(__doc__)
    options.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    options.add_argument("--minutes", type=float, default=5.0, help="for each check")
    options.add_argument("--seed", type=int, default=None, help="default: a new one")
    options.add_argument("--record", type=Path, default=RECORD)
    options.add_argument("--show", action="store_true", help="only print what was recorded")
    given = options.parse_args()
    unknown = set(given.checks) - CHECKS.keys()
    if unknown:
        options.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    seed = random.randrange(10**6) if given.seed is None else given.seed  # noqa: S311 - faults, not secrets
    wrong = {}
    for name in () if given.show else given.checks or CHECKS:
        print(f"{name}: {given.minutes:g} min, seed {seed}", file=sys.stderr, flush=True)
        if found := run(name, seed, given.minutes, given.record):
            wrong[name] = found
    show(given.record, Console(width=120))
    if wrong:
        sys.exit(f"faults were found: {wrong}")


if __name__ == "__main__":
    main()
