"""The text of a note as it is on disk, with its sections as the index knows them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from pipelines.cache.cache import SqliteCache
from pipelines.cache.passages import ChunkRow, document_text
from pipelines.errors import (
    NO_NOTE,
    CacheMissingError,
    NoteError,
    NoteNotFoundError,
    NoteTooLargeError,
    NotFoundError,
    UnsafePathError,
)
from pipelines.indexing.parse import is_heavy
from pipelines.indexing.reconcile import rules_of
from pipelines.indexing.status import why
from pipelines.model import Domain
from pipelines.notes.chunk import CJK
from pipelines.notes.encodings import decode
from pipelines.notes.markdown import read_note as read_note_bytes
from pipelines.notes.privacy import may_leave
from pipelines.search.excerpts import Excerpt, read_passage, sentence_at
from pipelines.search.quotes import check_citations
from pipelines.state.evidence import Evidence, EvidenceRecord
from pipelines.state.note_log import NoteEntry, NoteLog
from pipelines.vault import files, paths
from pipelines.vault import files as vault
from pipelines.vault.ignore import IgnoreRules, is_of_other_format
from service.runtime.programs import open_in_window, show_in_folder, shows_folders, window_program
from service.runtime.refusals import standing_of
from service.schemas.notes import LogEntry, NodeAnswer, NoteLogAnswer
from service.schemas.search import Lines, Part, SimilarHit
from service.usecases.search import View
from service.usecases.status import describe_note, on_disk
from service.usecases.titles import TitleSearch


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a note under its headings, outermost first, and its first and last line."""

    headings: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note's text on disk. `stale`: the index has another version, whose sections these are.

    `parts` are the places in a document that is not Markdown.
    """

    path: str
    title: str
    domain: str
    text: str
    tags: tuple[str, ...]
    modified: str | None
    dates: str | None
    stale: bool
    sections: tuple[Section, ...]
    parts: tuple[Part, ...]


def read_note(view: View, path: str) -> NoteText:
    """Return the text of a note that the ledger knows.

    Raises NoteNotFoundError, VaultNotFoundError, and NotFoundError if the file cannot be read.
    """
    path = files.note_key(path)
    for domain, cache in view.readers():
        known = cache.ledger.stat_of([path]).get(path)
        if known and view.audience.sees(domain.slug, path):
            found = _read(view, domain, cache, path, known[0])
            if found is not None:
                return found
    raise view.no_such_note(path)


def _read(view: View, domain: Domain, cache: SqliteCache, path: str, raw: str) -> NoteText | None:
    """Return a note; None if its file may have become private since it was indexed."""
    sha, data = _content(view, cache, path, raw)
    is_judged = view.audience.judged(domain.slug, path, sha)
    if not is_judged and (data is None or not is_public(domain, path, data)):
        return None
    node, row = cache.passages.node(path), cache.ledger.row(path)
    chunks = cache.passages.chunks_of(path)
    return NoteText(
        path=path,
        title=node.title if node else PurePosixPath(path).stem,
        domain=domain.slug,
        text=_text_of(cache, path, data),
        tags=tuple(node.tags) if node else (),
        modified=node.modified if node else None,
        dates=node.dates.said if node else None,
        stale=row is None or row.indexed_hash != sha,
        sections=tuple(_sections(chunks)),
        parts=tuple(_parts(chunks)),
    )


def _content(view: View, cache: SqliteCache, path: str, raw: str) -> tuple[str, bytes | None]:
    """Return the hash and the bytes of a note's file.

    If the vault is on another host, the hash is that of what is indexed, and the bytes are None. Raises
    VaultNotFoundError, and NotFoundError if the file cannot be read.
    """
    resources = view.resources
    try:
        content = files.read(resources.root, raw, resources.settings.max_note_bytes)
    except NoteError as error:
        row = cache.ledger.row(path)
        if resources.is_elsewhere and row and row.indexed_hash:
            return row.indexed_hash, None
        resources.require_present()
        raise NotFoundError(str(error)) from error
    return content.sha256, content.data


def _text_of(cache: SqliteCache, path: str, data: bytes | None) -> str:
    """Return the text of a note: of Markdown the file's if it is here, otherwise what the index has read from it."""
    if data is not None and files.is_markdown(path):
        return decode(data)[0]
    return document_text([one for one in cache.passages.chunks_of(path) if not one.is_names_alone])


