"""What the search page offers besides answers: notes to begin with, filters that narrow down, whole passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import accumulate, takewhile
from typing import TypeVar

from pipelines.cache import graph, notes
from pipelines.cache.cache import Cache
from pipelines.cache.filters import facets, values_in_use
from pipelines.filters import fold
from pipelines.formats import format_of
from pipelines.search.excerpts import Sentence, read_passage, split_sentences
from service.usecases.audience import OWNER, Audience
from service.usecases.notes import on_disk
from service.usecases.schemas.browsing import Facet, ListedNote, Passage, PassageLine, Start
from service.usecases.schemas.search import SearchHit
from service.usecases.search import SearchService

_LISTED = 8
_SPARE = 5  # notes whose files may be gone
_MOST_OF_A_FILTER = 6
_FEWEST_NOTES = 2
SUGGESTED = {"folder": 500, "tag": 200, "kind": 200}
"""The filters whose values are suggested, each with the most characters that its field accepts."""

_NESTED = ("folder", "tag")
_MOST_LEVELS = 10  # of what contains a value; 10,000 tags of 100 levels have a million
_MOST_SUGGESTED = 100
_PAST = (("past week", 7), ("past month", 30), ("past year", 365))

_Row = TypeVar("_Row", bound=tuple[str, str, str | int])


class Browsing:
    """Questions about the notes themselves, over all domains."""

    def __init__(self, questions: SearchService) -> None:
        self._questions = questions

    def start(self, *, audience: Audience = OWNER) -> Start:
        """Return the notes that changed last, and those that most notes link to."""
        recent = [
            ListedNote(path=path, title=title, domain=slug, changed=changed)
            for slug, (path, title, changed) in self._listed(notes.recently_changed, audience)
        ]
        best = list(self._listed(graph.most_linked, audience))
        # The notes of its own domain are counted already; those of other domains are added.
        links = Counter({path: count for _, (path, _, count) in best})
        for domain, cache in self._questions.readers():
            others = [path for slug, (path, *_) in best if slug != domain.slug]
            links.update(graph.linking(cache, others, audience.hidden(domain.slug)))
        linked = [
            ListedNote(path=path, title=title, domain=slug, links=links[path])
            for slug, (path, title, _) in best
        ]
        recent.sort(key=lambda note: note.changed or "", reverse=True)
        linked.sort(key=lambda note: -(note.links or 0))
        return Start(recent=recent[:_LISTED], most_linked=linked[:_LISTED])

    def _listed(
        self, ask: Callable[[Cache, int, Collection[str]], list[_Row]], audience: Audience
    ) -> Iterator[tuple[str, _Row]]:
        """Yield what each domain answers, without vocabularies, review queues and notes whose files are gone."""
        for domain, cache in self._questions.readers():
            found = ask(cache, _LISTED + _SPARE + len(domain.configuration), audience.hidden(domain.slug))
            there = on_disk(self._questions.resources, cache, [row[0] for row in found])
            yield from ((domain.slug, row) for row in found if row[0] in there - set(domain.configuration))

    def facets(self, hits: Sequence[SearchHit], used: Sequence[tuple[str, str]], today: date) -> list[Facet]:
        """Return the filters not in use that some of the hits pass, and not all: tags, folders, formats, times."""
        rows = [
            row
            for domain, cache in self._questions.readers()
            for row in facets(cache, [hit.path for hit in hits if hit.domain == domain.slug])
        ]
        paths, all_of = [path for path, *_ in rows], len(rows)
        tags = {fold(value.removeprefix("#")) for name, value in used if name == "tag"}
        return [
            *_counted(
                "tag",
                "#{}",
                (tag for _, names, _ in rows for tag in {*names} if fold(tag) not in tags),
                all_of,
            ),
            *_counted("folder", "{}/", _folders(paths), all_of),
            *([] if "format" in dict(used) else _counted("format", "{}", _formats(paths), all_of)),
            *([] if {"since", "until"} & dict(used).keys() else _past([day for *_, day in rows], today)),
        ]

    def filter_values(self, *, audience: Audience = OWNER) -> dict[str, list[str]]:
        """Return the folders, tags and kinds that most notes have, most frequent first; also what contains them.

        Values that are too long for their fields are left out.
        """
        counts: dict[str, Counter[str]] = {name: Counter() for name in SUGGESTED}
        for domain, cache in self._questions.readers():
            for name, value, count in values_in_use(cache, SUGGESTED, audience.hidden(domain.slug)):
                levels = value.split("/", _MOST_LEVELS) if name in _NESTED else [value]
                for known in accumulate(levels, "{}/{}".format):
                    counts[name][known] += count
        return {name: _most_frequent(counts[name]) for name in SUGGESTED}

    def passage(self, path: str, at: Sequence[int], *, audience: Audience = OWNER) -> Passage:
        """Return the passage that holds a character of a note; `at` is where its sentences begin.

        Raises NoteNotFoundError.
        """
        for chunk in self._questions.node(path, audience=audience).chunks:
            start, end = chunk.range
            if start <= min(at) < end:
                chosen = [one for one in split_sentences(chunk.text) if start + one.start in at]
                return Passage(path=path, lines=list(_lines(path, chunk.text, chosen)))
        return Passage(path=path, lines=[])


def _lines(path: str, text: str, chosen: Sequence[Sentence]) -> Iterator[PassageLine]:
    """Yield the lines of a text that show anything; those with a part of a chosen sentence answer."""
    plain, start = read_passage(path, text), 0
    for line in text.splitlines(keepends=True):
        end = start + len(line)
        if shown := plain.between(start, end):
            yield PassageLine(text=shown, answers=any(one.start < end and start < one.end for one in chosen))
        start = end


def _counted(name: str, label: str, values: Iterable[str], all_of: int) -> list[Facet]:
    """Return the values that most notes have, each as it is written once, whatever its case.

    What all of the notes have is left out: it narrows nothing down.
    """
    written = sorted(values, reverse=True)
    spelled = {fold(value): value for value in written}
    return [
        Facet(filter=name, value=spelled[value], label=label.format(spelled[value]), count=count)
        for value, count in Counter(map(fold, reversed(written))).most_common(_MOST_OF_A_FILTER)
        if _FEWEST_NOTES <= count < all_of
    ]


def _most_frequent(counts: Counter[str]) -> list[str]:
    """Return the values that count most, each once, as it is written most often, whatever its case."""
    spelled: dict[str, str] = {}
    together: Counter[str] = Counter()
    for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        spelled.setdefault(fold(value), value)
        together[fold(value)] += count
    return [spelled[value] for value, _ in together.most_common(_MOST_SUGGESTED)]


def _folders(paths: Sequence[str]) -> Iterator[str]:
    """Return of each path the folder one level below the folder that all of them are in."""
    folders = [path.split("/")[:-1] for path in paths]
    depth = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False)))
    return ("/".join(parts[: depth + 1]) for parts in folders if len(parts) > depth)


def _formats(paths: Sequence[str]) -> Iterator[str]:
    return (form.name for path in paths if (form := format_of(path)))


def _past(days: Sequence[str], today: date) -> Iterator[Facet]:
    """Yield spans of time, each only where it holds more notes than the shorter ones and not all of them."""
    before = 0
    for label, length in _PAST:
        since = (today - timedelta(days=length)).isoformat()
        count = sum(day >= since for day in days)
        if before < count < len(days):
            yield Facet(filter="since", value=since, label=label, count=count)
        before = count
