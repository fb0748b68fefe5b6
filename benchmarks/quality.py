"""How good the answers are on judged sets, and what each layer adds to them, as Markdown for docs/quality.md.

    python -m benchmarks.quality [SET ...] [--data FOLDER] [--keep FOLDER] [--context MODE] [--runs N]

Each set is a vault that the real pipeline indexed (one file per document) and that is asked as a service asks it;
with `--keep` the indexes stay for the next run. A verdict is given where all cold runs agree, each with newly opened
caches and a newly loaded model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, get_args

from rich.console import Console

from benchmarks.command import conditions, folder_of, markdown, parser, present
from benchmarks.judged import COLLECTIONS, VAULTS, JudgedSet, prepare
from pipelines.model import EmbeddingContext
from pipelines.question import read_question
from pipelines.search.ablation import Way, as_it_is, steps, without
from pipelines.search.evaluate import Figures, GainEstimate, holm, judge, mean, ndcg, verdict_of
from pipelines.search.rank import SIGNALS
from service.usecases.explain import measure, paths_of
from service.usecases.search import View
from workers.resources import Resources

NOW = datetime(2026, 11, 21, tzinfo=UTC)
STACK = "stack"
LAYERS = tuple(name for name in SIGNALS if name != "attention")
"""The layers that are judged: no note of a judged set was ever chosen."""
SMALLEST_P = 0.001

Scores = dict[str, dict[str, float]]
"""nDCG@10: way -> question -> value."""


@dataclass(frozen=True)
class SetAnswers:
    """What came of one set: the stack's figures, and each run's scores; the first run has more ways than others."""

    name: str
    stack: Figures
    runs: Sequence[Scores]

    def verdict(self, layer: str) -> GainEstimate | None:
        """Judge what a layer adds; None where the runs differ."""
        return verdict_of(self.runs, STACK, layer)

    def gains(self, layer: str) -> list[float]:
        """Return what a layer adds, question by question."""
        return [score - self.runs[0][layer][query] for query, score in self.runs[0][STACK].items()]


def without_each() -> dict[str, Way]:
    """Return the stack, and the stack without each layer: what verdicts compare."""
    return {STACK: as_it_is} | {name: without([name]) for name in LAYERS}


def others() -> dict[str, Way]:
    """Return the other ways that are shown: plain fusions, the source's graph, each retriever alone."""
    fused, alone = steps()["fused"], steps()
    return {
        "convex": _chain(fused, _settings(fusion="convex")),
        **{
            f"RRF 1:{weight:g}": _chain(fused, _settings(fusion="rrf", lexical_weight=weight))
            for weight in (0.05, 0.5, 1.0)
        },
        "linear": _settings(graph_mode="linear"),
        "BM25": alone["words"],
        "vectors": alone["meaning"],
    }


def _settings(**changed: Any) -> Way:
    return lambda source: replace(source, domain=replace(source.domain, **changed))


def _chain(one: Way, other: Way) -> Way:
    return lambda source: other(one(source))


@contextmanager
def asked_anew(judged: JudgedSet) -> Iterator[View]:
    """Open a set's caches and load the model, as a service does when it starts."""
    questions = View(Resources(judged.resources.settings), wait_for_model=True)
    questions.load_models()
    questions.follow_commits()
    yield questions


def scores(questions: View, judged: JudgedSet, ways: Mapping[str, Way]) -> Scores:
    """Ask every question in every way for ten results."""
    found: Scores = {name: {} for name in ways}
    for query, text in judged.queries.items():
        question = read_question(text)
        for name, way in ways.items():
            page = questions.page(question, 10, way=way, now=NOW)
            found[name][query] = ndcg(paths_of(page, judged.grades[query]), judged.grades[query])
    return found


