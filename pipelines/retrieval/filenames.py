"""Source files whose names begin with words of the question count more."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from pipelines import lexical
from pipelines.retrieval.hit import Hit
from pipelines.stopwords import STOPWORDS
from pipelines.store.symbols import source_files

FACTOR = 1.5
"""What the score of a file is multiplied by if a word of the question begins like a part of its name.

This and the next figures are the source document's.
"""

_SHORTEST = 5  # characters of a word, of a part, and of what both begin with
_SHARE = 0.6  # of the shorter one, that both begin with
_WORD = re.compile(r"[^\W_]+")
_BETWEEN_PARTS = re.compile(r"[-_.]")


def asked_words(query: str) -> frozenset[str]:
    """Return those of a question's first 64 words that may name a file: five letters or more, and no stop word."""
    words = _WORD.findall(query.lower())[: lexical.MOST_TERMS]
    return frozenset(word for word in words if len(word) >= _SHORTEST and word not in STOPWORDS)


def is_named_like(path: str, asked: Collection[str]) -> bool:
    """Say whether a word of the question and a part of a file's name begin alike.

    The name is split at `-`, `_` and `.`, without its suffix. Both must begin with the same five letters or more, and
    these must be at least 60 % of the shorter of the two.
    """
    parts = _BETWEEN_PARTS.split(PurePosixPath(path).stem.lower())
    return any(
        _common(part, word) >= max(_SHORTEST, _SHARE * min(len(part), len(word)))
        for part in parts
        if len(part) >= _SHORTEST
        for word in asked
    )


def _common(one: str, other: str) -> int:
    """Count the characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def lift_filenames(hits: Sequence[Hit], query: str) -> list[Hit]:
    """Multiply the scores of source files that the question names by 1.5, and return the hits, best first."""
    asked = asked_words(query)
    files = {path for path in source_files(hit.path for hit in hits) if is_named_like(path, asked)}
    lifted = []
    for hit in hits:
        added = (FACTOR - 1.0) * hit.score if hit.path in files else 0.0
        lifted.append(hit.after({"filename": added} if added else {}, filenames=hit.score + added))
    return sorted(lifted, key=lambda hit: -hit.score)
