"""Where a save's time goes, until it is committed and until a question finds it."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.freshness import Service, p95
from pipelines.cache.cache import Cache
from pipelines.state.jobs import History, JobFilter

SAVES = 50
SETTLE_MS = 300.0
_ONE_BY_ONE = """
import statistics, sys, time
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
embedder, seconds = Embedder(find_model(None), threads=int(sys.argv[1])), []
for n in range(40):
    started = time.perf_counter()
    embedder.encode_documents([f"Benchmark {n}\\n\\nA line about gardens and the word zqabcdefghij{n}."])
    seconds.append(time.perf_counter() - started)
    time.sleep(0.1)
print(1000 * statistics.median(seconds[10:]))
"""


@dataclass(frozen=True)
class Save:
    """Where the milliseconds of a save went, from the end of its writing until a question was answered with it."""

    watcher: float
    queue: float
    job: float
    question: float

    @property
    def committed(self) -> float:
        """Until it was committed: every question from then on finds it."""
        return self.watcher + self.queue + self.job

    @property
    def total(self) -> float:
        """The whole of it."""
        return self.committed + self.question


def timed_saves(service: Service, saves: int) -> list[Save]:
    """Save notes one after another; return for each where its time went."""
    chance = random.Random(3)  # noqa: S311 - words, not secrets
    (domain,) = service.health()["domains"].values()
    cache, history, done = Cache.open(Path(domain["cache"])), History(service.state), []
    with service.client() as client:
        for n in range(saves):
            word = "zq" + "".join(chance.choices("abcdefghijklmnop", k=10))
            path = f"benchmark {n % 10}.md"
            text = f"# Benchmark {n}\n\nA line about gardens and the word {word}.\n"
            (service.root / path).write_text(text)
            saved = time.time()
            # Questions would keep the processor from what is measured: the ledger is read until it is done.
            while (committed := _committed_at(cache, path)) < saved:
                time.sleep(0.002)
            while word not in str(client.get("/search", params={"q": word, "k": 3}).json()["results"]):
                time.sleep(0.005)
            found = time.time()
            (job,) = history.page(JobFilter(task="index_notes"), limit=1)
            taken, waited = datetime.fromisoformat(job.started_at).timestamp(), (job.waited_ms or 0) / 1000
            parts = (taken - waited - saved, waited, committed - taken, found - committed)
            done.append(Save(*(1000 * part for part in parts)))
            time.sleep(chance.random() * 0.4)
    cache.close()
    history.close()
    for file in service.root.glob("benchmark *.md"):
        file.unlink()  # a vault that is kept has the same notes at the next run
    return done


def _committed_at(cache: Cache, path: str) -> float:
    """Return when a note was last indexed, in seconds since 1970; 0: never."""
    row = cache.ledger.row(path)
    return datetime.fromisoformat(row.indexed_at).timestamp() if row and row.indexed_at else 0.0


def one_text_ms() -> float:
    """Return how long the embedder alone needs for one such note, with as many threads as while questions come."""
    command = [sys.executable, "-c", _ONE_BY_ONE, str(max(1, (os.cpu_count() or 1) - 1))]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def spread(values: list[float]) -> str:
    """Say the median and the 95th percentile of milliseconds."""
    return f"median {statistics.median(values):.0f} ms, 95th {p95(values):.0f} ms (n = {len(values)})"