def is_public(domain: Domain, path: str, data: bytes) -> bool:
    """Judge a version that the index does not have yet; one that takes long to parse is not shown before it has."""
    if not files.is_markdown(path) or is_heavy(data):
        return False
    note = read_note_bytes(path, data)
    kept = may_leave(
        domain.privacy,
        path=path,
        text=note.text,
        frontmatter=note.frontmatter,
        tags=note.tags,
        warnings=note.warnings,
    )
    return kept is None


def _sections(chunks: Sequence[ChunkRow]) -> list[Section]:
    """Return the sections of a note in order; passages of one section count as one."""
    found: list[Section] = []
    for chunk in chunks:
        headings = tuple(chunk.heading_path)
        if found and found[-1].headings == headings:
            found[-1] = Section(headings, found[-1].first, chunk.last_line)
        elif chunk.start < chunk.end:
            found.append(Section(headings, chunk.first_line, chunk.last_line))
    return found


def _parts(chunks: Sequence[ChunkRow]) -> Iterator[Part]:
    """Yield the places in a document in order; passages of one place count as one."""
    placed = (chunk for chunk in chunks if chunk.place)
    for place, group in groupby(placed, key=lambda chunk: chunk.place.shown() if chunk.place else ""):
        same = list(group)
        yield Part(place=place, lines=Lines(first=same[0].first_line, last=same[-1].last_line))


# What happened to a note, newest first.


MOST_ENTRIES = 1_000


def log_of_note(view: View, path: str, limit: int) -> NoteLogAnswer:
    """Return the latest entries of a note's log, also of a note that is gone.

    Raises NoteNotFoundError for a path that has no entry and is not in the ledger.
    """
    path = files.note_key(path)
    entries = log_entries(view, path, limit)
    if not entries:
        known = view.why(path)
        if known["state"] in NO_NOTE or known["path"] != path:
            raise view.no_such_note(path)
    return NoteLogAnswer(path=path, entries=entries)


def log_entries(view: View, path: str, limit: int) -> list[LogEntry]:
    """Return the latest entries of the log of a path; none if it has no log."""
    found = view.resources.stores.of(NoteLog).of_note(path, limit)
    return [_shown(entry) for entry in found]


def _shown(entry: NoteEntry) -> LogEntry:
    said = asdict(entry)
    other = said.pop("other_path")
    # Only the half of a rename that is the removal has counted no passages.
    was_removed = entry.passages is None
    return LogEntry(
        **said, renamed_to=other if was_removed else None, renamed_from=None if was_removed else other
    )


# The evidence records that name a note, as far as they are about it.


_MOST_QUOTES = 20


@dataclass(frozen=True, slots=True)
class NoteQuote:
    """A quote from the note, and whether the passages that its record stores contain it."""

    text: str
    verified: bool


@dataclass(frozen=True, slots=True)
class NoteEvidence:
    """A record that names the note; times are UTC, ISO 8601.

    `lines` are those of the passage that answered, as they were at the time; None if the note was only cited.
    `curated_at` is None until a result is written back. `quotes` are the first 20.
    """

    id: str
    question: str
    asked_at: str
    curated_at: str | None
    lines: tuple[int, int] | None
    quotes: tuple[NoteQuote, ...]


def evidence_of_note(store: Evidence, path: str, limit: int) -> list[NoteEvidence]:
    """Return up to `limit` records that name a note, newest first."""
    return [_about(path, record) for record in store.naming(path, limit)]


def _about(path: str, record: EvidenceRecord) -> NoteEvidence:
    lines = next(((hit.first_line, hit.last_line) for hit in record.hits if hit.path == path), None)
    cited = [one for one in record.citations if one.path == path and one.quote][:_MOST_QUOTES]
    checks = check_citations([(one.quote, one.text_hashes) for one in cited], record.texts)
    quotes = (
        NoteQuote(str(one.quote), check.reason == "match") for one, check in zip(cited, checks, strict=True)
    )
    return NoteEvidence(record.id, record.question, record.asked_at, record.curated_at, lines, tuple(quotes))


# The file of a note that a request names, whether or not it is indexed yet.


@dataclass(frozen=True, slots=True)
class NoteFile:
    """A file that is indexed, or will be: its domain, its key, and its path on disk, relative to the vault."""

    domain: Domain
    key: str
    raw: str


