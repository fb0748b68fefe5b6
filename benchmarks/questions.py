"""What keeping the vectors of recent questions saves: hit rates of LRU and ARC on made-up agent sessions.

    python -m benchmarks.questions [--data FOLDER] [--questions N] [--seeds N]

No log of real agents is at hand, so a trace is made of real questions: the intents are the entries of datatalks-faq,
each with its five wordings, and a session asks one intent in one wording after another. Which intent comes next
follows Zipf's law. Some sessions are scans instead, of questions of other sets that never come again. How often
questions repeat is an assumption, which three mixes vary; compare the caches in each, rather than trust one rate.

ARC: Megiddo and Modha, "ARC: A self-tuning, low overhead replacement cache" (2003), with ghosts twice the capacity.
The last lines say what a hit saves, and what it costs to ask SQLite for texts that it has no vector of, which is all
that a Bloom filter could save.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path
from random import Random
from statistics import fmean, median

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.judged import DATA, read_questions
from pipelines.cache.cache import Cache
from pipelines.cache.schema import CacheMeta
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model

INTENTS = "datatalks-faq"
SCANNED = ("scifact-train", "cranfield", "cisi", "cacm", "anthropic-docs")
CAPACITIES = (50, 100, 250, 500)
_TIMED = 200
_VECTORS, _DIMENSION = 50_000, 384


@dataclass(frozen=True)
class Mix:
    """What agents are assumed to ask.

    `zipf`: the exponent of how often intents come. `repeats`: the share of a session's further questions that are the
    last one word for word (another page, filter or tool); the others are another wording of the intent. `scans`: the
    share of sessions that are a scan.
    """

    zipf: float
    repeats: float
    scans: float
    turns: tuple[int, int] = (1, 6)
    scan: tuple[int, int] = (5, 20)


MIXES = {
    "few repeats": Mix(zipf=0.0, repeats=0.05, scans=0.3),
    "some repeats": Mix(zipf=0.7, repeats=0.2, scans=0.2),
    "many repeats": Mix(zipf=1.0, repeats=0.4, scans=0.1),
}


@dataclass
class Lru:
    """Keep what was asked last."""

    capacity: int
    kept: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def ask(self, key: str) -> bool:
        """Say whether a key is kept, and keep it."""
        hit = key in self.kept
        self.kept[key] = None
        self.kept.move_to_end(key)
        if len(self.kept) > self.capacity:
            self.kept.popitem(last=False)
        return hit


@dataclass
class Arc:
    """Divide the capacity between keys asked once and more often; what was evicted of each moves the target."""

    capacity: int
    once: OrderedDict[str, None] = field(default_factory=OrderedDict)
    often: OrderedDict[str, None] = field(default_factory=OrderedDict)
    once_gone: OrderedDict[str, None] = field(default_factory=OrderedDict)
    often_gone: OrderedDict[str, None] = field(default_factory=OrderedDict)
    target: float = 0.0

    def ask(self, key: str) -> bool:
        """Say whether a key is kept, and keep it."""
        for kept in (self.once, self.often):
            if key in kept:
                del kept[key]
                self.often[key] = None
                return True
        known = self._learn(key)
        if len(self.once) + len(self.often) >= self.capacity:
            self._evict()
        (self.often if known else self.once)[key] = None
        return False

    def _learn(self, key: str) -> bool:
        """Say whether a key was evicted not long ago, and then move the target towards its part."""
        once, often = len(self.once_gone), len(self.often_gone)
        if key in self.once_gone:
            self.target = min(self.capacity, self.target + max(1, often / once))
            del self.once_gone[key]
        elif key in self.often_gone:
            self.target = max(0, self.target - max(1, once / often))
            del self.often_gone[key]
        else:
            return False
        return True

    def _evict(self) -> None:
        from_once = bool(self.once) and (len(self.once) > self.target or not self.often)
        kept, gone = (self.once, self.once_gone) if from_once else (self.often, self.often_gone)
        gone[kept.popitem(last=False)[0]] = None
        if len(self.once_gone) + len(self.often_gone) > 2 * self.capacity:
            max(self.once_gone, self.often_gone, key=len).popitem(last=False)


def trace(intents: Sequence[Sequence[str]], scanned: Sequence[str], mix: Mix, seed: int) -> Iterator[str]:
    """Yield questions without an end: sessions about intents (each a list of wordings), and scans."""
    chance = Random(seed)  # noqa: S311 - questions, not secrets
    order = chance.sample(intents, len(intents))
    shares = list(accumulate(1 / rank**mix.zipf for rank in range(1, len(order) + 1)))
    others = iter(chance.sample(scanned, len(scanned)))
    while True:
        if chance.random() < mix.scans:
            yield from islice(others, chance.randint(*mix.scan))
            continue
        (wordings,) = chance.choices(order, cum_weights=shares)
        asked = chance.choice(wordings)
        yield asked
        for _ in range(chance.randint(*mix.turns) - 1):
            asked = asked if chance.random() < mix.repeats else chance.choice(wordings)
            yield asked


def hit_rate(cache: Lru | Arc, questions: Sequence[str]) -> float:
    """Return the share of questions whose vector a cache that is empty at first has kept."""
    return fmean(cache.ask(question) for question in questions)


def rates(
    data: Path, questions: int, seeds: int, capacities: Sequence[int]
) -> Iterator[tuple[str, int, list[float], list[float]]]:
    """Yield each mix and capacity with the hit rates of LRU and of ARC, one for each seed."""
    texts, grades = read_questions(data / INTENTS, "")
    by_entry: dict[str, list[str]] = {}
    for query, graded in grades.items():
        by_entry.setdefault(min(graded), []).append(texts[query])
    intents = list(by_entry.values())
    scanned = [text for name in SCANNED for text in read_questions(data / name, "")[0].values()]
    for name, mix in MIXES.items():
        traces = [list(islice(trace(intents, scanned, mix, seed), questions)) for seed in range(seeds)]
        for capacity in capacities:
            lru, arc = ([hit_rate(kind(capacity), asked) for asked in traces] for kind in (Lru, Arc))
            yield name, capacity, lru, arc


def milliseconds(questions: Sequence[str]) -> tuple[float, float]:
    """Return the median milliseconds of embedding a question on one thread, and of embedding it again."""
    embedder = Embedder(find_model(None), threads=1)
    embedder.encode_query("warm up")
    first = [_milliseconds(embedder.encode_query, text) for text in questions]
    return median(first), median(_milliseconds(embedder.encode_query, text) for text in questions)


def _milliseconds(call: Callable[[str], object], given: str) -> float:
    started = time.perf_counter()
    call(given)
    return 1000 * (time.perf_counter() - started)


def lookup_milliseconds(folder: Path) -> float:
    """Return the median milliseconds of asking a cache with many vectors for a text that it has no vector of."""
    cache = Cache.create(folder / "cache.db", CacheMeta("benchmark", _DIMENSION, "1"))
    vector = np.full(_DIMENSION, _DIMENSION**-0.5, np.float32)
    cache.store_vectors({_hash(f"text {n}"): vector for n in range(_VECTORS)})
    found = median(_milliseconds(lambda key: cache.vectors([key]), _hash(f"other {n}")) for n in range(1000))
    cache.close()
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    console = Console(width=120)
    if not all((given.data / name).exists() for name in (INTENTS, *SCANNED)):
        console.print(f"not measured: {given.data} lacks some of {', '.join((INTENTS, *SCANNED))}")
        return
    table = Table("mix", "capacity", "LRU", "ARC", title=f"hit rate, {given.questions:,} questions")
    for name, capacity, *both in rates(given.data, given.questions, given.seeds, CAPACITIES):
        table.add_row(
            name, str(capacity), *(f"{fmean(of):.1%} ({min(of):.1%} to {max(of):.1%})" for of in both)
        )
    console.print(table)
    timed = list(islice(read_questions(given.data / INTENTS, "")[0].values(), _TIMED))
    first, again = milliseconds(list(dict.fromkeys(timed)))
    console.print(
        f"embedding a question: {first:.1f} ms; again: {again:.3f} ms (medians, MiniLM, one thread)"
    )
    with tempfile.TemporaryDirectory() as folder:
        took = 1000 * lookup_milliseconds(Path(folder))
    console.print(f"asking SQLite for a vector that is not among {_VECTORS:,}: {took:.0f} µs (median)")


if __name__ == "__main__":
    main()
