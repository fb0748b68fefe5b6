"""How good the answers are on judged sets, and what each layer adds to them, as Markdown for docs/notes/quality.md.

    python -m benchmarks.quality [SET ...] [--data FOLDER] [--keep FOLDER] [--context MODE] [--runs N]
    python -m benchmarks.quality --options [SET ...] [--data FOLDER] [--keep FOLDER] [--questions N]

Each set is a vault that the real pipeline indexed (one file per document) and that is asked as a service asks it;
with `--keep` the indexes stay for the next run. A verdict is given where all cold runs agree, each with newly opened
caches and a newly loaded model.

The second form compares each setting that is off, or another value, with the default: nDCG@10, recall@10 and MRR in
a search, and for settings of blocks of context the share of judged notes in a block of 1,000 tokens. No set has
choices, so those of attention are made up: the notes that answer every second question were chosen in the last four
weeks, and the other questions are asked.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, get_args

from rich.console import Console

from benchmarks.command import conditions, folder_of, markdown, parser, present
from benchmarks.context import CONTEXT_SETS
from benchmarks.context import OPTIONS as CONTEXT_OPTIONS
from benchmarks.context import option_gains as context_gains
from benchmarks.judged import COLLECTIONS, EXAMPLES, VAULTS, JudgedSet, asked_anew, prepare
from pipelines.model import Domain, EmbeddingContext, RankFusion
from pipelines.question import read_question
from pipelines.search.ablation import Way, as_it_is, steps, without
from pipelines.search.evaluate import Figures, GainEstimate, figures, holm, judge, mean, ndcg, verdict_of
from pipelines.search.rank import SIGNALS, Attended
from service.usecases.explain import measure, paths_of
from service.usecases.search import View
from workers.attention import attention_of

NOW = datetime(2026, 11, 21, tzinfo=UTC)
STACK = "stack"
LAYERS = tuple(name for name in SIGNALS if name not in ("attention", "vocabulary", "usage", "name_list"))
"""The layers that are judged; the others are among the `OPTIONS`."""
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
    return _pooled([one.gains(layer) for one in found])


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


# The settings that are off by default, or at another value, against the default.


_RANKS: dict[str, Any] = {"fusion": "rrf"}
_CHOSEN: dict[str, Any] = {"attention": 0.1}


@dataclass(frozen=True)
class Option:
    """What a domain's settings are `changed` to, and the other settings `beside` them in both that are compared.

    `chosen`: it counts choices. `alone`: both are fusion alone, because later layers may hide what an option does.
    """

    changed: Mapping[str, Any]
    beside: Mapping[str, Any] = field(default_factory=dict)
    chosen: bool = False
    alone: bool = False


_USAGE, _NAMES, _PENALTY = RankFusion(usage=0.5), RankFusion(names=0.6), RankFusion("penalty")
OPTIONS: dict[str, Option] = {
    "vocabulary: 0.3": Option({"vocabulary": 0.3}),
    "vocabulary: 0.3, fusion alone": Option({"vocabulary": 0.3}, alone=True),
    "graph: {mode: walk}, for lift": Option({"graph_mode": "walk"}),
    "graph: {mode: walk, restart: 0.5}, for lift": Option({"graph_mode": "walk", "walk_restart": 0.5}),
    "graph: {mode: walk}, for off": Option({"graph_mode": "walk"}, {"graph_mode": "off"}),
    "rrf: {absent: penalty}": Option({"rrf": _PENALTY}, _RANKS),
    "rrf: {absent: penalty}, fusion alone": Option({"rrf": _PENALTY}, _RANKS, alone=True),
    "rrf: {names: 0.6}": Option({"rrf": _NAMES}, _RANKS),
    "rrf: {names: 0.6}, fusion alone": Option({"rrf": _NAMES}, _RANKS, alone=True),
    "rrf: {usage: 0.5} *": Option({"rrf": _USAGE}, _RANKS, chosen=True),
    "attention: 0.1 *": Option(_CHOSEN, chosen=True),
    "attention_half_life_days: 28, with 0.1 *": Option(
        {"attention_half_life_days": 28.0}, _CHOSEN, chosen=True
    ),
    "attention_session_minutes: 1440, with 0.1 *": Option(
        {"attention_session_minutes": 1440.0}, _CHOSEN, chosen=True
    ),
}
"""The settings of a search, by how they are written in `_domains.yaml`; * counts choices, `rrf` is `fusion: rrf`.

