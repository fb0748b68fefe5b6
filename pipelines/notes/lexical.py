"""Tokenise texts for the full-text index; a question (`pipelines.question`) goes through the same tokens.

Letters without diacritics that are typed differently (`ß`, `ł`, ligatures) are replaced here. Then the
FTS5 tokenizer (`porter unicode61 remove_diacritics 2`) only folds case and diacritics and stems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import Literal

from pipelines.notes.chunk import CJK

# English stop words, which are neither searched for nor used to label communities.


STOPWORDS = frozenset(
    (
        *("a", "about", "an", "and", "are", "as", "at", "be", "but", "by", "can", "did", "do", "does", "for"),
        *("from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "my", "no", "not"),
        *("of", "on", "or", "our", "so", "that", "the", "their", "them", "then", "there", "these", "they"),
        *("this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with"),
        *("you", "your"),
    )
)


# Unicode normal forms of texts from strangers, in linear time, and the letters that people type for others.
#
# `unicodedata.normalize` sorts the marks of each letter by comparing them all: 200,000 marks on one letter take
# half a minute, during which no other thread of the process runs.


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


_BETWEEN_WORDS = re.compile(r"[\s/_.-]+")


def fold_letters(text: str) -> str:
    """Return a text in the form in which words are compared: plain letters, no accents, no case."""
    if text.isascii():
        return text.lower()
    return normal_form("NFC", without_diacritics(plain_letters(text), "NFD")).casefold()


def fold_name(name: str) -> str:
    """Return a name as it is compared: folded letters, and one space per run of `/`, `-`, `_`, `.` and spaces."""
    # Of a symbol, too, a name has what it stands for: \u2122 is TM.
    folded = fold_letters(name if name.isascii() else normal_form("NFKC", name))
    return _BETWEEN_WORDS.sub(" ", folded).strip()


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


# Longer runs are data (base64, hashes), whose parts are not worth finding.
_LONGEST_IDENTIFIER = 64
# Symbols that people search for; all others only separate words. `#` counts in C#, but not in `# heading`.
SYMBOL = (
    r"\+\+|(?<=[A-Za-z])#(?![\w#])|[\xa2-\xa7\xa9\xae\xb0\xb1\xb6\u20a0-\u20cf\u2100-\u214f\u2190-\u27bf"
    r"\u2b00-\u2bff\U0001f000-\U0001faff]"
)
TOKEN = re.compile(rf"{SYMBOL}|[{CJK}]+|[^\W_{CJK}]+")
"""A symbol, a run of CJK, or a word or identifier, which may have several index tokens."""
_IS_CJK = re.compile(rf"[{CJK}]")
Term = tuple[str, ...]
"""A word or phrase in index tokens."""
ChunkWords = tuple[str, str]
"""The words of a chunk's breadcrumb and of its text, as FTS5 reads them."""


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A query's words and phrases as the full-text index stores them, with their weights.

    Those of a question are whole numbers; another name of what it names (`Question.wanted_with`) may have less.
    """

    weights: Mapping[str, float]

    def expression(self) -> str:
        """Return the FTS5 MATCH expression: any of the words, each repeated by its weight, a whole number."""
        return " OR ".join(f'"{term}"' for term, weight in self.weights.items() for _ in range(int(weight)))


def index_text(text: str) -> str:
    """Return a text as FTS5 should read it: words, identifiers whole and in parts, CJK by character."""
    return " ".join(index_tokens(text))


def chunk_words(section: str, headings: Sequence[str], text: str, title: str) -> ChunkWords:
    """Return what the full-text index stores for a chunk: the words of its breadcrumb and of its text.

    A breadcrumb is the headings above the chunk and its section label, each once, without those that repeat the
    note's title.
    """
    # The label of a part of a document may be its headings in one line.
    label = [] if section == " \u2014 ".join(headings) else [section]
    lines = dict.fromkeys((*headings, *label))
    return index_text("\n".join(line for line in lines if line != title)), index_text(text)


def whole_words(text: str) -> tuple[str, ...]:
    """Return a text's words that have index tokens, unchanged: identifiers in one piece, letters of CJK, symbols."""
    found = TOKEN.findall(plain_letters(text))
    return tuple(chain.from_iterable(filter(str.isalnum, t) if _IS_CJK.match(t) else (t,) for t in found))


def telling_words(text: str) -> set[str]:
    """Return the words of a text without stopwords, in the form of `LexicalQuery`."""
    return {folded((token,)) for token in index_tokens(text)} - STOPWORDS


def folded(term: Term) -> str:
    """Return a word or phrase as one string; FTS5 does not tell `Apple` from `apple`, so they count together."""
    text = " ".join(term)
    return text.lower() if text.isascii() else text


def index_tokens(text: str) -> Term:
    """Return the words that the full-text index stores for a text, which contain only letters and digits.

    For an identifier the whole comes first.
    """
    tokens: list[str] = []
    for found in TOKEN.findall(plain_letters(text)):
        if found.isdecimal() or (found.isalpha() and (found.islower() or found.istitle())):
            tokens.append(found)
        elif _IS_CJK.match(found):
            tokens += filter(str.isalnum, found)
        elif not found[0].isalnum():
            tokens.append("sym" + "".join(f"{ord(character):x}" for character in found))
        else:
            parts = parts_of(found)
            tokens += [found, *parts] if len(parts) > 1 else parts
    return tuple(tokens)


def parts_of(word: str) -> list[str]:
    """Split an identifier between letters and digits, at camelCase humps, and after an acronym."""
    if len(word) > _LONGEST_IDENTIFIER:
        return [word]
    cuts = [0, *(at for at in range(1, len(word)) if _is_hump(word, at)), len(word)]
    return [word[start:end] for start, end in pairwise(cuts)]


def _is_hump(word: str, at: int) -> bool:
    before, here = word[at - 1], word[at]
    if before.isalpha() != here.isalpha():
        return True
    return here.isupper() and (not before.isupper() or word[at + 1 : at + 2].islower())