def answers(judged: JudgedSet, runs: int) -> SetAnswers:
    """Ask a set in all ways once, and in those of verdicts in every run."""
    compared = without_each()
    with asked_anew(judged) as questions:
        first = scores(questions, judged, compared | others())
        asked = {query: (text, judged.grades[query]) for query, text in judged.queries.items()}
        stack = mean(measure(questions, asked, {STACK: as_it_is}, NOW)[STACK].values())
    found = [first]
    for _ in range(runs - 1):
        with asked_anew(judged) as questions:
            found.append(scores(questions, judged, compared))
    return SetAnswers(judged.name, stack, found)


def ways_table(found: Sequence[SetAnswers]) -> str:
    """Return nDCG@10 of each way by set, and the stack's recall and MRR."""
    ways = [STACK, *others()]
    rows = []
    for one in found:
        means = [f"{fmean(one.runs[0][way].values()):.3f}" for way in ways]
        rest = [f"{value:.3f}" for value in (one.stack.recall_10, one.stack.recall_60, one.stack.mrr)]
        rows.append([one.name, f"**{means[0]}**", *means[1:], *rest])
    if len(found) > 1:
        means = [f"{fmean(fmean(one.runs[0][way].values()) for one in found):.3f}" for way in ways]
        rows.append(["mean", f"**{means[0]}**", *means[1:], "", "", ""])
    return markdown(["set", *ways, "recall@10", "recall@60", "MRR"], rows)


def layers_table(found: Sequence[SetAnswers]) -> str:
    """Return what each layer adds by set, with its verdict; the last row weighs all sets alike.

    Its p is also corrected, for as many layers as change anything.
    """
    head = ["set", "questions", *LAYERS]
    rows = [
        [one.name, str(len(one.runs[0][STACK])), *(_said(one.verdict(layer)) for layer in LAYERS)]
        for one in found
    ]
    if len(found) > 1:
        pooled = {layer: over_all(found, layer) for layer in LAYERS}
        corrected = holm(
            {layer: verdict.p for layer, verdict in pooled.items() if verdict and verdict.differing}
        )
        cells = [_said(verdict, corrected.get(layer)) for layer, verdict in pooled.items()]
        rows.append(["all, each set alike", str(sum(len(one.runs[0][STACK]) for one in found)), *cells])
    return markdown(head, rows)


def over_all(found: Sequence[SetAnswers], layer: str) -> GainEstimate | None:
    """Judge a layer over all sets, each of which counts alike; None where runs of any differ."""
    if any(one.verdict(layer) is None for one in found):
        return None
    gains = [one.gains(layer) for one in found]
    weights = [1 / len(several) for several in gains for _ in several]
    return judge([gain for several in gains for gain in several], weights)


def _said(verdict: GainEstimate | None, corrected: float | None = None) -> str:
    if verdict is None:
        return "the runs differ"
    if not verdict.differing:
        return "changes nothing"
    word = "too few" if verdict.word.startswith("too few") else verdict.word
    tail = "" if corrected is None else f", by Holm {_p(corrected)}"
    return f"{verdict.gain:+.3f} {word} (p {_p(verdict.p)}{tail})"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= SMALLEST_P else f"< {SMALLEST_P}"


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, data=True, keep=True)
    options.add_argument("sets", nargs="*", default=[*COLLECTIONS, *VAULTS])
    options.add_argument(
        "--context", choices=get_args(EmbeddingContext), help="what is embedded before passages"
    )
    options.add_argument("--runs", type=int, default=1, help="cold runs that must agree")
    given = options.parse_args()
    console = Console(soft_wrap=True, markup=False, highlight=False)
    found = []
    with folder_of(given.keep) as kept:
        for name in present(given.sets, given.data, console):
            started = time.monotonic()
            found.append(answers(prepare(name, given.data, kept, given.context), given.runs))
            console.print(f"{name}: {time.monotonic() - started:.0f} s")
    if not found:
        return
    console.print(f"\nnDCG@10, and recall and MRR of the stack:\n\n{ways_table(found)}")
    console.print(f"\nWhat each layer adds to nDCG@10 ({given.runs} cold runs):\n\n{layers_table(found)}\n")
    console.print(f"{conditions()}, all-MiniLM-L6-v2")


if __name__ == "__main__":
    main()
