"""What a cosine means, model by model: the one place for numbers that a person chose or a measurement gave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A model's bars: cosines of a question to a note's best passage.

    `prune`: the ordinary traversal drops what is below; `floor`: it stops where what it kept has this mean;
    `note_prune`, `note_floor`: the same where a note's mean vector stands for the question; `noise`: deep retrieval
    drops what is below. A best answer from `strong` on is a strong match, one from `weak` on
    a weak one. `calibrated`: the numbers were chosen for this model.
    """

    prune: float
    floor: float
    noise: float
    note_prune: float
    note_floor: float
    strong: float
    weak: float
    calibrated: bool = True


BGE_LARGE = Thresholds(
    prune=0.50, floor=0.65, noise=0.30, note_prune=0.50, note_floor=0.65, strong=0.65, weak=0.50
)
"""The source document's numbers."""

MINILM = Thresholds(
    prune=0.20, floor=0.38, noise=0.07, note_prune=0.52, note_floor=0.64, strong=0.50, weak=0.35
)
"""Measured: docs/traversal.md, "Thresholds"; `strong` and `weak`: docs/quality.md, "Is it an answer"."""

UNKNOWN = replace(MINILM, calibrated=False)
"""The lowest bars we have: one that is too low costs some reading, one that is too high hides every answer."""

_BY_NAME = {"bge-large-en-v1.5": BGE_LARGE, "all-minilm-l6-v2": MINILM}


def thresholds_of(model: str) -> Thresholds:
    """Return a model's bars by the last part of its name, a hub's or a folder's; those of `UNKNOWN` for any other."""
    return _BY_NAME.get(PurePath(model).name.lower(), UNKNOWN)


def best_match(cosines: Iterable[tuple[str, float | None]]) -> Literal["strong", "weak", "none"] | None:
    """Say how good an answer is by its best cosine, each given with its model; None where none is judged."""
    bands = [
        2 if cosine >= bars.strong else 1 if cosine >= bars.weak else 0
        for model, cosine in cosines
        if cosine is not None and (bars := thresholds_of(model)).calibrated
    ]
    return ("none", "weak", "strong")[max(bands)] if bands else None
