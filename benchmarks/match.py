"""What a best cosine says, and where answers end, for a vault's own questions and for questions from elsewhere.

    python -m benchmarks.match [--data FOLDER] [--keep FOLDER]

Every judged set's questions are asked of its own index, and of every other set's. The bands of `match` in
`pipelines/retrieval/thresholds.py` are read off this table. The last lines count the results after the last answer.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.judged import COLLECTIONS, DATA, JudgedSet, prepare
from benchmarks.quality import NOW, asked_anew
from pipelines.store.search import nearest

QUESTIONS = 60
SHARES = (5, 25, 50, 75, 95)


@dataclass
class CutOff:
    """How many results some questions had, how many came after the last answer, and how many are relevant."""

    questions: int = 0
    results: int = 0
    after: int = 0
    relevant: int = 0
    relevant_after: int = 0

    def __str__(self) -> str:
        """Return the counts as one line."""
        return (
            f"{self.questions} questions: {self.after:,} of {self.results:,} results came after the last answer,"
            f" with {self.relevant_after} of {self.relevant} relevant notes"
        )


def best_cosines(judged: JudgedSet, questions: list[str]) -> list[float]:
    """Return the cosine of each question's nearest passage."""
    (domain,) = judged.resources.domains()
    cache = judged.resources.reader(domain)
    embedder = judged.resources.embedders.get(cache.meta.model)
    return [nearest(cache, embedder.encode_query(text), 1)[0][1] for text in questions]


def count_cut_off(judged: JudgedSet, questions: dict[str, str], counted: CutOff) -> None:
    """Ask for ten results to each question (by its id), and add what came after the last answer."""
    with asked_anew(judged) as service:
        for query, text in questions.items():
            page = service.page(text, 10, now=NOW)
            relevant = [one.first.hit.path in judged.grades.get(query, ()) for one in page.shown]
            counted.questions += 1
            counted.results += len(page.shown)
            counted.after += len(page.shown) - page.answers
            counted.relevant += sum(relevant)
            counted.relevant_after += sum(relevant[page.answers :])


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
        print_cosines(console, sets)
        print_cut_offs(console, sets)


def asked(judged: JudgedSet, most: int = QUESTIONS) -> dict[str, str]:
    """Return the first questions of a set, by id."""
    return dict(islice(judged.queries.items(), most))


def elsewhere(judged: JudgedSet, sets: Sequence[JudgedSet]) -> dict[str, str]:
    """Return ten questions of each other set; their ids begin with the set's name."""
    return {
        f"{other.name}/{query}": text
        for other in sets
        if other is not judged
        for query, text in asked(other, 10).items()
    }


def print_cosines(console: Console, sets: Sequence[JudgedSet]) -> None:
    """Print the best cosines of each set's questions and of others', and what share reaches which bar."""
    table = Table("vault", "questions", *(f"{share} %" for share in SHARES), title="best cosine, by share")
    every: dict[str, list[float]] = {"its own": [], "others'": []}
    for judged in sets:
        for whose, questions in (("its own", asked(judged)), ("others'", elsewhere(judged, sets))):
            found = best_cosines(judged, list(questions.values()))
            every[whose] += found
            if found:
                table.add_row(judged.name, whose, *(f"{np.percentile(found, share):.2f}" for share in SHARES))
    every = {whose: found for whose, found in every.items() if found}
    for whose, found in every.items():
        table.add_row("all", whose, *(f"{np.percentile(found, share):.2f}" for share in SHARES))
    console.print(table)
    for bar in np.arange(0.25, 0.66, 0.05):
        shares = (f"{np.mean(np.array(found) >= bar):.0%} of {whose}" for whose, found in every.items())
        console.print(f"from {bar:.2f}: {', '.join(shares)}")


def print_cut_offs(console: Console, sets: Sequence[JudgedSet]) -> None:
    """Print how many results came after the last answer, for each set's own questions and for others'."""
    own, others = CutOff(), CutOff()
    for judged in sets:
        count_cut_off(judged, asked(judged), own)
        count_cut_off(judged, elsewhere(judged, sets), others)
    console.print(f"its own {own}\nothers' {others}")


if __name__ == "__main__":
    main()
