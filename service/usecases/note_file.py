"""The file of a note that a request names, whether or not it is indexed yet."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.errors import CacheMissingError, NoteError, NoteNotFoundError
from pipelines.indexing.reconcile import rules_of
from pipelines.indexing.status import why
from pipelines.model import Domain
from pipelines.vault import files
from service.runtime.refusals import standing_of
from service.usecases.audience import OWNER, Audience
from service.usecases.note_text import is_public
from service.usecases.search import SearchService


@dataclass(frozen=True, slots=True)
class NoteFile:
    """A file that is indexed, or will be: its domain, its key, and its path on disk, relative to the vault."""

    domain: Domain
    key: str
    raw: str


def find_note_file(questions: SearchService, path: str, audience: Audience = OWNER) -> NoteFile:
    """Return the file that a path names.

    Raises NoteNotFoundError for a path that is no note's, is ignored, or that the asker does not see, and
    VaultNotFoundError.
    """
    resources = questions.resources
    resources.require_present()
    root, registry, key = resources.root, resources.registry(), files.note_key(path)
    raw, owner, rules = files.path_on_disk(root, key), registry.owner(key), rules_of(root, registry)
    is_there = files.is_note(key) and not rules.for_file(raw) and files.look(root, raw) is not None
    if owner in resources.domains() and is_there and not {"", ".", ".."} & set(key.split("/")):
        found = NoteFile(owner, key, raw)
        if audience.sees_all or _is_seen(questions, found, audience):
            return found
    elif audience.sees_all:
        known = why(path, root, registry, rules, {})
        raise NoteNotFoundError(standing_of(known), known)
    raise questions.no_such_note(key, audience)


def _is_seen(questions: SearchService, file: NoteFile, audience: Audience) -> bool:
    """Say whether the asker may see a file, judged by its content, because the index may not have it yet."""
    resources = questions.resources
    try:
        content = files.read(resources.root, file.raw, resources.settings.max_note_bytes)
    except NoteError:
        return False
    try:
        judged = audience.judged(file.domain.slug, file.key, content.sha256)
    except CacheMissingError:  # a worker is about to make it
        judged = False
    return file.key not in file.domain.configuration and (
        judged or is_public(file.domain, file.key, content.data)
    )
