"""Thirty-two clients at once, while notes are being saved: throughput, latency, and what was refused.

    python -m benchmarks.load [--notes N] [--clients N] [--seconds S] [--keep FOLDER]

The vault is made up (`made_up.py`); everything else is real, the embedded model included. Of 1,000 questions about a
sixth repeat an earlier one, whose vector is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.freshness import Service
from benchmarks.made_up import WORDS, word, write_vault
from service.runtime.client import read_token


def ask(base: str, token: str, until: float, seed: int, told: list[tuple[int, float]]) -> None:
    """Run one client."""
    chance = random.Random(seed)  # noqa: S311 - questions, not secrets
    with httpx.Client(base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
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


def measure(base: str, token: str, root: Path, clients: int, seconds: float) -> list[tuple[int, float]]:
    """Let the clients ask; return each answer's status and seconds."""
    until = time.monotonic() + seconds
    told: list[tuple[int, float]] = []
    threads = [threading.Thread(target=ask, args=(base, token, until, n, told)) for n in range(clients)]
    threads.append(threading.Thread(target=save, args=(root, until)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = given.keep or Path(folder)
        write_vault(base / "vault", given.notes)
        service = Service(base / "vault", base / "state", None)
        service.start()
        try:
            service.wait_until_quiet()
            token = read_token(service.state)
            address = f"http://127.0.0.1:{service.port}"
            table = Table("clients", "answers/s", "median, ms", "95 %", "99 %", "by status")
            for clients in given.clients:
                told = measure(address, token, service.root, clients, given.seconds)
                ms = [1000 * seconds for status, seconds in told if status == httpx.codes.OK]
                table.add_row(
                    str(clients),
                    f"{len(ms) / given.seconds:.1f}",
                    *(f"{np.percentile(ms, share):.0f}" for share in (50, 95, 99)),
                    json.dumps(Counter(str(status) for status, _ in told)),
                )
            Console(width=110).print(table)
        finally:
            service.stop()


if __name__ == "__main__":
    main()
