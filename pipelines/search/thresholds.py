"""What a cosine means for each model: the only place for numbers that were chosen by hand or measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import PurePath
from typing import Literal

from pipelines.notes.chunk import CJK

# Tell a text's language by its script and its function words, and which words of a question carry meaning.


Language = Literal["en", "de", "fr", "es", "it", "pt", "nl", "cjk", "other"]

_MOST_FREQUENT: dict[Language, str] = {
    "en": (
        "a about all also am an and any are as at be been but by can could did do does for from had has have he her"
        " him his how i if in into is it its just may me might more most much many must my no not of on only or our"
        " out shall she should so some such than that the their them then there these they this those to too up us"
        " very was we were what when where which while who whom whose why will with would you your"
    ),
    "de": (
        "aber als am an auch auf aus bei beim bin bis das dass dem den der des die du durch ein eine einem einen"
        " einer eines er es für fuer gibt haben hat hatte ich ihr im in ist kann kein keine man mein meine meinem"
        " meinen meiner mich mir mit muss nach nicht noch nur ob oder ohne sein seine sich sie sind so soll sollte"
        " über um und uns unter viel viele vom von vor wann war warum was welche welchem welchen welcher welches"
        " wenn wer werden wie wieso wir wird wo zu zum zur zwischen"
    ),
    "fr": (
        "à au aux avec ce ces cette comment dans de des du elle en est et faut il ils je la le les leur lui ma mais"
        " mes moi mon ne nous on ou où par pas plus pour pourquoi quand que quel quelle quelles quels qui sa sans"
        " se ses si son sont sur ta tes ton tu un une vos votre vous"
    ),
    "es": (
        "al como cómo con cual cuál cuando cuándo cuanto cuánto de del desde donde dónde el ella en es esta está"
        " este esto hay la las lo los me mi mis muy más no nos o para pero por porque qué que quien quién se ser si"
        " sin sobre son su sus también te tu un una uno unos y ya"
    ),
    "it": (
        "a al alla anche che chi ci come con cosa da dal dalla dei del della delle di dove e è gli ha ho i il in io"
        " la le lo ma mi mio nel nella non o per perché più quale quali quando quanto quanti se si sono su sul sulla"
        " ti tra tu un una uno"
    ),
    "pt": (
        "a ao aos as com como da das de do dos e é ela ele em essa esse esta este eu isso lhe mais mas me meu minha"
        " na não nas no nos o onde os ou para pela pelo por porque qual quais quando quanto que quem se sem ser seu"
        " sua são também te tem um uma você"
    ),
    "nl": (
        "aan als bij dan dat de deze die dit door een en er geen haar heb hebben heeft het hij hoe hun ik in is je"
        " kan maar met mijn moet naar niet nog of om onze ook op over te toch tot uit van veel voor waar waarom"
        " wanneer was wat we welke werd wie wij worden zijn zo zou"
    ),
}
_FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _MOST_FREQUENT.items()}
_LANGUAGES = {
    word: [language for language, words in _FUNCTION_WORDS.items() if word in words]
    for word in frozenset().union(*_FUNCTION_WORDS.values())
}
_FUNCTION_CHARACTERS = frozenset(
    "的了吗呢吧是在和与怎么什样哪多少为能会要还个我你他她它们这那就都也很把被让给从到对不有没几"
)
_HIRAGANA = re.compile("[\u3041-\u309f]{2}")
_IS_CJK = re.compile(f"[{CJK}]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_WORD = re.compile(r"[^\W\d_]+")
_READ = 400  # characters
_LEAST_CJK = 0.3
"""Share of a text's letters; a character of Chinese says as much as two or three Latin letters."""


def language_of(text: str) -> Language | None:
    """Return the language of a text: of Latin letters by its function words, else by its script; None if unclear."""
    return _language_of(text[:_READ])


