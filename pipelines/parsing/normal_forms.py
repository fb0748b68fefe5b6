"""Unicode normal forms of texts from strangers, in linear time, and the letters that people type for others.

`unicodedata.normalize` sorts the marks of each letter by comparing them all: 200,000 marks on one letter take half a
minute, during which no other thread of the process runs.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

_SHORT = 4_096
"""Characters that take at most 0.02 s, whatever they are."""
_MOST_MARKS = 30
"""Marks of a letter; Unicode's stream-safe format allows as many, and no language writes more."""
_FIRST_MARK, _AFTER_LAST_MARK = 0x300, 0x20000
_DIACRITIC = re.compile(r"[\u0300-\u036f]+")
# What NFKC would change although it is searched for as it is: symbols (\u2122 is not TM), the letters of Korean that
# stand alone, and the vowels of Thai and Lao that it takes apart.
_KEPT = r"\u0e33\u0eb3\u20a0-\u20cf\u2100-\u214f\u2190-\u27bf\u3130-\u318f\U0001f000-\U0001faff"
# What need not be looked at because it stays: nearly every text consists of these.
_PLAIN = (
    r"\0-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf-\xc5\xc7-\xcf\xd1-\xd7\xd9-\xdd\xe0-\xe5\xe7-\xef\xf1-\xf7\xf9-\xfd\xff"
    r"\u0400-\u052f\u2010-\u2027\u3000-\u3029\u3041-\u3096\u30a1-\u30fe\u4e00-\u9fff\uac00-\ud7a3"
    r"\ufe0f\uff01\uff02\uff04-\uff0a\uff0c-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_UNUSUAL = re.compile(f"[^{_PLAIN}{_KEPT}]+")
_LATIN = (*range(0xC0, 0x2B0), *range(0x2C60, 0x2C80), *range(0xA722, 0xA7D0))
_NAME = re.compile(r"LATIN (SMALL|CAPITAL) (?:LETTER|LIGATURE) (?:DOTLESS )?([A-Z]{1,2})(?: WITH .*)?")
_OTHER_NAMES = {
    "\u00df": "ss", "\u1e9e": "Ss", "\u00fe": "th", "\u00de": "Th", "\u00f0": "d", "\u00d0": "D",
    "\u014b": "n", "\u014a": "N", "\u0259": "e", "\u018f": "E", "\u0138": "k", "\u03c2": "\u03c3",
}  # fmt: skip


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a normal form; a long text loses the marks of a letter after the first thirty."""
    if len(text) > _SHORT and not text.isascii():
        text = _surplus_marks().sub("", text)
    return unicodedata.normalize(form, text)


def without_diacritics(text: str, form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> str:
    """Return a text in a normal form, without the diacritics that are separate characters in it."""
    return _DIACRITIC.sub("", normal_form(form, text))


def plain_letters(text: str) -> str:
    """Return a text with the letters that people type for those that they cannot type; accents and case stay.

    Ligatures, wide, narrow and raised characters become what they stand for (NFKC); a letter that Unicode does not
    take apart becomes the one that it is named after: \u00df is ss, \u00e6 is ae, \u0142 is l. Symbols stay.
    """
    if text.isascii():
        return text
    composed = normal_form("NFC", text)
    if not _UNUSUAL.search(composed):
        return composed
    compatible = _UNUSUAL.sub(lambda run: without_diacritics(run[0], "NFKC"), composed)
    # Characters that a mark kept apart may belong together without it.
    return _variant().sub(_typed_for, normal_form("NFC", compatible))


def fold_letters(text: str) -> str:
    """Return a text in the form in which words are compared: plain letters, no accents, no case."""
    if text.isascii():
        return text.lower()
    return normal_form("NFC", without_diacritics(plain_letters(text), "NFD")).casefold()


def _typed_for(variant: re.Match[str]) -> str:
    """Return what is typed for a letter: AE in a word of capitals, Ae at the beginning of another."""
    typed, text = _variants()[variant[0]], variant.string
    before, after = text[variant.start() - 1 : variant.start()], text[variant.end() : variant.end() + 1]
    is_among_capitals = after.isupper() or (before.isupper() and not after.isalpha())
    return typed.upper() if is_among_capitals and variant[0].isupper() else typed


@cache
def _variants() -> dict[str, str]:
    """Return what is typed for each letter that Unicode does not take apart, or not into letters that are typed."""
    typed = dict(_OTHER_NAMES)
    for letter in map(chr, _LATIN):
        named = _NAME.fullmatch(unicodedata.name(letter, ""))
        if named and not unicodedata.decomposition(letter):
            typed[letter] = named[2].title() if named[1] == "CAPITAL" else named[2].lower()
    # Some capitals are named otherwise than their small letters.
    capitals = {letter.upper(): plain.title() for letter, plain in typed.items()}
    typed = {one: plain for one, plain in capitals.items() if len(one) == 1 and not one.isascii()} | typed
    with_marks = {letter: unicodedata.normalize("NFD", letter)[0] for letter in map(chr, _LATIN)}
    return typed | {letter: typed[base] for letter, base in with_marks.items() if base in typed}


@cache
def _variant() -> re.Pattern[str]:
    return re.compile(f"[{''.join(_variants())}]")


@cache
def _surplus_marks() -> re.Pattern[str]:
    """Return what finds the marks after the first thirty of a letter."""
    marks = "".join(
        character
        for character in map(chr, range(_FIRST_MARK, _AFTER_LAST_MARK))
        # Some characters become marks only when they are taken apart.
        if unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
    )
    return re.compile(f"(?<=[{marks}]{{{_MOST_MARKS}}})[{marks}]+")
