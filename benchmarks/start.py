"""How soon a service answers after it was started again, when it is quiet, and the memory of its processes when idle.

    python -m benchmarks.start [--vault FOLDER | --notes N] [--rounds N] [--keep FOLDER]

A copy of the vault (or a made-up one) is indexed completely first. Questions are asked from the first answer on, in
turns, for some seconds of each round. Memory is shared in part, so it is given as the proportional set size (PSS),
which adds up; it is read after the minute in which a model becomes idle.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, folder_of, parser
from benchmarks.made_up import WORDS, word, write_vault
from benchmarks.running import Service, wait

_QUESTIONS_SECONDS = 15.0
_SETTLED_SECONDS = 3.0
_QUIET_SECONDS = 10.0
_IDLE_SECONDS = 75.0
Row = tuple[str, str]


def processes(service: Service) -> list[psutil.Process]:
    """Return the service's processes, the supervisor first."""
    if service.process is None:
        return []
    supervisor = psutil.Process(service.process.pid)
    return [supervisor, *supervisor.children(recursive=True)]


def cpu_seconds(service: Service) -> float:
    """Return the seconds that its processes have computed."""
    return sum(one.cpu_times().user + one.cpu_times().system for one in processes(service))


def started(service: Service) -> tuple[float, float]:
    """Start the service; return the seconds until it answered and until the watcher had compared the vault."""
    began = time.monotonic()
    answered = service.start() - began
    wait(lambda: service.compared_since(began), 0.02)
    return answered, time.monotonic() - began


def questions(service: Service, seed: int) -> list[float]:
    """Ask three common words at a time; return the seconds of each answer."""
    chance = random.Random(seed)  # noqa: S311 - questions, not secrets
    seconds, until = [], time.monotonic() + _QUESTIONS_SECONDS
    with service.client() as client:
        while time.monotonic() < until:
            asked = " ".join(word(min(WORDS, int(chance.paretovariate(0.5)))) for _ in range(3))
            began = time.monotonic()
            client.get("/search", params={"q": asked}).raise_for_status()
            seconds.append(time.monotonic() - began)
    return seconds


def measure(service: Service, rounds: int) -> Iterator[Row]:
    """Yield what each figure is, and its values in the rounds."""
    service.start()
    service.wait_until_quiet()
    service.stop()
    answered, compared, asked, busy = [], [], [], []
    for seed in range(rounds):
        first, second = started(service)
        answered.append(first)
        compared.append(second)
        time.sleep(max(0.0, _SETTLED_SECONDS - second))
        before = cpu_seconds(service)
        time.sleep(_QUIET_SECONDS)
        busy.append((cpu_seconds(service) - before) / _QUIET_SECONDS)
        service.stop()
        started(service)
        asked.append(questions(service, seed))
        service.stop()
    yield "first answer, s", " ".join(f"{one:.2f}" for one in answered)
    yield "vault compared, s", " ".join(f"{one:.2f}" for one in compared)
    yield "cores in use after 3 s", " ".join(f"{one:.2f}" for one in busy)
    for what, of in (("median", statistics.median), ("slowest", max)):
        yield f"questions after a start, {what}, ms", " ".join(f"{1000 * of(one):.0f}" for one in asked)
    started(service)
    time.sleep(_IDLE_SECONDS)
    total = 0
    for process in processes(service):
        pss = process.memory_full_info().pss
        total += pss
        name = next((one for one in ("serve", "work", "watch") if one in process.cmdline()), "other")
        yield (
            f"PSS when idle: {'up' if process.pid == processes(service)[0].pid else name}, MB",
            f"{pss / 1e6:.0f}",
        )
    yield "PSS when idle: together, MB", f"{total / 1e6:.0f}"
    service.stop()


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, keep=True)
    options.add_argument("--vault", type=Path, help="a vault, which is copied")
    options.add_argument("--notes", type=int, default=12_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    table = Table("", "in each round")
    with folder_of(given.keep) as kept:
        service = Service(kept / "vault", kept / "state")
        if not service.root.exists() and given.vault:
            shutil.copytree(given.vault, service.root, ignore=shutil.ignore_patterns(".git", ".everindex"))
        elif not service.root.exists():
            write_vault(service.root, given.notes)
        try:
            for row in measure(service, given.rounds):
                table.add_row(*row)
        finally:
            service.stop()
    Console(width=110).print(table, conditions())


if __name__ == "__main__":
    main()
