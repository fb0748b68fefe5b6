"""How fast a question is over HTTP, and how much memory it takes, in vaults of 50,000 passages and more.

    python -m benchmarks.search [--data FOLDER] [--passages N ...] [--questions N] [--keep FOLDER]

The vaults are those of `benchmarks.passages`. The questions are the judged collections' own, each asked once, by one
client that keeps its connection.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, folder_of, parser, present
from benchmarks.judged import COLLECTIONS
from benchmarks.passages import large_vault, real_questions
from benchmarks.running import serving, wait_until_idle, wait_until_ready

_WARM_UP = 20
WANTED = {
    "median": "25 ms at 50,000; twice at 100,000",
    "95th": "50 ms at 50,000",
    "memory": "4 GB at 200,000",
}


def measure(root: Path, state: Path, questions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Start the query worker and ask it; yield what was measured. The first 20 questions only warm it up."""
    began = time.perf_counter()
    with serving(root, state) as (client, process):
        wait_until_ready(client, process)
        yield "start to ready", f"{time.perf_counter() - began:.1f} s"
        wait_until_idle(process)
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
    options = parser(__doc__, data=True, keep=True)
    options.add_argument("--passages", type=int, nargs="+", default=[50_000, 100_000, 200_000])
    options.add_argument("--questions", type=int, default=200)
    given = options.parse_args()
    console = Console(width=130)
    if len(present(COLLECTIONS, given.data, console)) < len(COLLECTIONS):
        return
    rows: dict[str, dict[int, str]] = {}
    with folder_of(given.keep) as kept:
        for size in given.passages:
            for what, measured in _of_size(given.data, size, given.questions, kept):
                print(f"  {size:,}: {what}: {measured}", file=sys.stderr, flush=True)
                rows.setdefault(what, {})[size] = measured
    table = Table("what", "wanted", *(f"{size:,} passages" for size in given.passages))
    for what, cells in rows.items():
        table.add_row(what, WANTED.get(what, ""), *(cells.get(size, "") for size in given.passages))
    console.print(table, conditions())


def _of_size(data: Path, size: int, questions: int, kept: Path) -> Iterator[tuple[str, str]]:
    folder = kept / f"minilm-{size}"
    yield from large_vault(folder, data, size)
    yield from measure(folder / "vault", folder / "state", real_questions(data, questions + _WARM_UP))


if __name__ == "__main__":
    main()
