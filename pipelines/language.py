"""Tell a text's language by its script and its function words, and which words of a question carry meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from pipelines.notes.chunk import CJK

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
