"""Measure how good answers are by a person's own judgements: nDCG, recall and reciprocal rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from pipelines.errors import DomainsFileError, JudgedQueriesError, UnsafePathError
from pipelines.notes.frontmatter import YAML_SURPRISES, refuse_bombs, yaml_problem
from pipelines.vault import paths as beneath
from pipelines.vault.files import note_key

QUERIES_FILE = "_queries.yaml"
_LIMIT = 1_000_000  # bytes: about 10,000 questions

Grades = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Figures:
    """How good one answer is, or several on average."""

    ndcg_10: float
    recall_10: float
    recall_60: float
    mrr: float


@dataclass(frozen=True, slots=True)
class Loss:
    """A question answered worse after a step than before it, by nDCG@10."""

    query: str
    before: str
    after: str
    lost: float


def read_judged(root: Path) -> dict[str, dict[str, int]]:
    """Read a vault's `_queries.yaml`: question -> path, list of paths, or path -> grade (1 is good, 3 is best).

    Raises JudgedQueriesError.
    """
    file = root / QUERIES_FILE
    try:
        text = beneath.read_file(root, QUERIES_FILE, _LIMIT).decode("utf-8")
        refuse_bombs(text, QUERIES_FILE)
        data = yaml.safe_load(text)
    except FileNotFoundError as error:
        raise JudgedQueriesError(
            f"{file} does not exist; write into it what you ask and what should be found, "
            'as in `"how long to rest between sets": fitness/Rest.md`'
        ) from error
    except yaml.YAMLError as error:
        raise JudgedQueriesError(f"{file} cannot be read: {yaml_problem(error)}") from error
    except (OSError, UnsafePathError, DomainsFileError, *YAML_SURPRISES) as error:
        raise JudgedQueriesError(f"{file} cannot be read: {error}") from error
    if not isinstance(data, dict) or not data:
        raise JudgedQueriesError(f"{file}: expected lines of the form `question: path`")
    return {str(query): _grades(file, str(query), value) for query, value in data.items()}


def _grades(file: Path, query: str, value: object) -> dict[str, int]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        value = dict.fromkeys(value, 1)
    if not isinstance(value, dict) or not value:
        raise JudgedQueriesError(f"{file}: {query!r} has no note; write a path, a list, or `path: grade`")
    for path, grade in value.items():
        if not isinstance(path, str) or not isinstance(grade, int) or isinstance(grade, bool) or grade < 1:
            raise JudgedQueriesError(
                f"{file}: {query!r}: {path!r}: {grade!r} is not a path with a grade of at least 1"
            )
    return {note_key(path): grade for path, grade in value.items()}


def ndcg(paths: Sequence[str], grades: Grades, k: int = 10) -> float:
    """Return nDCG@k with the grade as gain. Jarvelin and Kekalainen, TOIS 2002, as computed by trec_eval."""
    gains = [grades.get(path, 0) for path in paths[:k]]
    best = sorted(grades.values(), reverse=True)[:k]
    return _discounted(gains) / _discounted(best)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, start=1))


def recall(paths: Sequence[str], grades: Grades, k: int) -> float:
    """Return the share of the relevant notes among the first `k`."""
    return len(grades.keys() & set(paths[:k])) / len(grades)


def reciprocal_rank(paths: Sequence[str], grades: Grades) -> float:
    """Return the reciprocal of the first relevant note's place; 0 if there is none."""
    return next((1 / place for place, path in enumerate(paths, start=1) if path in grades), 0.0)


def figures(first: Sequence[str], more: Sequence[str], grades: Grades) -> Figures:
    """Return how good an answer is, from the paths of its ten and of its sixty best results, best first."""
    return Figures(
        ndcg(first, grades),
        recall(first, grades, 10),
        recall(more, grades, 60),
        reciprocal_rank(first, grades),
    )


def mean(answers: Iterable[Figures]) -> Figures:
    """Return the means of several answers' figures. Raises ValueError if there are none."""
    columns = zip(*map(astuple, answers), strict=True)
    return Figures(*map(fmean, columns))


def losses(steps: Mapping[str, Mapping[str, Figures]], alone: Collection[str], most: int) -> list[Loss]:
    """Return the questions that lost most from one step (step -> question -> figures) to the next, worst first.

    Steps in `alone` are independent of each other; for the step after them, a loss is counted from the best of them.
    """
    found, before = [], tuple(alone)
    for name, answers in steps.items():
        if name in alone:
            continue
        for query, after in answers.items():
            best = max(before, key=lambda step: steps[step][query].ndcg_10)
            found.append(Loss(query, best, name, steps[best][query].ndcg_10 - after.ndcg_10))
        before = (name,)
    lost = [loss for loss in found if loss.lost > 0.0]
    return sorted(lost, key=lambda loss: -loss.lost)[:most]


