"""Thirty-two clients at once, while notes are being saved: throughput, latency, and what was refused.

    python -m benchmarks.load [--notes N] [--clients N] [--seconds S] [--keep FOLDER]

The vault is made up (`made_up.py`); everything else is real, the embedded model included. Of 1,000 questions about a
sixth repeat an earlier one, whose vector is kept.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, folder_of, parser
from benchmarks.made_up import WORDS, word, write_vault
from benchmarks.running import Service


def ask(service: Service, until: float, seed: int, told: list[tuple[int, float]]) -> None:
    """Run one client."""
    chance = random.Random(seed)  # noqa: S311 - questions, not secrets
    with service.client() as client:
        while time.monotonic() < until:
            q = " ".join(word(min(WORDS, int(chance.paretovariate(0.5)))) for _ in range(3))
            started = time.monotonic()
            answer = client.get("/search", params={"q": q})
            told.append((answer.status_code, time.monotonic() - started))


def save(root: Path, until: float) -> None:
    """Save a note twice a second."""
    n = 0
    while time.monotonic() < until:
        (root / "saved.md").write_text(f"Saved for the {n}th time.\n")
        n += 1
        time.sleep(0.5)


def measure(service: Service, clients: int, seconds: float) -> list[tuple[int, float]]:
    """Let the clients ask; return each answer's status and seconds."""
    until = time.monotonic() + seconds
    told: list[tuple[int, float]] = []
    threads = [threading.Thread(target=ask, args=(service, until, n, told)) for n in range(clients)]
    threads.append(threading.Thread(target=save, args=(service.root, until)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, keep=True)
    options.add_argument("--notes", type=int, default=10_000)
    options.add_argument("--clients", type=int, nargs="*", default=[1, 8, 32])
    options.add_argument("--seconds", type=float, default=30.0)
    given = options.parse_args()
    console, table = (
        Console(width=110),
        Table("clients", "answers/s", "median, ms", "95 %", "99 %", "by status"),
    )
    with folder_of(given.keep) as kept:
        write_vault(kept / "vault", given.notes)
        service = Service(kept / "vault", kept / "state")
        service.start()
        try:
            service.wait_until_quiet()
            for clients in given.clients:
                told = measure(service, clients, given.seconds)
                ms = [1000 * seconds for status, seconds in told if status == httpx.codes.OK]
                table.add_row(
                    str(clients),
                    f"{len(ms) / given.seconds:.1f}",
                    *(f"{np.percentile(ms, share):.0f}" for share in (50, 95, 99)),
                    json.dumps(Counter(str(status) for status, _ in told)),
                )
        finally:
            service.stop()
    console.print(table, conditions())


if __name__ == "__main__":
    main()
