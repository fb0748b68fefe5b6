"""Compare two versions of Everindex side by side: a first index, a save, a search, a scan, a start, memory.

    python -m benchmarks.versions OTHER_CHECKOUT [--notes N | --vault FOLDER] [--rounds N]

Both versions serve a copy of the same vault at the same time, and are asked in turns, so that a machine's drift
affects them alike. Printed is the ratio of the medians, this version by the other one, and its
95 % interval by the bootstrap over rounds (Efron and Tibshirani, An Introduction to the Bootstrap, 13.3).
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, parser
from benchmarks.growth import searches_ms
from benchmarks.made_up import write_vault
from benchmarks.running import HERE, Service, save_to_searchable, tree_memory, wait

WORSE = 1.05
_SAVES, _SEARCHES, _SCANS = 4, 30, 3
_IDLE_SECONDS = 75.0  # what is released when idle is so after a minute
_SAMPLES = 4_000
Rounds = list[list[float]]


def saves(version: Service, number: int) -> list[float]:
    """Return the milliseconds from a save until it is found, of some saves."""
    return [1000 * seconds for seconds in save_to_searchable(version, _SAVES, number)]


def searches(version: Service, number: int) -> list[float]:
    """Return the milliseconds of some questions of three words that many notes have."""
    return searches_ms(version, number, _SEARCHES)


def scans(version: Service, _: int) -> list[float]:
    """Return the milliseconds of some comparisons of the whole, unchanged vault, as the worker counts them."""
    found = []
    with version.client() as client:
        for _ in range(_SCANS):
            client.post("/reload").raise_for_status()
            last = client.get("/health").json()["last_reconcile"]
            found.append(float(last["took_ms"] if "took_ms" in last else last["found"]["took_ms"]))
    return found


def first_indexes(version: Service, number: int) -> list[float]:
    """Return the milliseconds from `everindex up` until every note is found by its words, in a new index, once."""
    version.stop()
    new = replace(version, state=version.state.with_name(f"new-{number}"), port=0)
    began = time.monotonic()
    new.start()
    wait(new.words_done, 0.02)
    taken = 1000 * (time.monotonic() - began)
    new.stop()
    shutil.rmtree(new.state)
    version.start()
    version.wait_until_quiet()
    return [taken]


def memory(version: Service, _: int) -> list[float]:
    """Return the MB of all its processes after a minute without work, each shared page counted once, once."""
    time.sleep(_IDLE_SECONDS)
    return [tree_memory(version.process) / 1e6] if version.process else []


def starts(version: Service, _: int) -> list[float]:
    """Return the milliseconds from `everindex up` to its first answer, once."""
    version.stop()
    began = time.monotonic()
    taken = 1000 * (version.start() - began)
    version.wait_until_quiet()
    return [taken]


MEASURES: dict[str, Callable[[Service, int], list[float]]] = {
    "save to searchable, ms": saves,
    "search, ms": searches,
    "comparison of the vault, ms": scans,
    "start to first answer, ms": starts,
    "first index by words, ms": first_indexes,
    "memory when idle, MB": memory,
}


def interval(new: Rounds, old: Rounds) -> tuple[float, float, float]:
    """Return the ratio of the medians, new by old, and its 95 % interval by resampling whole rounds."""
    chance = np.random.default_rng(0)
    first, second = _by_round(new), _by_round(old)
    picks = chance.integers(0, len(new), (_SAMPLES, len(new)))
    samples = [float(np.median(first[pick]) / np.median(second[pick])) for pick in picks]
    low, high = np.quantile(samples, [0.025, 0.975])
    return float(np.median(first) / np.median(second)), float(low), float(high)


def _by_round(rounds: Rounds) -> npt.NDArray[np.float64]:
    return np.array(rounds, dtype=np.float64)


def measure(versions: list[Service], rounds: int) -> dict[str, list[Rounds]]:
    """Ask both versions in turns; return for each measure the rounds of each version."""
    found: dict[str, list[Rounds]] = {name: [[], []] for name in MEASURES}
    for number in range(-1, rounds):
        for name, ask in MEASURES.items():
            order = (0, 1) if number % 2 else (1, 0)
            for which in order:
                taken = ask(versions[which], number + 1)
                if number >= 0:  # the first round warms caches
                    found[name][which].append(taken)
    return found


def report(found: dict[str, list[Rounds]]) -> Table:
    """Return the table of ratios."""
    table = Table("measure", "here, median", "other, median", "ratio", "95 % interval", "")
    for name, (new, old) in found.items():
        ratio, low, high = interval(new, old)
        verdict = "slower" if low > WORSE else "as fast"
        medians = (f"{float(np.median(_by_round(rounds))):.1f}" for rounds in (new, old))
        table.add_row(name, *medians, f"{ratio:.3f}", f"{low:.3f} to {high:.3f}", verdict)
    return table


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("other", type=Path)
    options.add_argument("--notes", type=int, default=2_000, help="of a made-up vault")
    options.add_argument("--vault", type=Path, help="the vault to copy instead")
    options.add_argument("--rounds", type=int, default=25)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        versions = [
            Service(Path(folder, name, "vault"), Path(folder, name, "state"), checkout=checkout)
            for name, checkout in (("here", HERE), ("other", given.other.resolve()))
        ]
        if given.vault:
            shutil.copytree(given.vault, versions[0].root)
        else:
            write_vault(versions[0].root, given.notes)
        shutil.copytree(versions[0].root, versions[1].root)
        try:
            for version in versions:
                version.start()
                version.wait_until_quiet()
            found = measure(versions, given.rounds)
        finally:
            for version in versions:
                version.stop()
    Console().print(report(found), conditions())


if __name__ == "__main__":
    main()