# Judge whether a change of ranking makes answers better: a paired randomisation test, its interval and a verdict.


Word = Literal["useful", "neutral", "harmful", "too few questions to tell"]

LEVEL = 0.05
FEWEST_QUESTIONS = 20
DRAWS = 10_000

_SEED = 1
_AT_ONCE = 1_000
_CLOSE = 1e-12
"""Differences up to rounding count as equal."""


@dataclass(frozen=True, slots=True)
class GainEstimate:
    """The test's result for a change: its mean gain, its 95 % interval, and the two-sided p for no gain at all.

    `useful`: the interval is above 0; `harmful`: below 0; `neutral`: it contains 0.
    """

    word: Word
    gain: float
    low: float
    high: float
    p: float
    questions: int
    differing: int


def judge(gains: Sequence[float], weights: Sequence[float] | None = None) -> GainEstimate:
    """Judge a change by the gain of each question, a number from -1 to 1.

    A sign flip test: without an effect, each gain could equally well have been a loss. The interval contains the
    effects that the same test does not reject. `weights` are the questions' weights in the mean, by default equal.
    Too few questions: fewer than 20, or so few differ that no outcome could reach p < .05. Fisher, "The Design of
    Experiments", 1935; Smucker, Allan and Carterette, CIKM 2007.
    """
    values = np.asarray(gains, dtype=np.float64)
    shares = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    shares = shares / max(shares.sum(), _CLOSE)
    gain = float(values @ shares)
    flipped, turned = _draw(values * shares, shares)
    p = (1 + int((np.abs(flipped) >= abs(gain) - _CLOSE).sum())) / (DRAWS + 1)
    low, high = _interval(gain, flipped, turned)
    differing = int((np.abs(values) > _CLOSE).sum())
    word = _word(gain, p, len(values), differing)
    return GainEstimate(word, gain, low, high, p, len(values), differing)


def verdict_of(
    runs: Sequence[Mapping[str, Mapping[str, float]]], one: str, other: str
) -> GainEstimate | None:
    """Judge what one way of asking gains over another; None if the runs disagree on either way.

    Each run: way -> question -> how good the answer was, from 0 to 1.
    """
    first = runs[0]
    if any(run[way] != first[way] for run in runs for way in (one, other)):
        return None
    return judge([score - first[other][query] for query, score in first[one].items()])


def _word(gain: float, p: float, questions: int, differing: int) -> Word:
    best_p = 2.0 ** (1 - differing)
    if questions < FEWEST_QUESTIONS or (differing and best_p >= LEVEL):
        return "too few questions to tell"
    if p >= LEVEL:
        return "neutral"
    return "useful" if gain > 0 else "harmful"


def _draw(terms: NDArray[np.float64], shares: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Return the mean of each draw of signs, and what an effect of 1 in every question would add to it."""
    chance = np.random.default_rng(_SEED)
    flipped, turned = [], []
    for _ in range(0, DRAWS, _AT_ONCE):
        signs = chance.integers(0, 2, (_AT_ONCE, len(terms)), dtype=np.int8) * 2.0 - 1.0
        flipped.append(signs @ terms)
        turned.append(signs @ shares)
    return np.concatenate(flipped), np.concatenate(turned)


def _interval(gain: float, flipped: NDArray[np.float64], turned: NDArray[np.float64]) -> tuple[float, float]:
    """Return the smallest and the largest effect that the test does not reject.

    For an effect d, a draw is at least as extreme as the observation if |flipped - d turned| >= |gain - d|, which
    holds between two roots. d is rejected if it lies between the roots of too few draws.
    """
    all_alike = np.abs(turned) > 1.0 - _CLOSE
    safe = np.where(all_alike, 0.0, turned)
    roots = (gain - flipped) / (1.0 - safe), (gain + flipped) / (1.0 + safe)
    least = np.where(all_alike, -np.inf, np.minimum(*roots))
    largest = np.where(all_alike, np.inf, np.maximum(*roots))
    place = int(np.ceil(LEVEL * (DRAWS + 1))) - 2  # the observed outcome counts as one more draw
    low, high = np.sort(least)[place], -np.sort(-largest)[place]
    return max(-1.0, float(low)), min(1.0, float(high))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return each p corrected for the number of tests. Holm, Scandinavian Journal of Statistics 6, 1979."""
    corrected, worst = {}, 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: pair[1])):
        worst = max(worst, min(1.0, p * (len(p_values) - place)))
        corrected[name] = worst
    return corrected
