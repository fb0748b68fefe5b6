"""Fold near-duplicate answers: copies, drafts and templates are listed behind the best one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pipelines.cache.vectors import Vector
from pipelines.notes.lexical import fold_name
from pipelines.question import Question
from pipelines.search.fusion import Found
from pipelines.search.thresholds import thresholds_of

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Folded:
    """A note among the answers, and the lower-ranked notes whose best passage says the same."""

    first: Found
    alike: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True)
class _ComparedPassage:
    """What is compared of a note's best passage: its words, its numbers, and its vector with the model's name.

    A note without text has no `words` and is like no other, because two drafts may share a title.
    """

    words: str
    numbers: frozenset[str]
    model: str
    vector: Vector | None

    def is_like(self, other: _ComparedPassage) -> bool:
        """Say whether two passages have the same text, or are as near as copies are for their model.

        Passages with different numbers are not alike: the reports of two quarters are two notes, however near they
        are.
        """
        if not (self.words and other.words):
            return False
        if self.words == other.words:
            return True
        bar = thresholds_of(self.model).alike
        if bar is None or self.vector is None or other.vector is None or self.model != other.model:
            return False
        return self.numbers == other.numbers and float(self.vector @ other.vector) >= bar


def fold_near_duplicates(
    found: Sequence[Found],
    question: Question,
    models: Mapping[str, str],
    vectors: Mapping[tuple[str, int], Vector],
) -> list[Folded]:
    """Put each answer behind a better one that it is like, across all domains.

    `models`: each domain's model; `vectors`: passage vectors by domain and chunk. A note that the question names is
    never folded.
    """
    folded: list[Folded] = []
    passages: list[_ComparedPassage] = []
    name = fold_name(question.text.strip().strip('"'))
    for one in found:
        passage = _passage(one, models.get(one.domain, ""), vectors.get((one.domain, one.hit.chunk_id)))
        place = next((n for n, other in enumerate(passages) if passage.is_like(other)), None)
        if place is None or _is_called(one, name):
            folded.append(Folded(one))
            passages.append(passage)
        else:
            folded[place] = Folded(folded[place].first, (*folded[place].alike, one))
    return folded


def _passage(one: Found, model: str, vector: Vector | None) -> _ComparedPassage:
    words = "" if one.chunk.is_names_alone else " ".join(one.chunk.text.split()).casefold()
    return _ComparedPassage(words, frozenset(_NUMBER.findall(words)), model, vector)


def _is_called(one: Found, name: str) -> bool:
    """Say whether the question, as a folded name, is the note's title, alias or file name."""
    if one.hit.is_named:
        return True
    return name in (fold_name(one.chunk.title), fold_name(PurePosixPath(one.chunk.path).stem))
