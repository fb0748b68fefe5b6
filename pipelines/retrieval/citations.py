"""Does a passage contain a quote, word for word? Pure and deterministic; nobody's judgement is asked.

A quote passes where it is a substring of the passage, both normalised alike; the passage as it is written, or as a
reader sees it, without its Markdown. What must not pass:

- a match that begins or ends inside a word or a number: `5 percent` in `5 percentages`, `the rate rose by 5` in
  `the rate rose by 5.3`, `we can` in `we can't`. What a hyphen, an apostrophe, a dot, a slash or an underscore
  joins is one word; a digit's sign, comma and colon belong to its number.
- crumbs: an ellipsis splits a quote into fragments, and each must be as long as a quote has to be. They must
  stand in the passage in the quote's order, without overlap.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pipelines.retrieval.plain_text import plain

Reason = Literal["match", "no_quote", "no_chunk_text", "too_short", "not_found"]
Status = Literal["no_quotes", "all_verified", "has_mismatch", "unverifiable"]

SHORTEST_QUOTE = 12
"""In normalised characters: what is shorter stands in many a text by chance."""

_FOLDED = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2012\u2013\u2014\u2015\u2212", "-")
)
# A soft hyphen and what joins or parts without any width: no reader sees them.
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
_ELLIPSIS = re.compile(r"\[\s*\.{3,}\s*\]|\.{3,}")

# NFKC alone would make 102 of 10², and eleven halves of 1½.
_POWER = re.compile(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u2079])")
_FRACTION = re.compile(r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e\u2189])")

# Thai, Lao, Burmese, Khmer, kana, Han: written without spaces, so any character may begin or end a word.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    r"\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_MARK = "\ue000"
_WORD = rf"(?:[^\W_{_UNSPACED}]|{_MARK})"
_JOIN = "['\u2019\\-\u2010\u2012\u2013\u2212._/]"  # no em dash: it parts words, with or without spaces
_INSIDE_A_WORD = re.compile(
    rf"(?={_MARK})"
    rf"|(?<={_WORD})(?=(?:{_JOIN})?{_WORD})"
    rf"|(?<={_WORD}{_JOIN})(?={_WORD})"
    r"|(?<=\d)(?=[,:]\d)|(?<=\d[,:])(?=\d)"
    r"|(?<=[-\u2013\u2212.])(?<![-.][-.])(?=\d)"
)


@dataclass(frozen=True, slots=True)
class Check:
    """What came of comparing a quote with passages; `found_in` is the index of the one that has it."""

    reason: Reason
    found_in: int | None = None


def check_quote(quote: str | None, passages: Sequence[str]) -> Check:
    """Look for a quote in passages, the first one first: it must stand in one of them as a whole.

    A quote that stands there with its ellipses as they are is a match whatever its fragments.
    """
    wanted = normalise(quote or "")
    if not wanted:
        return Check("no_quote")
    if not any(_prepared(passage)[0] for passage in passages):
        return Check("no_chunk_text")
    if not _is_long_enough(wanted):
        return Check("too_short")
    fragments = [part.strip() for part in _ELLIPSIS.split(wanted)]
    fragments = [part for part in fragments if _has_words(part)]
    crumbs = not all(map(_is_long_enough, fragments))
    for index, passage in enumerate(passages):
        for text, shape in (_prepared(passage), _prepared(_read(passage))):
            if _stand_in([wanted], text, shape) or (not crumbs and _stand_in(fragments, text, shape)):
                return Check("match", index)
    return Check("too_short" if crumbs else "not_found")


def status_of(reasons: Iterable[Reason]) -> Status:
    """Sum up an answer's citations; those without a quote say nothing."""
    quoted = {reason for reason in reasons if reason != "no_quote"}
    if not quoted:
        return "no_quotes"
    if "not_found" in quoted:
        return "has_mismatch"
    return "all_verified" if quoted == {"match"} else "unverifiable"


def normalise(text: str) -> str:
    """Return what is compared: NFKC, quotes and dashes folded, casefolded, white space collapsed.

    https://www.unicode.org/reports/tr15/ (NFKC), https://www.unicode.org/reports/tr21/ (case folding).
    """
    return _plain(text).translate(_FOLDED)


def _plain(text: str) -> str:
    """Return a text normalised but for its quotes and dashes, which tell where words end."""
    if not text.isascii():
        text = _FRACTION.sub(" ", _POWER.sub("^", text))
        text = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    # Folding may take a composed character apart again.
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())


_read = lru_cache(maxsize=1024)(plain)


@lru_cache(maxsize=2048)  # a write-back's quotes are compared with the same few notes, written and read
def _prepared(text: str) -> tuple[str, str]:
    """Return a passage normalised, and its shape: as long, with dashes as they are and one sign for accents."""
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
    """Say whether fragments stand in a text in order, none inside a word; the earliest place of each will do."""
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