def find_note_file(view: View, path: str) -> NoteFile:
    """Return the file that a path names.

    Raises NoteNotFoundError for a path that is no note's, is ignored, or that the asker does not see, and
    VaultNotFoundError.
    """
    resources = view.resources
    resources.require_present()
    root, registry, key = resources.root, resources.registry(), files.note_key(path)
    raw, owner, rules = files.path_on_disk(root, key), registry.owner(key), rules_of(root, registry)
    is_there = files.is_note(key) and not rules.for_file(raw) and files.look(root, raw) is not None
    if owner in resources.domains() and is_there and not {"", ".", ".."} & set(key.split("/")):
        found = NoteFile(owner, key, raw)
        if view.audience.sees_all or _is_seen(view, found):
            return found
    elif view.audience.sees_all:
        # Of a folder the indexes know whether there are notes in it; of a file only the disk counts.
        caches = {} if files.is_note(key) else {domain.slug: cache for domain, cache in view.readers()}
        known = why(path, root, registry, rules, caches)
        raise NoteNotFoundError(standing_of(known), known)
    raise view.no_such_note(key)


def _is_seen(view: View, file: NoteFile) -> bool:
    """Say whether the asker may see a file, judged by its content, because the index may not have it yet."""
    resources = view.resources
    try:
        content = files.read(resources.root, file.raw, resources.settings.max_note_bytes)
    except NoteError:
        return False
    try:
        judged = view.audience.judged(file.domain.slug, file.key, content.sha256)
    except CacheMissingError:  # a worker is about to make it
        judged = False
    return file.key not in file.domain.configuration and (
        judged or is_public(file.domain, file.key, content.data)
    )


# A file of the vault as it is: for the pages, which show pictures and open documents.


PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".bmp", ".svg")
"""The ends of the names of pictures that browsers show."""

LARGEST_SERVED = 500_000_000
"""Upper bound on the bytes of a file that is handed out."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file of the vault, open for reading, with its size in bytes."""

    name: str
    file: BinaryIO
    size: int


def open_file(view: View, path: str) -> OpenFile:
    """Open a file of the vault that is a note, or that is neither hidden nor ignored, without following a link.

    Only who sees all notes may have files: whether a picture is private, the index does not know. A file of a format
    that its domain does not index is no ignored one. Raises NoteNotFoundError, VaultNotFoundError,
    NoteTooLargeError, NotFoundError if the file cannot be read.
    """
    resources, key = view.resources, files.note_key(path)
    resources.require_present()
    root = resources.root
    rules = rules_of(root, resources.registry())
    raw = _raw_of(view, rules, key) if view.audience.sees_all else None
    if raw is None:
        raise view.no_such_note(key)
    try:
        file = os.fdopen(paths.open_file(root, raw), "rb")
    except FileNotFoundError as error:
        raise view.no_such_note(key) from error
    except (OSError, UnsafePathError) as error:
        raise NotFoundError(
            f"{key!r} cannot be opened: it is a link, no regular file, or unreadable"
        ) from error
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST_SERVED:
        file.close()
        raise NoteTooLargeError(
            f"{key!r} has {size / 1e6:,.0f} MB; files of up to {LARGEST_SERVED / 1e6:,.0f} MB are opened here,"
            " and larger ones from their folder"
        )
    return OpenFile(key.rpartition("/")[2], file, size)


def _raw_of(view: View, rules: IgnoreRules, key: str) -> str | None:
    """Return the path on disk of a note, or of a file that is neither hidden nor ignored; None for any other."""
    for _, cache in view.readers():
        if known := cache.ledger.stat_of([key]).get(key):
            return known[0]
    if files.is_hidden(key) or {"", ".", ".."} & set(key.split("/")):
        return None
    raw = files.path_on_disk(view.resources.root, key)
    rule = rules.for_file(raw)
    return raw if rule is None or is_of_other_format(rule) else None


# A note's file in a program of the machine that the service runs on.


@dataclass(frozen=True, slots=True)
class Programs:
    """What opens a file without a terminal: `opens` names the program, `folder` says if a folder can be shown."""

    opens: str | None
    folder: bool


def programs_for(path: str) -> Programs:
    """Return the programs for a note's file."""
    return Programs(window_program(path), shows_folders())


def open_in_program(view: View, path: str, line: int) -> None:
    """Open a note that the ledger knows in the program that `programs_for` names.

    Raises NoteNotFoundError, VaultNotFoundError, UnsafePathError, ConfigurationError where the program does not.
    """
    open_in_window(view.resources.root, _known(view, path)[0], line)


def open_folder_of(view: View, path: str) -> None:
    """Show a note that the ledger knows in its folder. Raises as `open_in_program`."""
    show_in_folder(view.resources.root, _known(view, path)[0])


