"""What tagging needs: a domain's vocabulary and notes, and the proposers; created at first use."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pipelines.cache.vectors import Vector
from pipelines.claude import NEWEST_HAIKU
from pipelines.embedding.remote import RemoteEmbedder
from pipelines.errors import NoteError, UnsafePathError
from pipelines.model import Domain, Taxonomy
from pipelines.notes.privacy import is_private_place
from pipelines.state.note_log import NoteLog
from pipelines.state.state import ReviewState
from pipelines.state.tags import Proposals
from pipelines.store import WritableCache
from pipelines.tagging import propose, review
from pipelines.tagging import vocabulary as taxonomy
from pipelines.tagging.apply import DomainNotes
from pipelines.tagging.claude import HaikuProposer
from pipelines.tagging.local import LocalProposer
from pipelines.tagging.review import Reviewed, on_disk
from pipelines.tagging.vocabulary import TaxonomyFile
from pipelines.vault import files, paths
from pipelines.vault.atomic import write_atomic
from workers.resources import Resources

# Fitting takes a second at 10,000 notes; tags added meanwhile can wait this long.
_REFIT_SECONDS = 300.0

VOCABULARY_PROBLEM = "taxonomy"
"""The kind of the problem reported while a domain's vocabulary cannot be read."""

QUEUE_PROBLEM = "review-queue"
"""The kind of the problem reported while a domain's review queue cannot be used."""


def vocabulary_problem(vocabulary: TaxonomyFile) -> str | None:
    """Say what is wrong with a domain's vocabulary and what is used instead; None if nothing is wrong."""
    if vocabulary.error is None:
        return None
    reasons = "; ".join(vocabulary.error.splitlines())
    if vocabulary.source is None:
        return f"{reasons} (no tags are proposed until it is corrected)"
    return f"{reasons} (the last valid vocabulary is used until it is corrected)"


class TaggingContext:
    """What tagging the domains of a vault needs, from a process's resources."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._vocabularies: dict[str, TaxonomyFile] = {}
        self._fitted: dict[str, tuple[float, Taxonomy, LocalProposer]] = {}
        self._haiku: HaikuProposer | None = None

    @property
    def displaced(self) -> Path:
        """The folder for files that an exchange displaced."""
        return self.resources.place.displaced

    def proposals(self) -> Proposals:
        """Return this thread's connection to the tag tables."""
        return self.resources.stores.of(Proposals)

    def vocabulary(self, domain: Domain) -> TaxonomyFile:
        """Return a domain's current vocabulary, read again when its file changes; the last valid one is stored."""
        good = self.resources.place.state / f"taxonomy-{domain.slug}.good.md"
        last = self._vocabularies.get(domain.slug)
        root = self.resources.root
        found = taxonomy.load(root, files.path_on_disk(root, domain.within(domain.taxonomy)), last)
        if found.error and last is None and good.exists():
            found = replace(taxonomy.load(good.parent, good.name), error=found.error, refused=found.refused)
        elif found.source is not None and not found.error and (last is None or found.source != last.source):
            # A full disk must not prevent it from being used.
            with suppress(OSError):
                if not good.exists() or good.read_text(encoding="utf-8") != found.source:
                    write_atomic(good, found.source.encode())
        self._vocabularies[domain.slug] = found
        return found

    def notes(self, domain: Domain) -> DomainNotes:
        """Return a domain's notes with what promoting tags needs."""
        return DomainNotes(
            domain.slug,
            self.resources.root,
            self.resources.settings.max_note_bytes,
            self.resources.reader(domain),
            self.proposals(),
            self.resources.stores.of(NoteLog),
            self.displaced,
        )

    def proposing(self, domain: Domain) -> propose.ProposalContext:
        """Return what proposing for a domain needs. Raises CacheError."""
        settings, cache = self.resources.settings, self.resources.reader(domain)
        vocabulary = self.vocabulary(domain).taxonomy
        return propose.ProposalContext(
            domain=domain,
            taxonomy=vocabulary,
            cache=cache,
            proposals=self.proposals(),
            root=self.resources.root,
            max_bytes=settings.max_note_bytes,
            local=lambda: self._local(domain, vocabulary, cache),
            haiku=self._claude(),
            budget=propose.Budget(settings.claude_notes_a_day, settings.claude_usd_a_day),
        )

    def reviewing(self, domain: Domain, *, apply: bool) -> review.ReviewContext:
        """Return what reviewing a domain needs; `apply`: also write accepted tags."""
        return review.ReviewContext(domain, self.vocabulary(domain), self.notes(domain), apply)

    def _local(self, domain: Domain, vocabulary: Taxonomy, cache: WritableCache) -> LocalProposer:
        fitted = self._fitted.get(domain.slug)
        if fitted and fitted[1] == vocabulary and time.monotonic() - fitted[0] < _REFIT_SECONDS:
            return fitted[2]

        def encode(texts: Sequence[str]) -> list[Vector]:
            embedder = self.resources.embedders.bulk(cache.meta.model)
            if isinstance(embedder, RemoteEmbedder):
                # The vocabulary is a file of the vault, too.
                private = is_private_place(domain.privacy, domain.within(domain.taxonomy))
                return list(embedder.encode_documents(texts, private=private))
            return list(embedder.encode_documents(texts))

        proposer = propose.fit_local(cache, vocabulary, encode)
        self._fitted[domain.slug] = (time.monotonic(), vocabulary, proposer)
        return proposer

    def _claude(self) -> HaikuProposer | None:
        settings = self.resources.settings
        if settings.anthropic_api_key and self._haiku is None:
            self._haiku = HaikuProposer(
                settings.anthropic_api_key.get_secret_value(),
                model=settings.tag_model or NEWEST_HAIKU,
                base_url=settings.anthropic_base_url,
            )
        return self._haiku


# The state of a review queue: what was last read of it, and whether it has changed since.


_TICK_SECONDS = 0.02
"""Longer than a tick of a file system's clock, so that a later edit gets another modification time than the page."""


def current(context: TaggingContext, domain: Domain) -> ReviewState:
    """Return a value that changes whenever the queue must be processed.

    It depends on the file, the proposals, the vocabulary, and the notes whose tags wait.
    """
    proposals = context.proposals()
    notes = context.resources.reader(domain).notes.indexed_hashes(proposals.open_paths(domain.slug))
    return ReviewState(
        file=_stat(context, domain.within(domain.review_queue)),
        proposals=proposals.version(domain.slug),
        vocabulary=_stat(context, domain.within(domain.taxonomy)),
        notes=hashlib.sha256(json.dumps(notes).encode()).hexdigest(),
    )


def after(context: TaggingContext, domain: Domain, done: Reviewed, before: ReviewState) -> ReviewState:
    """Return the state in which a review left the queue.

    `before` is the state when the review began. If the file was edited since the review, or the vocabulary or a note
    since its beginning, the result differs from the current state, so that the edit is read.
    """
    if done.written:
        time.sleep(_TICK_SECONDS)
    file, content = _stat(context, domain.within(domain.review_queue)), None
    with suppress(NoteError):
        content = on_disk(context.reviewing(domain, apply=False))
    return ReviewState(
        file if content == done.page else before.file, done.version, before.vocabulary, before.notes
    )


def _stat(context: TaggingContext, path: str) -> tuple[int, int, int] | None:
    try:
        root = context.resources.root
        info = paths.look(root, files.path_on_disk(root, path))
    except (OSError, UnsafePathError):
        return None
    return info.st_size, info.st_mtime_ns, info.st_ino