A usage of 0.5 beside ranks that count 1 is the source document's 0.2 beside 0.4.
"""
_ALONE = without(set(SIGNALS) - {"meaning", "words", "vocabulary", "usage", "name_list"})
NOT_MEASURED = "import_inject_threshold in a search: no set has source files"
_WEEKS_S = 28 * 24 * 3600.0

Gains = dict[str, list[Figures]]
"""What each option adds to each question."""


def choices(judged: JudgedSet) -> Attended:
    """Return the attention of notes that answer every second question, asked one after another in four weeks."""
    now = NOW.timestamp()
    asked = [*judged.queries][::2]
    moments: dict[str, list[float]] = {}
    for number, query in enumerate(asked):
        for path in judged.grades[query]:
            moments.setdefault(path, []).append(now - _WEEKS_S * number / len(asked))

    def attended(paths: Collection[str], domain: Domain) -> dict[str, float]:
        return {path: attention_of(moments[path], now, domain) for path in paths if path in moments}

    return attended


def option_gains(judged: JudgedSet, questions: View) -> Gains:
    """Ask a set's questions with and without each option; of those that count choices, every second question."""
    gains: Gains = {name: [] for name in OPTIONS}
    attended = choices(judged)
    for number, query in enumerate(judged.queries):
        known: dict[str, Figures] = {}
        for name, option in OPTIONS.items():
            if option.chosen and number % 2 == 0:
                continue
            asked = {**option.beside, **option.changed}, option.beside
            keys = [repr((settings, option.alone)) for settings in asked]
            for key, settings in zip(keys, asked, strict=True):
                if key not in known:
                    way = _chain(_settings(**settings), _ALONE if option.alone else as_it_is)
                    known[key] = _answered(judged, questions, query, attended, way)
            on, off = (astuple(known[key]) for key in keys)
            gains[name].append(Figures(*(a - b for a, b in zip(on, off, strict=True))))
    return gains


def _answered(judged: JudgedSet, questions: View, query: str, attended: Attended, way: Way) -> Figures:
    """Return how good the answer to a question is."""
    grades = judged.grades[query]
    way = _chain(lambda source: replace(source, attended=attended), way)
    paths = paths_of(questions.page(read_question(judged.queries[query]), 10, way=way, now=NOW), grades)
    return figures(paths, paths, grades)


def sampled(judged: JudgedSet, most: int) -> JudgedSet:
    """Return a set with at most so many of its questions, evenly spaced."""
    step = max(1, -(-len(judged.queries) // most))
    return replace(judged, queries=dict([*judged.queries.items()][::step]))


def options_table(found: Mapping[str, Gains], shares: Mapping[str, dict[str, list[float]]]) -> str:
    """Return what each option adds over all sets, each of which counts alike, with its verdict."""
    rows, verdicts = [], {}
    for name in (*OPTIONS, *CONTEXT_OPTIONS):
        of = [own[name] for own in (found if name in OPTIONS else shares).values()]
        own_gains = [[one.ndcg_10 if isinstance(one, Figures) else one for one in several] for several in of]
        verdicts[name] = _pooled(own_gains)
        more = ["", ""]
        if name in OPTIONS:
            more = [
                f"{fmean(fmean(getattr(one, by) for one in own[name]) for own in found.values()):+.3f}"
                for by in ("recall_10", "mrr")
            ]
        rows.append([f"`{name.removesuffix(' *')}`" + (" *" if name.endswith(" *") else ""), *more])
    corrected = holm({name: verdict.p for name, verdict in verdicts.items() if verdict.differing})
    return markdown(
        ["option", "questions", "differ", "gain", "recall@10", "MRR"],
        [
            [first, str(own.questions), str(own.differing), _said(own, corrected.get(name)), *more]
            for (first, *more), (name, own) in zip(rows, verdicts.items(), strict=True)
        ],
    )


def _pooled(gains: Sequence[Sequence[float]]) -> GainEstimate:
    weights = [1 / len(several) for several in gains for _ in several]
    return judge([gain for several in gains for gain in several], weights)


def options_by_set(found: Mapping[str, Gains]) -> str:
    """Return what each option adds to nDCG@10 by set."""
    rows = [
        [name, *(_said(judge([one.ndcg_10 for one in own[name]])) for own in found.values())]
        for name in OPTIONS
    ]
    return markdown(["option", *found], rows)


def measure_options(given: argparse.Namespace, console: Console) -> None:
    """Measure what each option adds, and print it."""
    found: dict[str, Gains] = {}
    shares: dict[str, dict[str, list[float]]] = {}
    with folder_of(given.keep) as kept:
        for name in [*present(given.sets, given.data, console), EXAMPLES]:
            started = time.monotonic()
            judged = sampled(prepare(name, given.data, kept), given.questions)
            with asked_anew(judged) as questions:
                found[name] = option_gains(judged, questions)
                if name in CONTEXT_SETS:
                    shares[name] = context_gains(judged, questions, given.questions // 4)
            console.print(f"{name}: {time.monotonic() - started:.0f} s")
    console.print(f"\nWhat each option adds, each set alike:\n\n{options_table(found, shares)}")
    console.print(f"\n* by made-up choices. Not measured: {NOT_MEASURED}.")
    console.print(f"\nWhat each adds to nDCG@10 by set:\n\n{options_by_set(found)}\n")
    console.print(f"{conditions()}, all-MiniLM-L6-v2")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, data=True, keep=True)
    options.add_argument("sets", nargs="*", default=[*COLLECTIONS, *VAULTS])
    options.add_argument(
        "--context", choices=get_args(EmbeddingContext), help="what is embedded before passages"
    )
    options.add_argument("--runs", type=int, default=1, help="cold runs that must agree")
    options.add_argument("--options", action="store_true", help="measure the settings that are off")
    options.add_argument("--questions", type=int, default=200, help="of each set, with --options")
    given = options.parse_args()
    console = Console(soft_wrap=True, markup=False, highlight=False)
    if given.options:
        measure_options(given, console)
        return
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