@lru_cache(maxsize=4096)  # the passages of one vault come again and again
def _language_of(text: str) -> Language | None:
    if not text.isascii():
        letters = sum(map(str.isalpha, text))
        if len(_IS_CJK.findall(text)) > _LEAST_CJK * letters:
            return "cjk"
        if 2 * len(_LATIN.findall(text)) < letters:
            return "other"
    totals = dict.fromkeys(_FUNCTION_WORDS, 0)
    for word in _WORD.findall(text.lower()):
        for language in _LANGUAGES.get(word, ()):
            totals[language] += 1
    (best, most), (_, second), *_ = sorted(totals.items(), key=lambda pair: -pair[1])
    return best if most > second else None


def content_words(terms: Iterable[str], language: Language | None) -> list[str]:
    """Return the index terms of a text in a language that carry meaning: all of them if none does.

    A term is a word, or the characters of Chinese, Japanese or Korean with a space between them.
    """
    every = list(terms)
    if language == "cjk":
        return [term for term in every if not _is_function_pair(term)] or every
    without = _FUNCTION_WORDS["en"] if language in (None, "other") else _FUNCTION_WORDS[language]
    return [term for term in every if term not in without] or every


def _is_function_pair(term: str) -> bool:
    characters = term.replace(" ", "")
    return bool(_FUNCTION_CHARACTERS & set(characters)) or _HIRAGANA.fullmatch(characters) is not None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A model's thresholds: cosines of a question to a note's best passage.

    `prune`: the ordinary traversal drops notes below it. `floor`: the traversal stops when the kept notes have this
    mean. `note_prune`, `note_floor`: the same if a note's mean vector is the question. `noise`: deep retrieval drops
    notes below it. `strong`, `weak`: the lowest cosine of a best answer that is a strong or a weak match.
    `calibrated`: the numbers were chosen for this model. `alike`: the lowest cosine of two passages that are copies
    of each other; None: not measured. `foreign`: by language, how near the best passage in that language is to an
    unrelated question. These are languages that the model separates badly. All numbers before hold for English.
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
    foreign: Mapping[Language, float] = field(default_factory=dict)


BGE_LARGE = Thresholds(
    prune=0.50, floor=0.65, noise=0.30, note_prune=0.50, note_floor=0.65, strong=0.65, weak=0.50
)
"""The source document's numbers."""

MINILM = Thresholds(
    prune=0.22,
    floor=0.41,
    noise=0.08,
    note_prune=0.55,
    note_floor=0.66,
    strong=0.50,
    weak=0.35,
    alike=0.96,
    # Measured in German and Chinese; the other languages in Latin letters are taken to be like German.
    foreign={"cjk": 0.78, **dict.fromkeys(("de", "fr", "es", "it", "pt", "nl"), 0.49)},
)
"""Measured: docs/traversal.md, "Thresholds"; `strong`, `weak` and `foreign`: docs/quality.md, "Is it an answer";
`alike`: there, "What is alike"."""

UNKNOWN = replace(MINILM, calibrated=False, alike=None)
"""The lowest thresholds known: one that is too low costs some reading, one that is too high hides every answer."""

_BY_NAME: dict[str, Thresholds] = {"bge-large-en-v1.5": BGE_LARGE, "all-minilm-l6-v2": MINILM}


@cache
def thresholds_of(model: str) -> Thresholds:
    """Return a model's thresholds by the last part of its name (of a hub or a folder), or else `UNKNOWN`."""
    return _BY_NAME.get(PurePath(model).name.lower(), UNKNOWN)


def lowest_cosine(model: str, wanted: float | Literal["strong", "weak"]) -> float:
    """Return the lowest cosine that a question asks for, as a number or by a model's threshold."""
    bars = thresholds_of(model)
    return wanted if isinstance(wanted, float) else bars.strong if wanted == "strong" else bars.weak


Match = Literal["strong", "weak", "none"]
_BANDS: tuple[Match, ...] = ("none", "weak", "strong")


def is_noise(model: str, cosine: float | None) -> bool:
    """Say whether a cosine of a model is below its noise threshold; an unknown cosine is not."""
    return cosine is not None and cosine < thresholds_of(model).noise


def best_match(matches: Iterable[Match | None]) -> Match | None:
    """Say how good an answer is by its best hit; None if no hit is judged."""
    return max((one for one in matches if one is not None), key=_BANDS.index, default=None)
