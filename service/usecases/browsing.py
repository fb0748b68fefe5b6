"""What the vault contains: by folder, by tag, and by the time of the last change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from itertools import accumulate, takewhile
from typing import Literal, TypeVar

from pipelines.cache import graph
from pipelines.cache.cache import SqliteCache
from pipelines.cache.filters import DatedNote
from pipelines.filters import NO_FILTERS, Filters, fold, parse_filters, require_no_question
from pipelines.formats import format_of
from pipelines.notes.links import types_of
from pipelines.search.excerpts import Sentence, read_passage, split_sentences
from pipelines.search.spelling import unknown_values
from service.schemas.notes import (
    Facet,
    ListAnswer,
    ListedNote,
    PassageLine,
    PassageText,
    Start,
    SuggestedNote,
)
from service.schemas.search import SearchHit
from service.usecases.search import View
from service.usecases.status import on_disk

# The notes that pass filters, all of them, without a question.


Order = Literal["path", "date"]


def list_notes(view: View, filters: Filters, order: Order, *, checked: bool = True) -> ListAnswer:
    """Return the notes that pass, by path or the newest first, without those whose file is gone.

    Unless `checked`, those are left out that the index knows to be gone: the files of 100,000 notes take seconds.
    Raises DomainNotFoundError, FilterError.
    """
    require_no_question(filters)
    found, configuration = [], []
    for slug in filters.domains or (None,):
        for domain, cache in view.readers(slug):
            if filters.name_communities:
                view.audience.require_communities(domain.slug)
            rows = cache.filters.matching_notes(filters, view.audience.hidden(domain.slug))
            paths = [row.path for row in rows]
            there = on_disk(view.resources, cache, paths) if checked else set(paths)
            configuration += [path for path in domain.configuration if path in there]
            found += [
                ListedNote(
                    path=row.path,
                    title=row.title,
                    domain=domain.slug,
                    kind=row.kind,
                    date=row.day,
                    chunks=row.chunks,
                    warnings=list(row.warnings),
                )
                for row in rows
                if row.path in there and row.path not in domain.configuration
            ]
    unknown = [] if found else unknown_values(_asked(view, filters), filters)
    found.sort(key=lambda note: note.path)
    if order == "date":
        found.sort(key=lambda note: note.date, reverse=True)
    return ListAnswer(
        notes=found,
        count=len(found),
        configuration=sorted(configuration),
        reason="; ".join(unknown) or None,
    )


def _asked(view: View, filters: Filters) -> Iterator[tuple[SqliteCache, Collection[str]]]:
    """Yield the caches of the domains that the filters choose, each with the paths hidden from the asker."""
    for slug in filters.domains or (None,):
        for domain, cache in view.readers(slug):
            yield cache, view.audience.hidden(domain.slug)


# What the search page offers besides answers: notes to begin with, filters that narrow down, whole passages.


_LISTED = 5
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

    def __init__(self, view: View) -> None:
        self._view = view
        self._topics: tuple[str, list[str]] = ("", [])
        """The generation of the index at which the topics were found, and they."""

    def topics(self, generation: str) -> list[str]:
        """Return up to three headings or titles that read like topics, of different notes: those most linked first.

        They are found once for each generation of the index, among few notes.
        """
        if self._topics[0] != generation:
            self._topics = generation, self._find_topics()
        return self._topics[1]

    def _find_topics(self) -> list[str]:
        notes = dict.fromkeys(
            (slug, path, title)
            for ask in (
                lambda cache, most, hidden: cache.graph.most_linked(most, hidden),
                lambda cache, most, hidden: cache.notes.recently_changed(most, hidden),
            )
            for slug, (path, title, _) in self._listed(ask)
        )
        best: list[tuple[int, int, str]] = []
        for domain, cache in self._view.readers():
            own = [path for slug, path, _ in notes if slug == domain.slug]
            above: dict[str, list[str]] = {}
            for path, headings in cache.notes.headings(own, _CHUNKS_READ):
                above.setdefault(path, []).extend(headings[-1:])
            for place, (slug, path, title) in enumerate(notes):
                if slug == domain.slug:
                    worth, text = max(
                        ((_topical(text), text) for text in (title, *above.get(path, ()))),
                        key=lambda one: one[0],
                    )
                    best.append((-worth, place, text))
        spelled = {fold(text): text for worth, _, text in sorted(best, reverse=True) if worth}
        return list(reversed(spelled.values()))[:_MOST_TOPICS]

    def start(self) -> Start:
        """Return the notes that changed last, and those that most notes link to."""
        recent = [
            SuggestedNote(path=path, title=title, domain=slug, changed=changed)
            for slug, (path, title, changed) in self._listed(
                lambda cache, most, hidden: cache.notes.recently_changed(most, hidden)
            )
        ]
        best = list(self._listed(lambda cache, most, hidden: cache.graph.most_linked(most, hidden)))
        # The notes of its own domain are counted already; those of other domains are added.
        links = Counter({path: count for _, (path, _, count) in best})
        for domain, cache in self._view.readers():
            others = [path for slug, (path, *_) in best if slug != domain.slug]
            links.update(cache.graph.linking(others, self._view.audience.hidden(domain.slug)))
        linked = [
            SuggestedNote(path=path, title=title, domain=slug, links=links[path])
            for slug, (path, title, _) in best
        ]
        recent.sort(key=lambda note: note.changed or "", reverse=True)
        linked.sort(key=lambda note: -(note.links or 0))
        return Start(recent=recent[:_LISTED], most_linked=linked[:_LISTED])

    def _listed(
        self, ask: Callable[[SqliteCache, int, Collection[str]], list[_Row]]
    ) -> Iterator[tuple[str, _Row]]:
        """Yield what each domain answers, without vocabularies, review queues and notes whose files are gone."""
        for domain, cache in self._view.readers():
            found = ask(
                cache, _LISTED + _SPARE + len(domain.configuration), self._view.audience.hidden(domain.slug)
            )
            there = on_disk(self._view.resources, cache, [row[0] for row in found])
            yield from ((domain.slug, row) for row in found if row[0] in there - set(domain.configuration))

    def facets(self, hits: Sequence[SearchHit], used: Sequence[tuple[str, str]], today: date) -> list[Facet]:
        """Return the filters not in use that some of the hits pass, and not all: tags, folders, formats, times."""
        rows = [
            row
            for domain, cache in self._view.readers()
            for row in cache.filters.facets([hit.path for hit in hits if hit.domain == domain.slug])
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

    def filter_values(self) -> dict[str, list[str]]:
        """Return the folders, tags and kinds that most notes have, most frequent first; also what contains them.

        Values that are too long for their fields are left out.
        """
        counts: dict[str, Counter[str]] = {name: Counter() for name in SUGGESTED}
        for domain, cache in self._view.readers():
            for name, value, count in cache.filters.values_in_use(
                SUGGESTED, self._view.audience.hidden(domain.slug)
            ):
                levels = value.split("/", _MOST_LEVELS) if name in _NESTED else [value]
                for known in accumulate(levels, "{}/{}".format):
                    counts[name][known] += count
        return {name: _most_frequent(counts[name]) for name in SUGGESTED}

    def passage(self, path: str, at: Sequence[int]) -> PassageText:
        """Return the passage that holds a character of a note; `at` is where its sentences begin.

        Raises NoteNotFoundError.
        """
        for chunk in self._view.node(path).chunks:
            start, end = chunk.range
            if start <= min(at) < end:
                chosen = [one for one in split_sentences(chunk.text) if start + one.start in at]
                return PassageText(path=path, lines=list(_lines(path, chunk.text, chosen)))
        return PassageText(path=path, lines=[])


_MOST_TOPICS = 3
_CHUNKS_READ = 20
_TOPIC = re.compile(r"[^\W\d_][^\n|<>{}\[\]#`*=/\\_]{2,58}[\w?!)”\"'。？]$")
_DATED = re.compile(r"\d{4}|\d+[./-]\d+|\.\w{2,4}$|\s\d+$|:$|[.;:]\s")
# Headings that say what part of a note it is, not what it is about.
_PARTS = re.compile(
    r"(see also|table of contents|further reading|related notes?|open questions?|next steps|action items|to ?do"
    r"|release notes|getting started|quick start|known issues|pull requests?|how to use|read ?me)\b",
    re.IGNORECASE,
)
_FEWEST_WORDS, _MOST_WORDS, _TELLING_WORDS = 2, 8, 3


def _topical(text: str) -> int:
    """Return how much a heading reads like a question that its vault answers: 0 is not at all."""
    if not _TOPIC.match(text) or _DATED.search(text) or _PARTS.match(text):
        return 0
    if text.endswith(("?", "？")):
        return 3
    words = len(text) // 2 if any("\u3040" <= letter <= "\uffdc" for letter in text) else len(text.split())
    return 0 if not _FEWEST_WORDS <= words <= _MOST_WORDS else 1 + (words >= _TELLING_WORDS)


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


_SPARE_LISTED = 20  # notes whose files may be gone


@dataclass(frozen=True, slots=True)
class Contents:
    """Folders or tags with their numbers of notes, and notes."""

    groups: list[tuple[str, int]]
    notes: list[ListedNote]


@dataclass(frozen=True, slots=True)
class Changed:
    """A note, and when its file changed last."""

    path: str
    title: str
    domain: str
    at: str


@dataclass(frozen=True, slots=True)
class LinkTo:
    """A note that links to another, the link as written in it, and its type as seen from the other."""

    path: str
    title: str
    domain: str
    text: str
    line: int
    type: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A note as a page lists it, with the day of its creation."""

    path: str
    title: str
    domain: str
    date: str


