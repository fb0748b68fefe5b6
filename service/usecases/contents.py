"""What the vault contains: by folder, by tag, and by the time of the last change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from pipelines.cache import graph, notes
from pipelines.cache.filters import facets
from pipelines.filters import Filters, fold, parse_filters
from service.usecases.audience import OWNER, Audience
from service.usecases.listing import list_notes
from service.usecases.notes import on_disk
from service.usecases.schemas.listing import ListedNote
from service.usecases.search import NO_FILTERS, SearchService

_SPARE = 20  # notes whose files may be gone


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
    """A note that links to another, and the link as written in it."""

    path: str
    title: str
    domain: str
    text: str
    line: int


def in_folder(
    questions: SearchService,
    folder: str | None,
    filters: Filters = NO_FILTERS,
    *,
    audience: Audience = OWNER,
) -> Contents:
    """Return the subfolders of a folder (or of the vault), and the notes directly in it, that pass.

    Raises DomainNotFoundError, FilterError.
    """
    wanted = (folder or "").strip("/")
    if wanted:
        filters = replace(filters, scopes=(*filters.scopes, parse_filters([("folder", wanted)])))
    depth = wanted.count("/") + 1 if wanted else 0
    folders: Counter[str] = Counter()
    here = []
    for note in list_notes(questions, filters, "path", audience=audience).notes:
        parts = note.path.split("/")[:-1]
        if len(parts) > depth:
            folders["/".join(parts[: depth + 1])] += 1
        else:
            here.append(note)
    return Contents(sorted(folders.items()), here)


def folders(questions: SearchService, *, audience: Audience = OWNER) -> list[str]:
    """Return all folders that hold notes, and those that hold them."""
    found: set[str] = set()
    for note in list_notes(questions, NO_FILTERS, "path", audience=audience).notes:
        parts = note.path.split("/")[:-1]
        found.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted(found)


def with_tag(
    questions: SearchService, tag: str | None, filters: Filters = NO_FILTERS, *, audience: Audience = OWNER
) -> Contents:
    """Return the notes with a tag that pass, or all tags of those that pass, the most frequent first.

    Raises DomainNotFoundError, FilterError.
    """
    if tag:
        tagged = replace(filters, tags=(*filters.tags, *parse_filters([("tag", tag)]).tags))
        return Contents([], list_notes(questions, tagged, "date", audience=audience).notes)
    tagged = replace(filters, has=(*filters.has, "tag"))
    listed = list_notes(questions, tagged, "path", audience=audience).notes
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for domain, cache in questions.readers():
        for _, tags, _ in facets(cache, [note.path for note in listed if note.domain == domain.slug]):
            for one in {fold(name): name for name in tags}.items():
                spelled.setdefault(*one)
                counts[one[0]] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Contents([(spelled[key], count) for key, count in ordered], [])


def recently_changed(
    questions: SearchService, most: int, filters: Filters = NO_FILTERS, *, audience: Audience = OWNER
) -> list[Changed]:
    """Return at most `most` notes that pass, whose files changed last, newest first.

    Raises DomainNotFoundError, FilterError.
    """
    passing = _passing(questions, filters, audience)
    found: list[Changed] = []
    for domain, cache in questions.readers():
        hidden = audience.hidden(domain.slug) | set(domain.configuration)
        if passing is not None:
            hidden |= notes.note_names(cache).keys() - passing
        asked = most + _SPARE
        while True:
            rows = notes.recently_changed(cache, asked, hidden)
            there = on_disk(questions.resources, cache, [path for path, *_ in rows])
            if len(there) >= most or len(rows) < asked:
                break
            asked *= 2  # the files of many are gone
        found += [Changed(path, title, domain.slug, at) for path, title, at in rows if path in there]
    return sorted(found, key=lambda note: note.at, reverse=True)[:most]


def links_to(
    questions: SearchService, path: str, filters: Filters = NO_FILTERS, *, audience: Audience = OWNER
) -> list[LinkTo]:
    """Return the notes of any domain that link to a note and pass, each once, with the first link.

    Raises DomainNotFoundError, FilterError.
    """
    passing = _passing(questions, filters, audience)
    found: list[LinkTo] = []
    for domain, cache in questions.readers():
        hidden = audience.hidden(domain.slug)
        links: dict[str, graph.Neighbour] = {}
        for link in graph.backlinks(cache, path):
            links.setdefault(link.path, link)
        titles = {node.path: node.title for node in graph.nodes(cache, list(links))}
        found += [
            LinkTo(one.path, titles.get(one.path, one.path), domain.slug, one.text, one.line)
            for one in links.values()
            if one.path not in hidden and (passing is None or one.path in passing)
        ]
    return sorted(found, key=lambda link: (link.title.casefold(), link.path))


def _passing(questions: SearchService, filters: Filters, audience: Audience) -> set[str] | None:
    """Return the paths of the notes that pass; None: all do."""
    if filters == NO_FILTERS:
        return None
    return {note.path for note in list_notes(questions, filters, "path", audience=audience).notes}
