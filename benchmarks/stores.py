"""The same vault in SQLite files and in PostgreSQL: first index by several workers, saves, questions, memory.

    python -m benchmarks.stores [--notes N] [--workers N ...] [--questions N]

The vault is made up, with 3.2 passages per note; the model is the tests' tiny one, so that what is measured is
everything but the model. Further workers share the state folder with SQLite; with PostgreSQL they are hosts without
the vault. The answers of both are compared.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, p95, parser
from benchmarks.growth import searches_ms
from benchmarks.made_up import WORDS, word, write_vault
from benchmarks.running import Service, save_to_searchable, wait
from tests.postgres import postgres_server
from tests.tiny import build_tiny_model

_ROUNDS, _SAVES = 5, 20
_SETTLED_SECONDS = 6.0
_CLOSE = 1e-4  # between the scores of one note, whose age differs
Answers = list[list[tuple[str, float]]]


@contextmanager
def _indexing(root: Path, folder: Path, store: str | None, workers: int) -> Iterator[Service]:
    """Run Everindex with a new index and this number of workers."""
    environment = {"EVERINDEX_STORE": store} if store else {}
    os.environ.update(environment)
    service = Service(root, folder / "state")
    others: list[subprocess.Popen[bytes]] = []
    try:
        service.start()
        for number in range(1, workers):
            far = folder / f"host {number}"
            place = (far / root.name, far / "state") if store else (root, service.state)
            command = [
                sys.executable,
                "-m",
                "service.cli",
                "work",
                "--vault",
                str(place[0]),
                "--state",
                str(place[1]),
            ]
            others.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield service
    finally:
        for other in others:
            other.terminate()
            other.wait(30)
        service.stop()
        for name in environment:
            del os.environ[name]


def _seldom(ask: Callable[[], bool]) -> bool:
    """Ask; after a no, rest four times as long: at 500,000 passages an answer takes a second of a core."""
    began = time.monotonic()
    found = ask()
    if not found:
        time.sleep(4 * (time.monotonic() - began))
    return found


def _first_index(service: Service) -> dict[str, float]:
    began = time.monotonic()
    wait(lambda: _seldom(service.words_done), 0.1)
    words = time.monotonic() - began
    wait(lambda: _seldom(service.all_done), 0.1)
    return {"words, s": words, "words and vectors, s": time.monotonic() - began}


def _in_use(service: Service) -> dict[str, float]:
    """Measure questions and saves of an index that nothing else works on."""
    ms = [taken for number in range(_ROUNDS) for taken in searches_ms(service, number)]
    saved = [1000 * seconds for seconds in save_to_searchable(service, _SAVES, 0)]
    memory = service.memory()
    return {
        "question, median, ms": statistics.median(ms),
        "question, 95th, ms": p95(ms),
        "save to searchable, median, ms": statistics.median(saved),
        "save to searchable, 95th, ms": p95(saved),
        **{f"memory of the {role}, MB": size / 1e6 for role, size in memory.items()},
    }


def _answers(service: Service, questions: int) -> Answers:
    """Ask made-up questions of one to four words; return the paths and scores of each answer."""
    chance = np.random.default_rng(7)
    found: Answers = []
    with service.client() as client:
        for _ in range(questions):
            q = " ".join(word(w) for w in np.minimum(chance.zipf(1.3, int(chance.integers(1, 5))), WORDS))
            results = client.get("/search", params={"q": q, "k": 10}).json()["results"]
            found.append([(one["path"], one["score"]) for one in results])
    return found


def _are_same(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> bool:
    """Say whether two answers have the same notes in the same order, except for ties."""
    if len(one) != len(other) or any(abs(a[1] - b[1]) > _CLOSE for a, b in zip(one, other, strict=True)):
        return False
    scores = dict(other)
    return all(path not in scores or abs(scores[path] - score) <= _CLOSE for path, score in one)


def _wait_until_settled(service: Service) -> None:
    """Wait until ranks and sentences are there: until then an answer may change."""
    before = ""

    def settled() -> bool:
        nonlocal before
        with service.client() as client:
            index = client.get("/search", params={"q": word(1)}).json()["index"]
        last, before = before, index["generation"]
        return last == before and not index["refining"] and service.ready()

    wait(settled, _SETTLED_SECONDS)


def _memory_of(server: psutil.Process) -> float:
    """Return the megabytes of the server's processes, each shared page counted once."""
    total = 0
    for one in (server, *server.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += one.memory_full_info().pss
    return total / 1e6


def measure(
    root: Path, folder: Path, name: str, workers: int, questions: int
) -> tuple[dict[str, float], Answers]:
    """Index a vault with a store and some workers; with one, ask and save, too."""
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server()) if name == "PostgreSQL" else None
        service = stack.enter_context(_indexing(root, folder, server.address if server else None, workers))
        figures = _first_index(service)
        if workers > 1:
            return figures, []
        _wait_until_settled(service)
        answers = _answers(service, questions)
        figures |= _in_use(service)
        figures["files, MB"] = sum(file.stat().st_size for file in service.state.rglob("*.db*")) / 1e6
        if server:
            figures["memory of PostgreSQL, MB"] = _memory_of(psutil.Process(server.process.pid))
            with psycopg.connect(server.address) as con:
                (size,) = con.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
            figures["database, MB"] = size / 1e6
        return figures, answers


def main() -> None:
    """Measure both stores in turn, and print a table."""
    options = parser(__doc__)
    options.add_argument("--notes", type=int, default=15_400)
    options.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--questions", type=int, default=500)
    given = options.parse_args()
    console, found, answers = Console(width=120), {}, []
    with tempfile.TemporaryDirectory() as made:
        os.environ["EMBEDDING_MODEL"] = str(build_tiny_model(Path(made, "model")))
        root = Path(made, "vault")
        for workers in given.workers:
            for store in ("files", "PostgreSQL"):
                write_vault(root, given.notes)
                for saved in root.glob("benchmark *.md"):
                    saved.unlink()
                folder = Path(made, f"{store} {workers}")
                figures, answered = measure(root, folder, store, workers, given.questions)
                found[f"{store}, {workers}"] = figures
                answers += [answered] if answered else []
                print(json.dumps({f"{store}, {workers}": figures}), file=sys.stderr, flush=True)
    table = Table("", *found, title=f"{given.notes:,} notes; by store and workers")
    for name in dict.fromkeys(name for figures in found.values() for name in figures):
        table.add_row(
            name, *(f"{figures[name]:,.1f}" if name in figures else "" for figures in found.values())
        )
    console.print(table)
    if len(answers) == 2:
        same = sum(map(_are_same, *answers))
        console.print(
            f"{same} of {given.questions} answers have the same notes in the same order, except for ties"
        )
    console.print(conditions())


if __name__ == "__main__":
    main()
