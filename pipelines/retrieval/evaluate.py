"""Measure how good answers are by a person's own judgements: nDCG, recall and reciprocal rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from math import log2
from pathlib import Path
from statistics import fmean

import yaml

from pipelines.disk import beneath
from pipelines.disk.vault import note_key
from pipelines.errors import DomainsFileError, JudgedQueriesError, UnsafePathError
from pipelines.parsing.yaml_guard import YAML_SURPRISES, refuse_bombs, yaml_problem

QUERIES_FILE = "_queries.yaml"
_LIMIT = 1_000_000  # bytes: about 10,000 questions

Grades = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Figures:
    """How good one answer is, or several on average."""

    ndcg_10: float
    recall_10: float
    recall_60: float
    mrr: float


@dataclass(frozen=True, slots=True)
class Loss:
    """A question answered worse after a step than before it, by nDCG@10."""

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
        text = beneath.read_file(root, QUERIES_FILE, _LIMIT).decode("utf-8")
        refuse_bombs(text, QUERIES_FILE)
        data = yaml.safe_load(text)
    except FileNotFoundError as error:
        raise JudgedQueriesError(
            f"{file} does not exist; write into it what you ask and what should be found, "
            'as in `"how long to rest between sets": fitness/Rest.md`'
        ) from error
    except yaml.YAMLError as error:
        raise JudgedQueriesError(f"{file} cannot be read: {yaml_problem(error)}") from error
    except (OSError, UnsafePathError, DomainsFileError, *YAML_SURPRISES) as error:
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
        raise JudgedQueriesError(f"{file}: {query!r} has no note; write a path, a list, or `path: grade`")
    for path, grade in value.items():
        if not isinstance(path, str) or not isinstance(grade, int) or isinstance(grade, bool) or grade < 1:
            raise JudgedQueriesError(
                f"{file}: {query!r}: {path!r}: {grade!r} is not a path with a grade of at least 1"
            )
    return {note_key(path): grade for path, grade in value.items()}


def ndcg(paths: Sequence[str], grades: Grades, k: int = 10) -> float:
    """Return nDCG@k with the grade as gain. Jarvelin and Kekalainen, TOIS 2002, as computed by trec_eval."""
    gains = [grades.get(path, 0) for path in paths[:k]]
    best = sorted(grades.values(), reverse=True)[:k]
    return _discounted(gains) / _discounted(best)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, start=1))


def recall(paths: Sequence[str], grades: Grades, k: int) -> float:
    """Return the share of the relevant notes among the first `k`."""
    return len(grades.keys() & set(paths[:k])) / len(grades)


def reciprocal_rank(paths: Sequence[str], grades: Grades) -> float:
    """Return the reciprocal of the first relevant note's place; 0 if there is none."""
    return next((1 / place for place, path in enumerate(paths, start=1) if path in grades), 0.0)


def figures(first: Sequence[str], more: Sequence[str], grades: Grades) -> Figures:
    """Return how good an answer is, from the paths of its ten and of its sixty best results, best first."""
    return Figures(
        ndcg(first, grades),
        recall(first, grades, 10),
        recall(more, grades, 60),
        reciprocal_rank(first, grades),
    )


def mean(answers: Iterable[Figures]) -> Figures:
    """Return the means of several answers' figures. Raises ValueError if there are none."""
    columns = zip(*map(astuple, answers), strict=True)
    return Figures(*map(fmean, columns))


def losses(steps: Mapping[str, Mapping[str, Figures]], alone: Collection[str], most: int) -> list[Loss]:
    """Return the questions that lost most from one step (step -> question -> figures) to the next, worst first.

    Steps in `alone` are independent of each other; for the step after them, a loss is counted from the best of them.
    """
    found, before = [], tuple(alone)
    for name, answers in steps.items():
        if name in alone:
            continue
        for query, after in answers.items():
            best = max(before, key=lambda step: steps[step][query].ndcg_10)
            found.append(Loss(query, best, name, steps[best][query].ndcg_10 - after.ndcg_10))
        before = (name,)
    lost = [loss for loss in found if loss.lost > 0.0]
    return sorted(lost, key=lambda loss: -loss.lost)[:most]
