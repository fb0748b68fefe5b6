"""How good the answers are, layer by layer, on judged sets: nDCG@10 against BM25 and vectors alone.

    python -m benchmarks.quality [SET ...] [--data FOLDER] [--keep FOLDER]

Each set is a vault that the real pipeline indexed (one file a document); with `--keep` the indexes stay for the next
run. The figures are ir-measures'; `p` is a paired t-test of the whole stack against the convex fusion alone.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import ir_measures
import numpy as np
from ir_measures import RR, Qrel, R, ScoredDoc, nDCG
from rich.console import Console
from rich.table import Table
from scipy.stats import ttest_rel

from benchmarks.judged import COLLECTIONS, DATA, VAULTS, JudgedSet, prepare
from pipelines.model import Domain
from pipelines.retrieval.layers import Source, depth_for, rank_notes

MEASURES = (nDCG @ 10, R @ 10, R @ 60, RR)
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass
class Runs:
    """What each way of ranking answered: name -> question -> paths, best first."""

    found: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, name: str, query: str, paths: list[str]) -> None:
        """Note one answer."""
        self.found.setdefault(name, {})[query] = paths


def ways(domain: Domain) -> dict[str, Domain]:
    """Return the settings that are compared; `stack` is what is shipped."""
    return {
        "RRF 1:0.05": replace(domain, fusion="rrf", lexical_weight=0.05, graph_mode="off"),
        "RRF 1:0.5": replace(domain, fusion="rrf", lexical_weight=0.5, graph_mode="off"),
        "RRF 1:1": replace(domain, fusion="rrf", lexical_weight=1.0, graph_mode="off"),
        "convex": replace(domain, fusion="convex", graph_mode="off"),
        "linear": replace(domain, graph_mode="linear"),
        "stack": domain,
    }


def answer(judged: JudgedSet, k: int = 10) -> Runs:
    """Ask every question in every way."""
    (domain,) = judged.resources.domains()
    cache = judged.resources.reader(domain)
    embedder = judged.resources.embedder(cache.meta.model)
    runs = Runs()
    for query, text in judged.queries.items():
        vector = embedder.encode_query(text)
        for name, settings in ways(domain).items():
            layers = rank_notes(Source(settings, cache, vector), text, depth_for(k), NOW).layers
            runs.add(name, query, list(layers.values())[-1])
        runs.add("BM25", query, layers["lexical"])
        runs.add("vectors", query, layers["vector"])
    return runs


def figures(judged: JudgedSet, run: Mapping[str, list[str]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return a run's means by measure, and its nDCG@10 by question."""
    qrels = [Qrel(q, path, grade) for q in judged.queries for path, grade in judged.grades[q].items()]
    scored = [
        ScoredDoc(q, path, float(-place)) for q, paths in run.items() for place, path in enumerate(paths)
    ]
    means = {str(m): value for m, value in ir_measures.calc_aggregate(MEASURES, qrels, scored).items()}
    single = dict.fromkeys(judged.queries, 0.0)
    single |= {m.query_id: m.value for m in ir_measures.iter_calc([nDCG @ 10], qrels, scored)}
    return means, single


def p_value(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the two-sided p of a paired t-test; 1 where nothing differs."""
    first, second = (np.array([run[q] for q in sorted(one)]) for run in (one, other))
    return float(ttest_rel(first, second).pvalue) if (first != second).any() else 1.0


def rows(
    names: list[str], data: Path, kept: Path
) -> Iterator[tuple[str, dict[str, dict[str, float]], float]]:
    """Measure each set: its name, the means of each way, and the p of the stack against convex fusion."""
    for name in names:
        judged = prepare(name, data, kept)
        measured = {way: figures(judged, run) for way, run in answer(judged).found.items()}
        p = p_value(measured["stack"][1], measured["convex"][1])
        yield name, {way: means for way, (means, _) in measured.items()}, p


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", default=[*COLLECTIONS, *VAULTS])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    console = Console(width=160)
    missing = [name for name in given.sets if not (given.data / name).exists()]
    if missing:
        console.print(f"not measured, as {given.data} lacks them: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        table: Table | None = None
        for name, means, p in rows(
            [s for s in given.sets if s not in missing], given.data, given.keep or Path(folder)
        ):
            if table is None:
                table = Table("set", "measure", *means, "p")
            for measure in map(str, MEASURES):
                first = measure == str(MEASURES[0])
                table.add_row(
                    name if first else "",
                    measure,
                    *(f"{m[measure]:.3f}" for m in means.values()),
                    f"{p:.3f}" if first else "",
                )
            console.print(f"{name} done")
        if table:
            console.print(table)
    console.print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, all-MiniLM-L6-v2")


if __name__ == "__main__":
    main()