@dataclass(frozen=True, slots=True)
class FolderView:
    """A part of the vault, in numbers of notes: below it, directly in it, in its subfolders, and with what they have.

    `spelled` has the folder itself in each domain, whatever the case in which it was asked for.
    """

    below: int = 0
    here: int = 0
    groups: list[tuple[str, int]] = field(default_factory=list)
    tags: list[tuple[str, int]] = field(default_factory=list)
    formats: list[tuple[str, int]] = field(default_factory=list)
    kinds: list[tuple[str, int]] = field(default_factory=list)
    spelled: dict[str, list[str]] = field(default_factory=dict)


def in_folder(
    view: View,
    folder: str | None,
    filters: Filters = NO_FILTERS,
) -> Contents:
    """Return the subfolders of a folder (or of the vault), and the notes directly in it, that pass.

    Raises DomainNotFoundError, FilterError.
    """
    wanted = (folder or "").strip("/")
    return _contents(_below(view, wanted, filters), wanted)


def part_of(view: View, folder: str | None, filters: Filters = NO_FILTERS) -> FolderView:
    """Count a folder (or the vault) and what can narrow it down, as far as its notes pass.

    Also those count whose files are gone since they were indexed. Raises DomainNotFoundError, FilterError.
    """
    wanted = (folder or "").strip("/")
    depth = wanted.count("/") + 1 if wanted else 0
    notes, groups = 0, Counter[str]()
    tags: list[tuple[frozenset[str], int]] = []
    formats, kinds = Counter[str](), Counter[str]()
    here: dict[str, Counter[str]] = {}
    for slug, cache, hidden in _chosen(view, filters):
        found = cache.filters.count_notes(_within(filters, wanted), hidden, all_levels=bool(wanted))
        notes += found.notes
        tags += found.tags
        formats.update(found.formats)
        kinds.update(found.kinds)
        here[slug] = Counter()
        for path, count in found.folders.items():
            parts = path.split("/")[:-1]
            if len(parts) > depth:
                groups["/".join(parts[: depth + 1])] += count
            else:
                here[slug][path] += count
    return FolderView(
        below=notes,
        here=sum(count.total() for count in here.values()),
        groups=sorted(groups.items()),
        tags=_most_used(tags),
        formats=formats.most_common(),
        kinds=kinds.most_common(),
        spelled={slug: sorted(folders) for slug, folders in here.items()},
    )


