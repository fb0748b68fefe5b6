"""What a cosine means for each model: the only place for numbers that were chosen by hand or measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePath
from typing import Literal, TypeVar

from pipelines.filters import BANDS, Band
from pipelines.language import Language


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A model's thresholds: cosines of a question to a note's best passage.

    `prune`: the ordinary traversal drops notes below it. `floor`: the traversal stops when the kept notes have this
    mean. `note_prune`, `note_floor`: the same if a note's mean vector is the question. `noise`: deep retrieval drops
    notes below it. `strong`, `weak`: the lowest cosine of a best answer that is a strong or a weak match. `bands`:
    the lowest cosine of each of `filters.BANDS`. `calibrated`: the numbers were chosen for this model. `alike`: the
    lowest cosine of two passages that are copies of each other; None: not measured. All numbers before hold for
    English.

    `zero`: where the scale of cosines begins (`scaled`). `sentence`: how much nearer a question is to the best
    sentence of a passage than to the whole of it. `levels`: by language, how much higher the cosines are than in
    English. `across`: the same, by the question's language, for a passage in another one. In languages that are in
    neither, a cosine says nothing, or little if they are `foreign`: by language, how near the best passage is to an
    unrelated question.
    """

    prune: float
    floor: float
    noise: float
    note_prune: float
    note_floor: float
    strong: float
    weak: float
    bands: tuple[float, float, float, float]
    calibrated: bool = True
    alike: float | None = None
    zero: float = 0.0
    sentence: float = 0.15
    levels: Mapping[Language, float] = field(default_factory=lambda: {"en": 0.0})
    across: Mapping[Language, float] = field(default_factory=dict)
    foreign: Mapping[Language, float] = field(default_factory=dict)

    def level(self, spoken: Language, of_passage: Language) -> float | None:
        """Return how much higher than in English a question's cosines to passages are; None: they say nothing."""
        return (self.levels if spoken == of_passage else self.across).get(spoken)

    def offset(self, spoken: Language, of_passage: Language | None) -> float:
        """Return how much higher a question's cosines are to passages in a language than to those in its own."""
        own, other = self.level(spoken, spoken), self.level(spoken, of_passage or spoken)
        return 0.0 if own is None or other is None else other - own


BGE_LARGE = Thresholds(
    prune=0.50,
    floor=0.65,
    noise=0.30,
    note_prune=0.50,
    note_floor=0.65,
    strong=0.65,
    weak=0.50,
    bands=(0.8, 0.6, 0.4, 0.3),
)
"""The source documents' numbers."""

MINILM = Thresholds(
    prune=0.22,
    floor=0.41,
    noise=0.08,
    note_prune=0.55,
    note_floor=0.66,
    strong=0.50,
    weak=0.35,
    bands=(0.96, 0.50, 0.35, 0.22),
    alike=0.96,
    # Measured in German and Chinese; the other languages in Latin letters are taken to be like German.
    foreign={"cjk": 0.78, **dict.fromkeys(("de", "fr", "es", "it", "pt", "nl"), 0.49)},
)
"""Measured: docs/notes/walks.md, "Thresholds"; `strong`, `weak` and `foreign`: docs/notes/quality.md, "Is it an
answer"; `alike`: there, "What is alike"; `bands`: "Bands" there."""

_OF_ALL: tuple[Language, ...] = ("en", "de", "fr", "es", "it", "pt", "nl", "other")

E5_SMALL = Thresholds(
    prune=0.83,
    floor=0.86,
    noise=0.79,
    note_prune=0.91,
    note_floor=0.93,
    strong=0.86,
    weak=0.83,
    bands=(0.99, 0.875, 0.855, 0.835),
    alike=0.99,
    zero=0.75,
    sentence=0.04,
    # Measured in English, German and Chinese, and with eight sentences each in French, Spanish, Russian and Japanese.
    levels=dict.fromkeys(_OF_ALL, 0.0) | {"cjk": 0.03},
    across=dict.fromkeys(_OF_ALL, -0.045) | {"cjk": -0.025},
)
"""Measured where MiniLM's are; `zero`: docs/notes/models.md, "Measured"."""

UNKNOWN = replace(MINILM, calibrated=False, alike=None)
"""The lowest thresholds known: one that is too low costs some reading, one that is too high hides every answer."""

_BY_NAME: dict[str, Thresholds] = {
    "bge-large-en-v1.5": BGE_LARGE,
    "all-minilm-l6-v2": MINILM,
    "multilingual-e5-small": E5_SMALL,
}


@cache
def thresholds_of(model: str) -> Thresholds:
    """Return a model's thresholds by the last part of its name (of a hub or a folder), or else `UNKNOWN`."""
    return _BY_NAME.get(PurePath(model).name.lower(), UNKNOWN)


Id = TypeVar("Id")


def scaled(model: str, cosines: Mapping[Id, float]) -> dict[Id, float]:
    """Return a model's cosines on a scale that begins where two texts have nothing in common, and ends at 1.

    Only on it does half of a score mean half as near: the cosines of multilingual-e5-small lie between 0.7 and 0.95,
    so that fusion would give the worst passage three quarters of the best one's score, and BM25 would decide alone.
    """
    zero = thresholds_of(model).zero
    return {item: (cosine - zero) / (1.0 - zero) for item, cosine in cosines.items()}


def lowest_cosine(model: str, wanted: float | Band) -> float:
    """Return the lowest cosine that a question asks for, as a number or by a model's bands."""
    return wanted if isinstance(wanted, float) else thresholds_of(model).bands[BANDS.index(wanted)]


def band_of(model: str, cosine: float | None) -> Band | None:
    """Return the band that a cosine of a model is in; None: below all of them, or unknown."""
    bands = zip(BANDS, thresholds_of(model).bands, strict=True)
    return next((band for band, lowest in bands if cosine is not None and cosine >= lowest), None)


Match = Literal["strong", "weak", "none"]
_MATCHES: tuple[Match, ...] = ("none", "weak", "strong")


def is_noise(model: str, cosine: float | None) -> bool:
    """Say whether a cosine of a model is below its noise threshold; an unknown cosine is not."""
    return cosine is not None and cosine < thresholds_of(model).noise


def best_match(matches: Iterable[Match | None]) -> Match | None:
    """Say how good an answer is by its best hit; None if no hit is judged."""
    return max((one for one in matches if one is not None), key=_MATCHES.index, default=None)
