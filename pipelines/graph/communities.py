"""Keep the numbers of communities stable, and label them by the tags or title words that set their notes apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from pathlib import PurePosixPath

from pipelines.stopwords import STOPWORDS

_SHARED = 2
_LABEL_TERMS = 3
_ANY_TERMS = 2
_WORD = re.compile(r"[^\W\d_][\w'-]*[^\W_]")


def keep_ids(groups: Sequence[Sequence[str]], previous: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    """Give each community a number: an id goes where most of its members that are still in any community go.

    If two ids go to the same community, the one with more members in it wins. A community without an id gets a new
    one, in order, above all ids in use.
    """
    came = [Counter(previous[path] for path in group if path in previous) for group in groups]
    left: Counter[int] = Counter()
    for ids in came:
        left.update(ids)
    number: dict[int, int] = {}
    new = max(previous.values(), default=0) + 1
    for at, ids in enumerate(came):
        kept = [(-stayed, old) for old, stayed in ids.items() if 2 * stayed > left[old]]
        number[at] = min(kept)[1] if kept else new
        new += not kept
    return {number[at]: tuple(group) for at, group in enumerate(groups)}


def label_communities(
    communities: Mapping[int, Sequence[str]], titles: Mapping[str, str], tags: Mapping[str, Sequence[str]]
) -> dict[int, str]:
    """Label each community by two or three tags or title words that set it apart, joined by commas.

    First come terms that at least two members have, at no less than twice the rate of all other ranked notes; tags
    come before words; then class-based TF-IDF decides, tf * log(1 + A / f) (Grootendorst, "BERTopic", 2022): tf
    members and f of all notes have the term, A is the mean number of terms per community. Without terms, the first
    file names it.
    """
    words = {
        path: [word for word in _WORD.findall(title) if word.casefold() not in STOPWORDS]
        for path, title in titles.items()
    }
    by_tag, by_word = _scored(communities, tags), _scored(communities, words)
    labels = {}
    for number, group in communities.items():
        candidates = [(common, 0, score, term) for common, score, term in by_tag[number]]
        candidates += [(common, 1, score, term) for common, score, term in by_word[number]]
        labels[number] = ", ".join(_chosen(sorted(candidates))) or PurePosixPath(group[0]).stem
    return labels


def _scored(
    communities: Mapping[int, Sequence[str]], terms: Mapping[str, Sequence[str]]
) -> dict[int, list[tuple[bool, float, str]]]:
    """Return each community's terms: whether it is too common, its negated score, its most frequent spelling."""
    here: dict[int, Counter[str]] = {}
    everywhere: Counter[str] = Counter()
    written: dict[str, Counter[str]] = {}
    for number, group in communities.items():
        here[number] = Counter()
        for path in group:
            spelled = {term.casefold(): term for term in terms.get(path, ())}
            here[number].update(spelled.keys())
            for key, term in spelled.items():
                written.setdefault(key, Counter())[term] += 1
        everywhere.update(here[number])
    shown = {
        key: min(spellings, key=lambda term: (-spellings[term], term)) for key, spellings in written.items()
    }
    mean = everywhere.total() / max(1, len(communities))
    everyone = sum(map(len, communities.values()))
    scored = {}
    for number, counts in here.items():
        size = len(communities[number])
        scored[number] = [
            (
                count < _SHARED or count * (everyone - size) < 2 * (everywhere[key] - count) * size,
                -count * log(1 + mean / everywhere[key]),
                shown[key],
            )
            for key, count in counts.items()
        ]
    return scored


def _chosen(candidates: Iterable[tuple[bool, int, float, str]]) -> list[str]:
    """Return the first terms that add something new: three that set the community apart, or two of any kind."""
    chosen: list[str] = []
    said: set[str] = set()
    for common, _, _, term in candidates:
        if len(chosen) >= (_ANY_TERMS if common else _LABEL_TERMS):
            break
        words = set(re.split(r"\W+", term.casefold()))
        if not words <= said:
            chosen.append(term)
            said |= words
    return chosen
