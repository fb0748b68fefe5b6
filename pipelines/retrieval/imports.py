"""Source files that several of the found ones refer to are found, too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipelines.retrieval.hit import Hit
from pipelines.store.cache import Cache
from pipelines.store.notes import first_chunks
from pipelines.store.symbols import referring, source_files

FEWEST, MANY = 2, 3
"""How many files must refer to a file for it to be found, and to rank high: the source document's, as all figures."""
OF_TOP, OF_UPPER_QUARTILE = 0.9, 0.7
"""The score of such a file: that much of the best one's if many refer to it, else of the upper quartile's."""

_MOST, _FILES = 2, 10
_FEWEST_FILES, _MOST_FILES = 3, 8
_IS_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|[._](?:test|spec)\.[^/.]*$|Tests?\.java$"
)


def best_files(hits: Sequence[Hit]) -> list[Hit]:
    """Return the source files among the hits whose references count: the best third, but three to eight."""
    wanted = set(source_files(hit.path for hit in hits))
    found = [hit for hit in hits if hit.path in wanted]
    return found[: min(max(_FEWEST_FILES, len(found) // 3), _MOST_FILES)]


def imported_scores(scores: Sequence[float], references: Mapping[str, int]) -> dict[str, float]:
    """Return the scores of the files that are found by references, by path.

    `scores` are those of the files that refer to them, best first; `references` counts these by file. A file with two
    references or more is found, at most two files, and fewer if that makes more than ten. Source files come before
    tests, then those with more references, then the order of paths decides.
    """
    most = min(_MOST, max(0, _FILES - len(scores)))
    enough = sorted(
        (path for path, count in references.items() if count >= FEWEST),
        key=lambda path: (_IS_TEST.search(path) is not None, -references[path], path),
    )
    if not scores:
        return {}
    high, usual = OF_TOP * scores[0], OF_UPPER_QUARTILE * scores[len(scores) // 4]
    return {path: high if references[path] >= MANY else usual for path in enough[:most]}


def add_imported(cache: Cache, hits: Sequence[Hit], only: Sequence[int] | None) -> list[Hit]:
    """Return the hits, best first, with the files that several of the best source files refer to.

    One that was found already gets the signal `imports` if its score is lower. `only` these chunks may be added.
    Raises CacheError.
    """
    files = best_files(hits)
    found = {path: len(by) for path, by in referring(cache, [hit.path for hit in files]).items()}
    enough = {path: count for path, count in found.items() if count >= FEWEST}
    known = {hit.path for hit in hits}
    others = first_chunks(cache, enough.keys() - known)
    if only is not None and others:
        allowed = set(only)
        others = {path: chunk for path, chunk in others.items() if chunk in allowed}
    references = {path: count for path, count in enough.items() if path in known or path in others}
    wanted = imported_scores([hit.score for hit in files], references)
    added = [Hit(path, others[path], {}) for path in wanted if path in others]
    lifted = []
    for hit in (*hits, *added):
        more = max(0.0, wanted.get(hit.path, 0.0) - hit.score)
        count = float(references[hit.path]) if hit.path in wanted else None
        lifted.append(
            hit.after({"imports": more} if more else {}, references=count, imported=hit.score + more)
        )
    return sorted(lifted, key=lambda hit: -hit.score)