def _known(view: View, path: str) -> tuple[str, str, Domain, SqliteCache]:
    """Return the key of a note that the ledger knows, its path on disk, its domain, and the cache.

    Raises NoteNotFoundError.
    """
    key = files.note_key(path)
    for domain, cache in view.readers():
        known = cache.ledger.stat_of([key]).get(key)
        if known and view.audience.sees(domain.slug, key):
            return key, known[0], domain, cache
    raise view.no_such_note(key)


# A note as a person reads it: its text on the disk, and what the index knows about it.


_SIMILAR = 6
_EVIDENCE = 5
_MOST_QUOTED = 50
_MOST_MENTIONS = 20
_MOST_PASSAGES = 500  # that have the words of a name: not all have it as it is written
_SHORTEST_NAME, _SHORTEST_CJK = 4, 2
_CJK_LETTER = re.compile(f"[{CJK}]")


@dataclass(frozen=True, slots=True)
class LinkedNote:
    """A note at the other end of links: how many there are, on which line the first is, and their types in words.

    `said` is the sentence around the first link, which is marked; None if it is not in the text of a passage.
    """

    path: str
    title: str
    line: int
    count: int
    relations: tuple[str, ...]
    said: Excerpt | None = None


@dataclass(frozen=True, slots=True)
class Mention:
    """A note that has a name of another in its text and does not link to it: the sentence, and its line."""

    path: str
    title: str
    line: int
    said: Excerpt


@dataclass(frozen=True, slots=True)
class OpenNote:
    """A note that is open before a reader.

    `markdown`: it is Markdown; `text` is empty if not. `heavy`: it takes long to parse. `meant`: the file that each
    target of its links means, or None; `documents`: those of these files that are not Markdown and are in the index;
    `pictures`: those that may be shown. `node` is None while nothing of the note is indexed. `links` are those of a
    document that is not Markdown, and of Markdown those that have a type.
    """

    path: str
    title: str
    text: str
    markdown: bool
    heavy: bool
    meant: dict[str, str | None]
    documents: frozenset[str]
    pictures: frozenset[str]
    standing: dict[str, Any]
    node: NodeAnswer | None
    links: list[LinkedNote]
    backlinks: list[LinkedNote]
    similar: list[SimilarHit]
    evidence: list[NoteEvidence]


