"""A note as a person reads it: its text on the disk, and what the index knows about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pipelines.cache import graph
from pipelines.cache.cache import Cache
from pipelines.errors import NoteError, NotFoundError
from pipelines.indexing.parse import is_heavy
from pipelines.model import Domain
from pipelines.notes.encodings import decode
from pipelines.state.evidence import Evidence
from pipelines.vault import files as vault
from service.usecases.audience import OWNER, Audience
from service.usecases.note_evidence import NoteEvidence, evidence_of_note
from service.usecases.notes import describe_note
from service.usecases.schemas.notes import NodeAnswer
from service.usecases.schemas.titles import SimilarHit
from service.usecases.search import SearchService
from service.usecases.titles import TitleSearch

_SIMILAR = 6
_EVIDENCE = 5


@dataclass(frozen=True, slots=True)
class LinkedNote:
    """A note at the other end of links: how many there are, and on which line the first one is."""

    path: str
    title: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class OpenNote:
    """A note that is open before a reader.

    `markdown`: it is Markdown; `text` is empty if not. `heavy`: it takes long to parse. `meant`: the file that each
    target of its links means, or None; `documents`: those of these files that are not Markdown and are in the index.
    `node` is None while nothing of the note is indexed. `links` are those of a document that is not Markdown.
    """

    path: str
    title: str
    text: str
    markdown: bool
    heavy: bool
    meant: dict[str, str | None]
    documents: frozenset[str]
    standing: dict[str, Any]
    node: NodeAnswer | None
    links: list[LinkedNote]
    backlinks: list[LinkedNote]
    similar: list[SimilarHit]
    evidence: list[NoteEvidence]


class Reader:
    """Opens notes."""

    def __init__(self, questions: SearchService, names: TitleSearch) -> None:
        self._questions = questions
        self._names = names

    def open(self, path: str, *, audience: Audience = OWNER) -> OpenNote:
        """Return a note that the ledger knows.

        Raises NoteNotFoundError, VaultNotFoundError, and NotFoundError if the file cannot be read.

        Who does not see all notes gets no evidence records, whose questions are the owner's.
        """
        path = vault.note_key(path)
        for domain, cache in self._questions.readers():
            known = cache.ledger.stat_of([path]).get(path)
            if known and audience.sees(domain.slug, path):
                return self._open(path, known[0], domain, cache, audience)
        raise self._questions.no_such_note(path, audience)

    def _open(self, path: str, raw: str, domain: Domain, cache: Cache, audience: Audience) -> OpenNote:
        resources = self._questions.resources
        try:
            content = vault.read(resources.root, raw, resources.settings.max_note_bytes)
        except NoteError as error:
            resources.require_present()
            raise NotFoundError(str(error)) from error
        if not audience.sees_all and not audience.judged(domain.slug, path, content.sha256):
            raise self._questions.no_such_note(path, audience)
        data, markdown = content.data, vault.is_markdown(path)
        meant = graph.meant_by(cache, path)
        named = audience.named({file for file in meant.values() if file is not None})
        node = describe_note(domain, cache, path, self._questions.backlinks, audience)
        return OpenNote(
            path=path,
            title=node.title if node else PurePosixPath(path).stem,
            text=decode(data)[0] if markdown else "",
            markdown=markdown,
            heavy=markdown and is_heavy(data),
            meant={written: file if file in named else None for written, file in meant.items()},
            documents=self._documents(named),
            standing=self._questions.why(path, audience=audience),
            node=node,
            links=self._linked(node.outlinks) if node and not markdown else [],
            backlinks=self._linked(node.backlinks) if node else [],
            similar=self._names.similar(path, _SIMILAR, audience=audience).results if node else [],
            evidence=evidence_of_note(resources.stores.of(Evidence), path, _EVIDENCE)
            if audience.sees_all
            else [],
        )

    def _documents(self, files: Collection[str]) -> frozenset[str]:
        """Return the files beside Markdown that a ledger knows."""
        others = [file for file in files if not vault.is_markdown(file)]
        return frozenset(
            file for _, cache in self._questions.readers() for file in cache.ledger.stat_of(others)
        )

    def _linked(self, links: Iterable[Mapping[str, Any]]) -> list[LinkedNote]:
        """Return each note at the other end of these links once, by its title, without files that are no notes."""
        lines: dict[str, list[int]] = {}
        counts: dict[str, int] = {}
        for link in links:
            lines.setdefault(link["path"], []).append(link["line"])
            counts[link["path"]] = counts.get(link["path"], 0) + link["count"]
        titles = {
            note.path: note.title
            for _, cache in self._questions.readers()
            for note in graph.nodes(cache, lines)
        }
        found = [LinkedNote(path, title, min(lines[path]), counts[path]) for path, title in titles.items()]
        return sorted(found, key=lambda link: (link.title.casefold(), link.path))
