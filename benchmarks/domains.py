"""Two judged sets as two domains: what asking both costs against asking the right one alone (nDCG@10).

    python -m benchmarks.domains [SET ...] [--data FOLDER] [--keep FOLDER] [--questions N] [--by-rank]

Each set is a vault that the real pipeline indexed; two of their caches are asked together as two domains of one vault
would be. Of each set at most 60 questions, chosen by a hash, are asked over each pair that the set is in; the other
set's notes count as wrong, also those that answer the question. With `--by-rank` domains are merged by rank, as
those of different models are.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks.judged import COLLECTIONS, DATA, JudgedSet, prepare
from pipelines.cache.cache import Vector
from pipelines.search import domains
from pipelines.search.bm25 import WordPostings
from pipelines.search.domains import Asked
from pipelines.search.evaluate import ndcg
from pipelines.search.rank import Source, depth_for

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ALLOWED = 0.01


@dataclass(frozen=True)
class Question:
    """A question of a set: its text, its vector, the grades of the set's notes."""

    text: str
    vector: Vector
    grades: dict[str, int]


@dataclass(frozen=True)
class AskedSet:
    """A set as a domain, and the questions that are asked of it."""

    source: Source
    questions: list[Question]

    def ndcg(self, question: Question, others: Sequence[AskedSet]) -> float:
        """Return the nDCG@10 of a question of this set, asked over it and others."""
        sources = [replace(one.source, vector=question.vector) for one in (self, *others)]
        asked = Asked(sources)
        with asked.snapshots():
            ranked = asked.rank(question.text, depth_for(10), NOW)[:10]
        return ndcg([one.hit.path if one.source is sources[0] else "" for one in ranked], question.grades)


def open_set(judged: JudgedSet, most: int) -> AskedSet:
    """Return a set with at most `most` of its questions, always the same ones."""
    (domain,) = judged.resources.domains()
    cache = judged.resources.reader(domain)
    embedder = judged.resources.embedders.get(cache.meta.model)
    chosen = sorted(
        judged.queries, key=lambda query: hashlib.sha256(f"{judged.name}/{query}".encode()).digest()
    )
    questions = [
        Question(judged.queries[query], embedder.encode_query(judged.queries[query]), judged.grades[query])
        for query in chosen[:most]
    ]
    return AskedSet(Source(replace(domain, slug=judged.name), cache, None, words=WordPostings()), questions)


def figures(sets: dict[str, AskedSet]) -> Iterator[tuple[str, str, float, float]]:
    """Yield for each set, and each other set beside it, the mean nDCG@10 alone and over both."""
    for name, own in sets.items():
        alone = fmean(own.ndcg(question, []) for question in own.questions)
        for other, beside in sets.items():
            if other != name:
                yield name, other, alone, fmean(own.ndcg(q, [beside]) for q in own.questions)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", default=COLLECTIONS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--by-rank", action="store_true")
    given = parser.parse_args()
    console = Console(width=130)
    missing = [name for name in given.sets if not (given.data / name).is_dir()]
    if missing:
        console.print(f"not measured, as {given.data} lacks them: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        kept = given.keep or Path(folder)
        names = [name for name in given.sets if name not in missing]
        sets = {name: open_set(prepare(name, given.data, kept), given.questions) for name in names}
        apart = patch.object(domains, "_comparable", lambda sources: [[source] for source in sources])
        if given.by_rank:
            apart.start()
        console.print(_table(sets))
    console.print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, all-MiniLM-L6-v2")


def _table(sets: dict[str, AskedSet]) -> Table:
    """Return a row per set: its nDCG@10 alone, and what each other set beside it adds or takes away."""
    table = Table("nDCG@10 of", "alone", *(f"+ {name}" for name in sets))
    changes: dict[tuple[str, str], float] = {}
    alone_by_name = {}
    for name, other, alone, both in figures(sets):
        alone_by_name[name] = alone
        changes[name, other] = both - alone
    for name, alone in alone_by_name.items():
        cells = [f"{changes[name, other]:+.3f}" if (name, other) in changes else "" for other in sets]
        table.add_row(name, f"{alone:.3f}", *cells)
    below = sum(change < -ALLOWED for change in changes.values())
    table.caption = (
        f"mean {fmean(changes.values()):+.4f}; below by more than {ALLOWED}: {below} of {len(changes)}"
    )
    return table


if __name__ == "__main__":
    main()
