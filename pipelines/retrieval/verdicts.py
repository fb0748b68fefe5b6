"""Judge whether a change of ranking makes answers better: a paired randomisation test, its interval and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Word = Literal["useful", "neutral", "harmful", "too few questions to tell"]

LEVEL = 0.05
FEWEST_QUESTIONS = 20
DRAWS = 10_000

_SEED = 1
_AT_ONCE = 1_000
_CLOSE = 1e-12
"""Differences up to rounding count as equal."""


@dataclass(frozen=True, slots=True)
class Verdict:
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


def judge(gains: Sequence[float], weights: Sequence[float] | None = None) -> Verdict:
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
    return Verdict(word, gain, low, high, p, len(values), differing)


def verdict_of(runs: Sequence[Mapping[str, Mapping[str, float]]], one: str, other: str) -> Verdict | None:
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
