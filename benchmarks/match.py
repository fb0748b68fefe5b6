"""What a best cosine says: of questions that a vault can answer, and of questions from elsewhere.

    python -m benchmarks.match [--data FOLDER] [--keep FOLDER]

Every judged set's questions are asked of its own index, and of every other set's. The bands of `match` in
`pipelines/retrieval/thresholds.py` are read off this table.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.judged import COLLECTIONS, DATA, JudgedSet, prepare
from pipelines.store.search import nearest

QUESTIONS = 60
SHARES = (5, 25, 50, 75, 95)


def best_cosines(judged: JudgedSet, questions: list[str]) -> list[float]:
    """Return the cosine of each question's nearest passage."""
    (domain,) = judged.resources.domains()
    cache = judged.resources.reader(domain)
    embedder = judged.resources.embedders.get(cache.meta.model)
    return [nearest(cache, embedder.encode_query(text), 1)[0][1] for text in questions]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    console = Console(width=120)
    names = [name for name in COLLECTIONS if (given.data / name).exists()]
    if not names:
        console.print(f"not measured: {given.data} has no judged sets")
        return
    with tempfile.TemporaryDirectory() as folder:
        sets = [prepare(name, given.data, given.keep or Path(folder)) for name in names]
        asked = {judged.name: list(judged.queries.values())[:QUESTIONS] for judged in sets}
        table = Table(
            "vault", "questions", *(f"{share} %" for share in SHARES), title="best cosine, by share"
        )
        every: dict[str, list[float]] = {"its own": [], "others'": []}
        for judged in sets:
            others = [text for name in names if name != judged.name for text in asked[name][:10]]
            for whose, questions in (("its own", asked[judged.name]), ("others'", others)):
                found = best_cosines(judged, questions)
                every[whose] += found
                table.add_row(judged.name, whose, *(f"{np.percentile(found, share):.2f}" for share in SHARES))
        for whose, found in every.items():
            table.add_row("all", whose, *(f"{np.percentile(found, share):.2f}" for share in SHARES))
        console.print(table)
        for bar in np.arange(0.25, 0.66, 0.05):
            shares = (f"{np.mean(np.array(found) >= bar):.0%} of {whose}" for whose, found in every.items())
            console.print(f"from {bar:.2f}: {', '.join(shares)}")


if __name__ == "__main__":
    main()