def notes_directly_in(view: View, part: FolderView, offset: int, limit: int) -> list[Entry]:
    """Return some of the notes directly in a folder that are there, by path; `part` is the folder without filters."""
    asks = [
        (slug, partial(cache.filters.notes_in, folder, hidden))
        for slug, cache, hidden in _chosen(view, NO_FILTERS)
        for folder in part.spelled.get(slug, ())
    ]
    return _some(view, asks, offset, limit, newest=False)


def newest_notes(view: View, folder: str | None, filters: Filters, offset: int, limit: int) -> list[Entry]:
    """Return some of the notes in a folder (or the vault) that pass and are there, the newest first.

    Raises DomainNotFoundError, FilterError.
    """
    within = _within(filters, (folder or "").strip("/"))
    asks = [
        (slug, partial(cache.filters.newest_notes, within, hidden))
        for slug, cache, hidden in _chosen(view, filters)
    ]
    return _some(view, asks, offset, limit, newest=True)


def _chosen(view: View, filters: Filters) -> Iterator[tuple[str, SqliteCache, Collection[str]]]:
    """Yield the domains that the filters choose, with their caches and the paths that no list has."""
    require_no_question(filters)
    for slug in filters.domains or (None,):
        for domain, cache in view.readers(slug):
            if filters.name_communities:
                view.audience.require_communities(domain.slug)
            yield domain.slug, cache, view.audience.hidden(domain.slug) | set(domain.configuration)


def _some(
    view: View,
    asks: Sequence[tuple[str, Callable[[int, int], list[DatedNote]]]],
    offset: int,
    limit: int,
    *,
    newest: bool,
) -> list[Entry]:
    """Return a part of what several domains list in the same order, without the notes whose files are gone."""
    first = offset if len(asks) == 1 else 0
    found = [
        Entry(row.path, row.title, slug, row.day)
        for slug, ask in asks
        for row in ask(offset + limit - first, first)
    ]
    found.sort(key=lambda note: note.path)
    if newest:
        found.sort(key=lambda note: note.date, reverse=True)
    found = found[offset - first : offset - first + limit]
    there: set[tuple[str, str]] = set()
    for domain, cache in view.readers():
        paths = [note.path for note in found if note.domain == domain.slug]
        there.update((domain.slug, path) for path in on_disk(view.resources, cache, paths))
    return [note for note in found if (note.domain, note.path) in there]


