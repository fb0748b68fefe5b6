"""Find where the answers end: after that come only the nearest of the remaining notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.retrieval.grounds import with_words
from pipelines.retrieval.layers import Source
from pipelines.retrieval.search import Found
from pipelines.retrieval.thresholds import Match
from pipelines.store.passages import ChunkRow

JUDGED_TOGETHER = 10
"""The number of notes that are judged together, however many are requested."""


def cut_off(found: Sequence[Found], best: Match | None, sources: Mapping[str, Source], query: str) -> int:
    """Return the position of the last note that is an answer. Raises CacheError.

    A note is an answer if it matches in meaning: strongly, or weakly if the `best` match is no better. It is also one
    by its name, by a title, phrase or rare word of the question, or by having all of the question's words. A note
    that is not judged by meaning is an answer. The answers end after the last one of the first ten; only if that is
    the tenth do they go on, in the next ten alike.
    """
    for start in range(0, len(found), JUDGED_TOGETHER):
        last = _last_answer(found[start : start + JUDGED_TOGETHER], best, sources, query)
        if last < JUDGED_TOGETHER:
            return start + last
    return len(found)


def _last_answer(
    found: Sequence[Found], best: Match | None, sources: Mapping[str, Source], query: str
) -> int:
    no_answers = {"none", "weak"} if best == "strong" else {"none"}
    end = max(
        (n for n, one in enumerate(found, 1) if one.match not in no_answers or one.hit.is_named),
        default=0,
    )
    rest = found[end:]
    if not rest:
        return end
    asked: dict[str, list[ChunkRow]] = {}
    for one in rest:
        asked.setdefault(one.domain, []).append(one.chunk)
    answers = with_words(asked, sources, query)
    return max(
        (n for n, one in enumerate(rest, start=end + 1) if one.hit.chunk_id in answers[one.domain]),
        default=end,
    )
