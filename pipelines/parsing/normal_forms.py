"""Unicode normal forms of texts from strangers, in linear time.

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


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a normal form; a long text loses the marks of a letter after the first thirty."""
    if len(text) > _SHORT and not text.isascii():
        text = _surplus_marks().sub("", text)
    return unicodedata.normalize(form, text)


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
