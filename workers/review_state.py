"""The state of a review queue: what was last read of it, and whether it has changed since."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress

from pipelines.cache.notes import indexed_hashes
from pipelines.errors import NoteError, UnsafePathError
from pipelines.model import Domain
from pipelines.state.state import ReviewState
from pipelines.tagging.review import Reviewed, on_disk
from pipelines.vault import files, paths
from workers.tagging_context import TaggingContext

_TICK_SECONDS = 0.02
"""Longer than a tick of a file system's clock, so that a later edit gets another modification time than the page."""


def current(context: TaggingContext, domain: Domain) -> ReviewState:
    """Return a value that changes whenever the queue must be processed.

    It depends on the file, the proposals, the vocabulary, and the notes whose tags wait.
    """
    proposals = context.proposals()
    notes = indexed_hashes(context.resources.reader(domain), proposals.open_paths(domain.slug))
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