class Reader:
    """Opens notes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._names = TitleSearch(view)

    def open(self, path: str) -> OpenNote:
        """Return a note that the ledger knows.

        Raises NoteNotFoundError, VaultNotFoundError, and NotFoundError if the file cannot be read.

        Who does not see all notes gets no evidence records, whose questions are the owner's.
        """
        return self._open(*_known(self._view, path))

    def _open(self, path: str, raw: str, domain: Domain, cache: SqliteCache) -> OpenNote:
        sha, data = _content(self._view, cache, path, raw)
        if not self._view.audience.sees_all and not self._view.audience.judged(domain.slug, path, sha):
            raise self._view.no_such_note(path)
        markdown = vault.is_markdown(path)
        text = _text_of(cache, path, data) if markdown else ""
        meant = {link.target: link.meant for link in cache.graph.links_of(path)}
        named = self._view.audience.named({file for file in meant.values() if file is not None})
        node = describe_note(domain, cache, path, self._view.audience, self._view.backlinks)
        return OpenNote(
            path=path,
            title=node.title if node else PurePosixPath(path).stem,
            text=text,
            markdown=markdown,
            heavy=markdown and is_heavy(data or text.encode()),
            meant={written: file if file in named else None for written, file in meant.items()},
            documents=self._documents(named),
            pictures=self._pictures(named),
            standing=self._view.why(path),
            node=node,
            links=self._linked(link for link in node.outlinks if link["type"] or not markdown)
            if node
            else [],
            backlinks=self._quoted(self._linked(node.backlinks), node.backlinks) if node else [],
            similar=self._names.similar(path, _SIMILAR).results if node else [],
            evidence=evidence_of_note(self._view.resources.stores.of(Evidence), path, _EVIDENCE)
            if self._view.audience.sees_all
            else [],
        )

    def mentions(self, path: str) -> list[Mention]:
        """Return notes that have the title or an alias of a note as a phrase in their text, and do not link to it.

        The newest first, at most 20, each once. A name of fewer than four characters, or two of CJK, is in too many.
        Raises NoteNotFoundError.
        """
        node = self._view.node(path)
        names = [name for name in dict.fromkeys((node.title, *node.aliases)) if _is_telling(name)]
        pattern = re.compile("|".join(map(_phrase, names)), re.IGNORECASE)
        linking = {link["path"] for link in self._view.backlinks(path)}
        found: dict[str, Mention] = {}
        for domain, cache in self._view.readers() if names else ():
            without = {path, *linking, *domain.configuration, *self._view.audience.hidden(domain.slug)}
            rows = cache.search.texts_with(names, without, _MOST_PASSAGES)
            there = on_disk(self._view.resources, cache, list({row[0] for row in rows}))
            titles = {one.path: one.title for one in cache.graph.nodes(there)}
            for other, text, first_line in rows:
                if other in titles and other not in found and (match := _in_words(pattern, other, text)):
                    line = first_line + text.count("\n", 0, match.start())
                    said = sentence_at(other, text, match.start(), [match[0]])
                    found[other] = Mention(other, titles[other], line, said)
        return list(found.values())[:_MOST_MENTIONS]

    def _quoted(self, linked: Sequence[LinkedNote], links: Iterable[Mapping[str, Any]]) -> list[LinkedNote]:
        """Return linked notes with the sentence around the first link of each, as far as a page shows them."""
        written = {(link["path"], link["line"]): str(link["text"]) for link in links}
        lines = {one.path: one.line for one in linked[:_MOST_QUOTED]}
        texts: dict[str, tuple[str, int]] = {}
        for _, cache in self._view.readers() if lines else ():
            texts |= cache.passages.texts_on_lines(lines)
        return [
            replace(one, said=_around_link(one, *texts[one.path], written.get((one.path, one.line), "")))
            if one.path in texts and one.path in lines
            else one
            for one in linked
        ]

    def _documents(self, files: Collection[str]) -> frozenset[str]:
        """Return the files beside Markdown that a ledger knows."""
        others = [file for file in files if not vault.is_markdown(file)]
        return frozenset(file for _, cache in self._view.readers() for file in cache.ledger.stat_of(others))

    def _pictures(self, named: Collection[str]) -> frozenset[str]:
        """Return the pictures that `open_file` opens; none for who does not see all notes."""
        resources = self._view.resources
        found = (
            [one for one in named if one.lower().endswith(PICTURES)] if self._view.audience.sees_all else []
        )
        rules = rules_of(resources.root, resources.registry()) if found else None
        raws = {one: _raw_of(self._view, rules, one) for one in found} if rules else {}
        return frozenset(one for one, raw in raws.items() if raw and vault.look(resources.root, raw))

    def _linked(self, links: Iterable[Mapping[str, Any]]) -> list[LinkedNote]:
        """Return each note at the other end of these links once, by its title, without files that are no notes."""
        lines: dict[str, list[int]] = {}
        counts: dict[str, int] = {}
        relations: dict[str, dict[str, None]] = {}
        for link in links:
            lines.setdefault(link["path"], []).append(link["line"])
            counts[link["path"]] = counts.get(link["path"], 0) + link["count"]
            relations.setdefault(link["path"], {}).update(dict.fromkeys(filter(None, [link["relation"]])))
        titles = {
            note.path: note.title for _, cache in self._view.readers() for note in cache.graph.nodes(lines)
        }
        found = [
            LinkedNote(path, title, min(lines[path]), counts[path], tuple(relations[path]))
            for path, title in titles.items()
        ]
        return sorted(found, key=lambda link: (link.title.casefold(), link.path))


def _around_link(link: LinkedNote, text: str, first_line: int, written: str) -> Excerpt:
    """Return the sentence around a link of a passage."""
    before = text.split("\n")[: link.line - first_line]
    start = sum(len(line) + 1 for line in before)
    end = text.find("\n", start)
    at = text.find(written, start, end if end >= 0 else len(text))
    return sentence_at(link.path, text, max(at, start), [written])


def _in_words(pattern: re.Pattern[str], path: str, text: str) -> re.Match[str] | None:
    """Return the first match in the words of a passage, and not in a link, an address or a tag."""
    matches = list(pattern.finditer(text))
    passage = read_passage(path, text) if matches else None
    return next((one for one in matches if passage and passage.says(*one.span())), None)


def _is_telling(name: str) -> bool:
    return len(name) >= _SHORTEST_NAME or len(_CJK_LETTER.findall(name)) >= _SHORTEST_CJK


def _phrase(name: str) -> str:
    """Return the pattern of a name in a text: whole words, and between them any white space."""
    words = r"\s+".join(map(re.escape, name.split()))
    begins = r"(?<!\w)" if name[:1].isalnum() and not _CJK_LETTER.match(name[0]) else ""
    ends = r"(?!\w)" if name[-1:].isalnum() and not _CJK_LETTER.match(name[-1]) else ""
    return f"{begins}{words}{ends}"
