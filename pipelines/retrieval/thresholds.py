"""What a cosine means, model by model: the one place for numbers that a person chose or a measurement gave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePath
from typing import Literal


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A model's bars: cosines of a question to a note's best passage.

    `prune`: the ordinary traversal drops what is below; `floor`: it stops where what it kept has this mean;
    `note_prune`, `note_floor`: the same where a note's mean vector stands for the question; `noise`: deep retrieval
    drops what is below. A best answer from `strong` on is a strong match, one from `weak` on
    a weak one. `calibrated`: the numbers were chosen for this model. Two passages from `alike` on are copies of each
    other; None: not measured.
    """

    prune: float
    floor: float
    noise: float
    note_prune: float
    note_floor: float
    strong: float
    weak: float
    calibrated: bool = True
    alike: float | None = None


BGE_LARGE = Thresholds(
    prune=0.50, floor=0.65, noise=0.30, note_prune=0.50, note_floor=0.65, strong=0.65, weak=0.50
)
"""The source document's numbers."""

MINILM = Thresholds(
    prune=0.22, floor=0.41, noise=0.08, note_prune=0.55, note_floor=0.66, strong=0.50, weak=0.35, alike=0.96
)
"""Measured: docs/traversal.md, "Thresholds"; `strong` and `weak`: docs/quality.md, "Is it an answer"; `alike`: there,
"What is alike"."""

UNKNOWN = replace(MINILM, calibrated=False, alike=None)
"""The lowest bars we have: one that is too low costs some reading, one that is too high hides every answer."""

_BY_NAME = {"bge-large-en-v1.5": BGE_LARGE, "all-minilm-l6-v2": MINILM}


@cache
def thresholds_of(model: str) -> Thresholds:
    """Return a model's bars by the last part of its name, a hub's or a folder's; those of `UNKNOWN` for any other."""
    return _BY_NAME.get(PurePath(model).name.lower(), UNKNOWN)


Match = Literal["strong", "weak", "none"]
_BANDS: tuple[Match, ...] = ("none", "weak", "strong")


def match_of(model: str, cosine: float | None) -> Match | None:
    """Say how good a cosine of a model is; None where that is not known, or the model was never judged."""
    bars = thresholds_of(model)
    if cosine is None or not bars.calibrated:
        return None
    return "strong" if cosine >= bars.strong else "weak" if cosine >= bars.weak else "none"


def is_noise(model: str, cosine: float | None) -> bool:
    """Say whether a cosine of a model is below its noise bar; one that is not known is not."""
    return cosine is not None and cosine < thresholds_of(model).noise


def best_match(matches: Iterable[Match | None]) -> Match | None:
    """Say how good an answer is by its best hit; None where none is judged."""
    return max((one for one in matches if one is not None), key=_BANDS.index, default=None)
