"""Check whether a passage contains a quote, word for word; pure and deterministic, without anyone's judgement.

A quote passes if it is a substring of the passage, with both normalised alike. The passage is tried as written and as
a reader sees it, without its Markdown. These must not pass:

- a match that begins or ends inside a word or a number: `5 percent` in `5 percentages`, `the rate rose by 5` in
  `the rate rose by 5.3`, `we can` in `we can't`. Parts joined by a hyphen, an apostrophe, a dot, a slash or an
  underscore form one word; a sign, comma or colon next to digits belongs to the number.
- crumbs: an ellipsis splits a quote into fragments, and each must have the minimum length of a quote. The fragments
  must occur in the passage in the quote's order, without overlap.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pipelines.search.excerpts import plain

Reason = Literal["match", "no_quote", "no_chunk_text", "too_short", "not_found"]
QuoteStatus = Literal["no_quotes", "all_verified", "has_mismatch", "unverifiable"]

SHORTEST_QUOTE = 12
"""In normalised characters; shorter quotes occur in many texts by chance."""

_FOLDED = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2012\u2013\u2014\u2015\u2212", "-")
)
# A soft hyphen and zero-width characters that join or separate: readers do not see them.
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
_ELLIPSIS = re.compile(r"\[\s*\.{3,}\s*\]|\.{3,}")

# NFKC alone would turn 10² into 102, and 1½ into eleven halves.
_POWER = re.compile(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u2079])")
_FRACTION = re.compile(r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e\u2189])")

# Thai, Lao, Burmese, Khmer, kana, Han are written without spaces, so any character may begin or end a word.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    r"\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_MARK = "\ue000"
_WORD = rf"(?:[^\W_{_UNSPACED}]|{_MARK})"
_JOIN = "['\u2019\\-\u2010\u2012\u2013\u2212._/]"  # no em dash: it separates words, with or without spaces
_INSIDE_A_WORD = re.compile(
    rf"(?={_MARK})"
    rf"|(?<={_WORD})(?=(?:{_JOIN})?{_WORD})"
    rf"|(?<={_WORD}{_JOIN})(?={_WORD})"
    r"|(?<=\d)(?=[,:]\d)|(?<=\d[,:])(?=\d)"
    r"|(?<=[-\u2013\u2212.])(?<![-.][-.])(?=\d)"
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of comparing a quote with passages; `found_in` is the index of the passage that contains it."""

    reason: Reason
    found_in: int | None = None


def check_quote(quote: str | None, passages: Sequence[str]) -> Check:
    """Search for a quote in passages, in order; one passage must contain the whole quote.

    A quote that occurs verbatim, ellipses included, matches whatever its fragments are.
    """
    return check_quotes([quote], passages)[0]


def check_quotes(quotes: Sequence[str | None], passages: Sequence[str]) -> list[Check]:
    """Search for each quote as `check_quote` does; a passage, which is expensive to read, is read once for all."""
    wanted = [_Wanted.of(quote or "") for quote in quotes]
    left = {number: one for number, one in enumerate(wanted) if _is_long_enough(one.whole)}
    found: dict[int, int] = {}
    for index, passage in enumerate(passages):
        if not left:
            break
        forms = (_prepared(passage), _prepared(_read(passage)))
        here = [number for number, one in left.items() if any(one.stands_in(*form) for form in forms)]
        for number in here:
            found[number] = index
            del left[number]
    empty = not any(_prepared(passage)[0] for passage in passages)
    return [
        Check("match", found[number]) if number in found else Check(_why_not(one, empty=empty))
        for number, one in enumerate(wanted)
    ]


def check_citations(
    citations: Sequence[tuple[str | None, tuple[str, ...]]], texts: Mapping[str, str]
) -> list[Check]:
    """Check each quote against its passages, given by their names in `texts`; those of the same passages at once."""
    together: dict[tuple[str, ...], list[int]] = {}
    for number, (_, names) in enumerate(citations):
        together.setdefault(names, []).append(number)
    checks: dict[int, Check] = {}
    for names, numbers in together.items():
        quotes = [citations[number][0] for number in numbers]
        checks |= zip(numbers, check_quotes(quotes, [texts[name] for name in names]), strict=True)
    return [checks[number] for number in range(len(citations))]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A normalised quote, and its fragments between ellipses; `crumbs` says that one of them is too short."""

    whole: str
    fragments: tuple[str, ...]
    crumbs: bool

    @staticmethod
    def of(quote: str) -> _Wanted:
        whole = normalise(quote)
        parts = (part.strip() for part in _ELLIPSIS.split(whole))
        fragments = tuple(part for part in parts if _has_words(part))
        return _Wanted(whole, fragments, not all(map(_is_long_enough, fragments)))

    def stands_in(self, text: str, shape: str) -> bool:
        return _stand_in([self.whole], text, shape) or (
            not self.crumbs and _stand_in(self.fragments, text, shape)
        )


def _why_not(wanted: _Wanted, *, empty: bool) -> Reason:
    if not wanted.whole:
        return "no_quote"
    if empty:
        return "no_chunk_text"
    return "too_short" if wanted.crumbs or not _is_long_enough(wanted.whole) else "not_found"


def status_of(reasons: Iterable[Reason]) -> QuoteStatus:
    """Summarise the checks of an answer's citations; those without a quote do not count."""
    quoted = {reason for reason in reasons if reason != "no_quote"}
    if not quoted:
        return "no_quotes"
    if "not_found" in quoted:
        return "has_mismatch"
    return "all_verified" if quoted == {"match"} else "unverifiable"


def normalise(text: str) -> str:
    """Return the form that is compared: NFKC, quotes and dashes unified, case folded, white space collapsed.

    https://www.unicode.org/reports/tr15/ (NFKC), https://www.unicode.org/reports/tr21/ (case folding).
    """
    return _plain(text).translate(_FOLDED)


def _plain(text: str) -> str:
    """Return a text normalised except for its quotes and dashes, which mark the ends of words."""
    if not text.isascii():
        text = _FRACTION.sub(" ", _POWER.sub("^", text))
        text = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    # Case folding may decompose a composed character.
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())


_read = lru_cache(maxsize=1024)(plain)


@lru_cache(maxsize=2048)  # a write-back compares all its quotes with the same few notes, in both forms
def _prepared(text: str) -> tuple[str, str]:
    """Return a normalised passage, and its shape: of equal length, dashes unchanged, one sign for all accents."""
    plain = _plain(text)
    shape = plain
    if not plain.isascii():
        shape = "".join(_MARK if unicodedata.category(c).startswith("M") else c for c in plain)
    return plain.translate(_FOLDED), shape


def _is_long_enough(fragment: str) -> bool:
    return len(_ELLIPSIS.sub("", fragment).strip()) >= SHORTEST_QUOTE and _has_words(fragment)


def _has_words(fragment: str) -> bool:
    return any(character.isalnum() for character in fragment)


def _stand_in(fragments: Sequence[str], text: str, shape: str) -> bool:
    """Say whether the fragments occur in the text in order, none inside a word; the first place of each counts."""
    end = 0
    for fragment in fragments:
        start = text.find(fragment, end)
        while start >= 0 and not (_may_cut(shape, start) and _may_cut(shape, start + len(fragment))):
            start = text.find(fragment, start + 1)
        if start < 0:
            return False
        end = start + len(fragment)
    return True


def _may_cut(shape: str, at: int) -> bool:
    return at in (0, len(shape)) or _INSIDE_A_WORD.match(shape, at) is None
