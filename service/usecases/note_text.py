"""The text of a note as it is on disk, with its sections as the index knows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath

from pipelines.cache import passages
from pipelines.cache.cache import Cache
from pipelines.errors import NoteError, NotFoundError
from pipelines.indexing.parse import is_heavy
from pipelines.model import Domain
from pipelines.notes.encodings import decode
from pipelines.notes.markdown import read_note as read_note_bytes
from pipelines.notes.privacy import may_leave
from pipelines.vault import files
from service.usecases.audience import OWNER, Audience
from service.usecases.schemas.locator import Lines, Part
from service.usecases.search import SearchService


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


def read_note(questions: SearchService, path: str, audience: Audience = OWNER) -> NoteText:
    """Return the text of a note that the ledger knows.

    Raises NoteNotFoundError, VaultNotFoundError, and NotFoundError if the file cannot be read.
    """
    path = files.note_key(path)
    for domain, cache in questions.readers():
        known = cache.ledger.stat_of([path]).get(path)
        if known and audience.sees(domain.slug, path):
            found = _read(questions, domain, cache, path, known[0], audience)
            if found is not None:
                return found
    raise questions.no_such_note(path, audience)


def _read(
    questions: SearchService, domain: Domain, cache: Cache, path: str, raw: str, audience: Audience
) -> NoteText | None:
    """Return a note; None if its file may have become private since it was indexed."""
    resources = questions.resources
    try:
        content = files.read(resources.root, raw, resources.settings.max_note_bytes)
    except NoteError as error:
        resources.require_present()
        raise NotFoundError(str(error)) from error
    if not (audience.judged(domain.slug, path, content.sha256) or is_public(domain, path, content.data)):
        return None
    node, row = passages.node(cache, path), cache.ledger.row(path)
    chunks = passages.chunks_of(cache, path)
    return NoteText(
        path=path,
        title=node.title if node else PurePosixPath(path).stem,
        domain=domain.slug,
        text=text_of(cache, path, content.data),
        tags=tuple(node.tags) if node else (),
        modified=node.modified if node else None,
        dates=node.dates.said if node else None,
        stale=row is None or row.indexed_hash != content.sha256,
        sections=tuple(_sections(chunks)),
        parts=tuple(_parts(chunks)),
    )


def text_of(cache: Cache, path: str, data: bytes) -> str:
    """Return the text of a note: of Markdown the file's, of a document what the index has read from it."""
    if files.is_markdown(path):
        return decode(data)[0]
    return passages.document_text([one for one in passages.chunks_of(cache, path) if not one.is_names_alone])


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


def _sections(chunks: Sequence[passages.ChunkRow]) -> list[Section]:
    """Return the sections of a note in order; passages of one section count as one."""
    found: list[Section] = []
    for chunk in chunks:
        headings = tuple(chunk.heading_path)
        if found and found[-1].headings == headings:
            found[-1] = Section(headings, found[-1].first, chunk.last_line)
        elif chunk.start < chunk.end:
            found.append(Section(headings, chunk.first_line, chunk.last_line))
    return found


def _parts(chunks: Sequence[passages.ChunkRow]) -> Iterator[Part]:
    """Yield the places in a document in order; passages of one place count as one."""
    placed = (chunk for chunk in chunks if chunk.place)
    for place, group in groupby(placed, key=lambda chunk: chunk.place.shown() if chunk.place else ""):
        same = list(group)
        yield Part(place=place, lines=Lines(first=same[0].first_line, last=same[-1].last_line))
