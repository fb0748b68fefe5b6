"""Turn the evidence for a tag into the chance that it is right, as a vault's own tagged notes show it."""

from __future__ import annotations

import numpy as np

from pipelines.tagging.guesses import Bools, Floats, Indices

_SUREST = 10  # pairs of a note and a tag that show how completely a vault is tagged
_MOST_FORGOTTEN = 0.3
_NEWTON_STEPS = 15
_ONE_SIDED_90 = 1.2816  # quantiles of the normal distribution
_ONE_SIDED_99 = 2.3263


class Calibration:
    """The chance that a proposal is right, learnt from pairs of a note and a tag whose answer is known.

    Features are (pairs, 6), `right` says which pairs are of a note that has the tag `tags` names. A logistic
    regression (https://en.wikipedia.org/wiki/Logistic_regression) gives a score, isotonic regression
    (https://en.wikipedia.org/wiki/Isotonic_regression) the share of right ones at a score. Of each share the lower
    bound counts (Wilson's, https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval), so that few
    pairs say little.
    """

    def __init__(self, features: Floats, right: Bools, tags: Indices) -> None:
        self._mean, self._scale = features.mean(axis=0), features.std(axis=0) + 1e-9
        self._weights = _logistic(self._standardised(features), right)
        scores = self._scores(features)
        edges, shares, sizes = _isotonic(scores, right)
        self._edges = edges.ravel()
        self._surely = np.maximum.accumulate(_lower_bound(shares, sizes))
        self._likely = np.maximum.accumulate((shares * sizes + 1.0) / (sizes + 2.0))
        self._missing = _missing(scores, right, tags)

    def chances(self, features: Floats, *, tagged: bool) -> Floats:
        """Return the chance that each pair is right: for a note without tags, or for tags that a tagged note lacks.

        What a tagged note lacks may be forgotten or not meant. Were every tag forgotten as often as the surest
        show, a lacking tag of share s is right with odds s / (1 - s) times (1 - c) / c, c the share that was not
        forgotten (Elkan and Noto, Learning classifiers from only positive and unlabeled data, KDD 2008).
        """
        known = self._likely if tagged else self._surely
        shares: Floats = np.interp(self._scores(features), self._edges, np.repeat(known, 2))
        if not tagged:
            return shares
        odds: Floats = shares / (1.0 - shares) * self._missing / (1.0 - self._missing)
        return odds.clip(0.0, 1.0)

    def _standardised(self, features: Floats) -> Floats:
        return np.column_stack([(features - self._mean) / self._scale, np.ones(len(features))])

    def _scores(self, features: Floats) -> Floats:
        return self._standardised(features) @ self._weights


def _logistic(features: Floats, right: Bools) -> Floats:
    """Return the weights of a logistic regression with an L2 penalty of 1, by Newton's method."""
    weights = np.zeros(features.shape[1])
    for _ in range(_NEWTON_STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(features @ weights, -30.0, 30.0)))
        slope = features.T @ (chance - right) + weights
        curve = (features * (chance * (1.0 - chance))[:, None]).T @ features + np.eye(len(weights))
        weights -= np.linalg.solve(curve, slope)
    return weights


def _isotonic(scores: Floats, right: Bools) -> tuple[Floats, Floats, Floats]:
    """Return blocks by ascending score: its least and largest (blocks, 2), its share of right pairs, its size."""
    order = np.argsort(scores, kind="stable")
    blocks: list[tuple[float, float, float, int]] = []
    for score, hit in zip(scores[order].tolist(), right[order].tolist(), strict=True):
        start, end, hits, size = score, score, float(hit), 1
        while blocks and (blocks[-1][1] == start or blocks[-1][2] * size >= hits * blocks[-1][3]):
            lower = blocks.pop()
            start, hits, size = lower[0], lower[2] + hits, lower[3] + size
        blocks.append((start, end, hits, size))
    found = np.array(blocks)
    return found[:, :2], found[:, 2] / found[:, 3], found[:, 3]


def _lower_bound(share: Floats | float, size: Floats | int, z: float = _ONE_SIDED_90) -> Floats:
    share, size = np.asarray(share, np.float64), np.asarray(size, np.float64)
    spread = z * np.sqrt(share * (1.0 - share) / size + (z / (2.0 * size)) ** 2)
    lower: Floats = (share + z * z / (2.0 * size) - spread) / (1.0 + z * z / size)
    return lower


def _missing(scores: Floats, right: Bools, tags: Indices) -> float:
    """Return the share of tags that were forgotten: of the surest pairs, those whose note lacks the tag.

    Tags forgotten by chance are forgotten alike. So where one tag is hardly ever missing, none was forgotten, and
    what the others lack is not meant. Where too many seem to be, it is the evidence that is weak.
    """
    order = np.argsort(-scores, kind="stable")
    surest = right[order[: max(_SUREST, right.sum() // 4)]]
    # One may lack it for a reason of its own.
    missing = float((~surest).sum() - 1) / surest.size
    for tag in np.unique(tags[right]):
        of = right[order[tags[order] == tag]]
        surest = of[: max(_SUREST, of.sum() // 2)]
        missing = min(missing, 1.0 - float(_lower_bound(surest.mean(), surest.size, _ONE_SIDED_99)))
    return missing if 0.0 < missing <= _MOST_FORGOTTEN else 0.0
