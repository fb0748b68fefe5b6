"""How fast a question is over HTTP, and how much memory it takes, in vaults of 50,000 passages and more.

    python -m benchmarks.search [--data FOLDER] [--passages N ...] [--model minilm|large] [--questions N]
        [--keep FOLDER]

The text is of the judged collections: their documents cut into passages, and where these do not suffice, further
ones of sentences drawn from them all. The real pipeline indexes the notes; only the vectors are made up, as
embedding takes hours for 200,000 passages and their sentences: 1,500 real passages are embedded, and each text has
a mixture of four of these and noise, seeded by the text. `large` has bge-large's shape with random weights, and
mixtures of random vectors. The questions are the collections' own, each asked once, by one client that keeps its
connection.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import psutil
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from benchmarks.judged import COLLECTIONS, DATA
from benchmarks.passages import (
    ANCHORS,
    build_index,
    passages,
    real_questions,
    real_sentences,
    save_large_model,
    write_vault,
)
from pipelines.embedding.models import EMBEDDED_MODEL
from service.runtime.client import read_token, running

_WARM_UP = 20
_PATIENCE = 600.0
_IDLE_SECONDS = 1.0
_IDLE_PERCENT = 20.0
WANTED = {
    "minilm": {"median": "25 ms at 50,000; twice at 100,000", "95th": "50 ms at 50,000"},
    "large": {"median": "65 ms at 50,000; twice at 100,000"},
}
_WANTED_MEMORY = {"memory": "4 GB at 200,000"}
Found = TypeVar("Found")


@contextmanager
def serving(root: Path, state: Path, model: str) -> Iterator[tuple[httpx.Client, psutil.Popen]]:
    """Run the query worker; yield a client that has the token, once it can be reached, and the process."""
    command = [sys.executable, "-m", "service.cli", "serve", "--vault", str(root), "--state", str(state)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "EVERINDEX_EMBEDDING_MODEL": model}
    process = psutil.Popen([*command, "--port", "0"], env=environment, stderr=subprocess.DEVNULL)
    try:
        service = wait(
            process, lambda: found if (found := running(state)) and found.pid == process.pid else None
        )
        headers = {"Authorization": f"Bearer {read_token(state)}"}
        with httpx.Client(base_url=service.address, headers=headers, trust_env=False, timeout=60) as client:
            yield client, process
    finally:
        process.terminate()
        process.wait(30)


def wait(process: psutil.Popen, found: Callable[[], Found | None]) -> Found:
    """Wait until something of a process is there, and return it. Raises TimeoutError."""
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise TimeoutError(
        "the query worker did not get there; run `everindex serve` on the kept folder to see why"
    )


def measure(root: Path, state: Path, model: str, questions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Start the query worker and ask it; yield what was measured. The first 20 questions only warm it up."""
    began = time.perf_counter()
    with serving(root, state, model) as (client, process):

        def answers() -> bool:
            try:
                return client.get("/ready").status_code == httpx.codes.OK
            except httpx.TransportError:
                return False  # bound, and not listening yet

        wait(process, answers)
        yield "start to ready", f"{time.perf_counter() - began:.1f} s"
        # Nothing says when all is in memory: it then neither computes nor reads.
        wait(process, lambda: is_idle(process))
        yield "start to idle (vectors in memory)", f"{time.perf_counter() - began:.1f} s"
        ask(client, questions[:_WARM_UP])
        before = stage_seconds(client)
        seconds, hits = ask(client, questions[_WARM_UP:])
        after = stage_seconds(client)
        means = {stage: (after[stage] - before.get(stage, 0.0)) / len(seconds) for stage in after}
        for name, share in (("median", 50), ("95th", 95), ("worst", 100)):
            yield name, f"{np.percentile(seconds, share) * 1e3:.1f} ms"
        yield from _by_stage(means, statistics.mean(seconds))
        by_meaning = sum(hit["excerpt_by"] == "meaning" for hit in hits) / max(1, len(hits))
        yield "excerpts chosen by meaning", f"{by_meaning:.0%} of {len(hits)}"
        memory = process.memory_full_info()
        yield "memory", f"{memory.rss / 1e9:.2f} GB, {memory.uss / 1e9:.2f} its own"


def is_idle(process: psutil.Popen) -> bool:
    """Say whether a process neither computes nor reads, by watching it for a second."""
    read = process.io_counters().read_bytes
    busy = process.cpu_percent(_IDLE_SECONDS)
    return bool(busy < _IDLE_PERCENT and process.io_counters().read_bytes == read)


def ask(client: httpx.Client, questions: Sequence[str]) -> tuple[list[float], list[dict[str, Any]]]:
    """Ask one question after another; return the seconds that each took, and all hits."""
    seconds, hits = [], []
    for question in questions:
        asked = time.perf_counter()
        answer = client.get("/search", params={"q": question}).raise_for_status()
        seconds.append(time.perf_counter() - asked)
        hits += answer.json()["results"]
    return seconds, hits


def stage_seconds(client: httpx.Client) -> dict[str, float]:
    """Return the seconds that all searches took so far, by stage."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    name = "everindex_search_duration_seconds_sum"
    return {s.labels["stage"]: s.value for family in families for s in family.samples if s.name == name}


def _by_stage(means: Mapping[str, float], whole: float) -> Iterator[tuple[str, str]]:
    stages = {stage: mean for stage, mean in means.items() if stage != "total"}
    for stage, mean in stages.items():
        yield f"mean: {stage}", f"{mean * 1e3:.1f} ms"
    yield "mean: the rest of a search", f"{(means['total'] - sum(stages.values())) * 1e3:.1f} ms"
    yield "mean: index state, JSON, HTTP", f"{(whole - means['total']) * 1e3:.1f} ms"


def main() -> None:
    """Build, ask and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--passages", type=int, nargs="+", default=[50_000, 100_000, 200_000])
    parser.add_argument("--model", choices=list(WANTED), default="minilm")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    console = Console(width=130)
    missing = [name for name in COLLECTIONS if not (given.data / name).is_dir()]
    if missing:
        console.print(f"not measured, as {given.data} lacks {', '.join(missing)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        kept = (given.keep or Path(folder)).resolve()
        rows: dict[str, dict[int, str]] = {}
        for size in given.passages:
            for what, measured in _of_size(given, size, kept):
                print(f"  {size:,}: {what}: {measured}", file=sys.stderr, flush=True)
                rows.setdefault(what, {})[size] = measured
    wanted = WANTED[given.model] | _WANTED_MEMORY
    table = Table("what", "wanted", *(f"{size:,} passages" for size in given.passages), title=given.model)
    for what, cells in rows.items():
        table.add_row(what, wanted.get(what, ""), *(cells.get(size, "") for size in given.passages))
    console.print(table)
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    console.print(f"{when}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


def _of_size(given: argparse.Namespace, size: int, kept: Path) -> Iterator[tuple[str, str]]:
    folder = kept / f"{given.model}-{size}"
    root, state = folder / "vault", folder / "state"
    folder.mkdir(parents=True, exist_ok=True)
    model = save_large_model(kept) if given.model == "large" else EMBEDDED_MODEL
    chosen = list(islice(passages(list(real_sentences(given.data))), size))
    real = [text for text, is_real in chosen if is_real]
    yield "passages written / of these real", f"{size:,} / {len(real):,}"
    write_vault(root, [text for text, _ in chosen])
    sample = random.Random(4).sample(real, min(ANCHORS, len(real)))  # noqa: S311
    yield from build_index(root, state, model, sample)
    yield from measure(root, state, model, real_questions(given.data, given.questions + _WARM_UP))


if __name__ == "__main__":
    main()
