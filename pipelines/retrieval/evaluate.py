"""How good answers are by a person's own judgement: nDCG, recall and reciprocal rank, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from statistics import fmean

import yaml

from pipelines.errors import JudgedQueriesError
from pipelines.vault import note_key

QUERIES_FILE = "_queries.yaml"
LAYERS = ("lexical", "vector", "fused", "decayed", "reranked")
"""In the order in which they are compared; a layer that took no part leaves what the one before it gave."""

Grades = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Means:
    """A layer's figures over all questions."""

    ndcg_10: float
    recall_10: float
    recall_60: float
    mrr: float


@dataclass(frozen=True, slots=True)
class Loss:
    """A question that a layer answered worse than the layer before it, by nDCG@10."""

    query: str
    before: str
    after: str
    lost: float


def read_judged(root: Path) -> dict[str, dict[str, int]]:
    """Read a vault's `_queries.yaml`: question -> path, list of paths, or path -> grade (1 is good, 3 is best).

    Raises JudgedQueriesError.
    """
    file = root / QUERIES_FILE
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise JudgedQueriesError(
            f"{file} is not there; write in it what you ask and what should be found, "
            'as in `"how long to rest between sets": fitness/Rest.md`'
        ) from error
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise JudgedQueriesError(f"{file} cannot be read: {error}") from error
    if not isinstance(data, dict) or not data:
        raise JudgedQueriesError(f"{file}: expected lines of the form `question: path`")
    return {str(query): _grades(file, str(query), value) for query, value in data.items()}


def _grades(file: Path, query: str, value: object) -> dict[str, int]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        value = dict.fromkeys(value, 1)
    if not isinstance(value, dict) or not value:
        raise JudgedQueriesError(f"{file}: {query!r} names no note; write a path, a list, or `path: grade`")
    for path, grade in value.items():
        if not isinstance(path, str) or not isinstance(grade, int) or isinstance(grade, bool) or grade < 1:
            raise JudgedQueriesError(
                f"{file}: {query!r}: {path!r}: {grade!r} is no path with a grade from 1 on"
            )
    return {note_key(path): grade for path, grade in value.items()}


def ndcg(paths: Sequence[str], grades: Grades, k: int = 10) -> float:
    """Return nDCG@k with the grade as gain. Jarvelin and Kekalainen, TOIS 2002, as trec_eval computes it."""
    gains = [grades.get(path, 0) for path in paths[:k]]
    best = sorted(grades.values(), reverse=True)[:k]
    return _discounted(gains) / _discounted(best)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, start=1))


def recall(paths: Sequence[str], grades: Grades, k: int) -> float:
    """Return which share of the relevant notes is among the first `k`."""
    return len(grades.keys() & set(paths[:k])) / len(grades)


def reciprocal_rank(paths: Sequence[str], grades: Grades) -> float:
    """Return one over the place of the first relevant note; 0 where there is none."""
    return next((1 / place for place, path in enumerate(paths, start=1) if path in grades), 0.0)


def complete(layers: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return what stood after each layer, whether it took part or not."""
    lexical, vector, fused = layers["lexical"], layers["vector"], layers["fused"]
    decayed = layers.get("decayed", fused)
    reranked = layers.get("reranked", decayed)
    return dict(zip(LAYERS, (lexical, vector, fused, decayed, reranked), strict=True))


def summarise(answers: Sequence[tuple[Grades, Mapping[str, list[str]]]]) -> dict[str, Means]:
    """Return each layer's means over (grades, paths by layer), one a question."""
    names = answers[0][1] if answers else {}
    return {
        name: Means(
            fmean(ndcg(layers[name], grades) for grades, layers in answers),
            fmean(recall(layers[name], grades, 10) for grades, layers in answers),
            fmean(recall(layers[name], grades, 60) for grades, layers in answers),
            fmean(reciprocal_rank(layers[name], grades) for grades, layers in answers),
        )
        for name in names
    }


def losses(answers: Mapping[str, tuple[Grades, Mapping[str, list[str]]]], most: int) -> list[Loss]:
    """Return the questions that lost most between fusion and the layers after it, worst first.

    Against fusion itself a question loses what the better one of the two retrievers had.
    """
    found = []
    for query, (grades, layers) in answers.items():
        scores = {name: ndcg(layers[name], grades) for name in layers}
        better = max(("vector", "lexical"), key=scores.__getitem__)
        steps = [(better, "fused"), ("fused", "decayed"), ("decayed", "reranked")]
        found += [Loss(query, one, two, scores[one] - scores[two]) for one, two in steps]
    lost = [loss for loss in found if loss.lost > 0.0]
    return sorted(lost, key=lambda loss: -loss.lost)[:most]