def _within(filters: Filters, folder: str) -> Filters:
    if not folder:
        return filters
    return replace(filters, scopes=(*filters.scopes, parse_filters([("folder", folder)])))


def _below(view: View, folder: str, filters: Filters) -> list[ListedNote]:
    return list_notes(view, _within(filters, folder), "path").notes


def _contents(below: Sequence[ListedNote], folder: str) -> Contents:
    depth = folder.count("/") + 1 if folder else 0
    folders: Counter[str] = Counter()
    here = []
    for note in below:
        parts = note.path.split("/")[:-1]
        if len(parts) > depth:
            folders["/".join(parts[: depth + 1])] += 1
        else:
            here.append(note)
    return Contents(sorted(folders.items()), here)


def folders(view: View) -> list[str]:
    """Return all folders that hold notes, and those that hold them."""
    found: set[str] = set()
    for note in list_notes(view, NO_FILTERS, "path").notes:
        parts = note.path.split("/")[:-1]
        found.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted(found)


def with_tag(view: View, tag: str | None, filters: Filters = NO_FILTERS) -> Contents:
    """Return the notes with a tag that pass, or all tags of those that pass, the most frequent first.

    Raises DomainNotFoundError, FilterError.
    """
    if tag:
        tagged = replace(filters, tags=(*filters.tags, *parse_filters([("tag", tag)]).tags))
        return Contents([], list_notes(view, tagged, "date").notes)
    tagged = replace(filters, has=(*filters.has, "tag"))
    return Contents(_tags_of(view, list_notes(view, tagged, "path").notes), [])


def _tags_of(view: View, listed: Sequence[ListedNote]) -> list[tuple[str, int]]:
    """Return the tags of notes, the most frequent first, each as it is written once, whatever its case."""
    return _most_used(
        (tags, 1)
        for domain, cache in view.readers()
        for _, tags, _ in cache.filters.facets([note.path for note in listed if note.domain == domain.slug])
    )


def _most_used(tags_of_notes: Iterable[tuple[Collection[str], int]]) -> list[tuple[str, int]]:
    """Return the tags of lists, each with its number of notes, as `_tags_of` does: the most frequent first."""
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for tags, notes in tags_of_notes:
        for one in {fold(name): name for name in tags}.items():
            spelled.setdefault(*one)
            counts[one[0]] += notes
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(spelled[key], count) for key, count in ordered]


def recently_changed(view: View, most: int, filters: Filters = NO_FILTERS) -> list[Changed]:
    """Return at most `most` notes that pass, whose files changed last, newest first.

    Raises DomainNotFoundError, FilterError.
    """
    passing = _passing(view, filters)
    found: list[Changed] = []
    for domain, cache in view.readers():
        hidden = view.audience.hidden(domain.slug) | set(domain.configuration)
        if passing is not None:
            hidden |= cache.notes.names().keys() - passing
        asked = most + _SPARE_LISTED
        while True:
            rows = cache.notes.recently_changed(asked, hidden)
            there = on_disk(view.resources, cache, [path for path, *_ in rows])
            if len(there) >= most or len(rows) < asked:
                break
            asked *= 2  # the files of many are gone
        found += [Changed(path, title, domain.slug, at) for path, title, at in rows if path in there]
    return sorted(found, key=lambda note: note.at, reverse=True)[:most]


def links_to(
    view: View, path: str, filters: Filters = NO_FILTERS, types: Collection[str] = ()
) -> list[LinkTo]:
    """Return the notes of any domain that link to a note and pass, each once, with the first link that has a type.

    With `types`, only links of these. Raises DomainNotFoundError, FilterError.
    """
    passing, wanted = _passing(view, filters), types_of(types)
    found: list[LinkTo] = []
    for domain, cache in view.readers():
        hidden, back = view.audience.hidden(domain.slug), domain.relations.back
        links: dict[str, graph.Neighbour] = {}
        for link in sorted(cache.graph.backlinks(path), key=lambda link: link.type is None):
            if not wanted or back(link.type) in wanted:
                links.setdefault(link.path, link)
        titles = {node.path: node.title for node in cache.graph.nodes(list(links))}
        found += [
            LinkTo(one.path, titles.get(one.path, one.path), domain.slug, one.text, one.line, back(one.type))
            for one in links.values()
            if one.path not in hidden and (passing is None or one.path in passing)
        ]
    return sorted(found, key=lambda link: (link.title.casefold(), link.path))


def _passing(view: View, filters: Filters) -> set[str] | None:
    """Return the paths of the notes that pass; None: all do."""
    if filters == NO_FILTERS:
        return None
    return {note.path for note in list_notes(view, filters, "path").notes}
