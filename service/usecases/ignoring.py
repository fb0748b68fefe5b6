"""Stop indexing a note: by a line in the vault's `.everindexignore`, never by removing its file."""

from __future__ import annotations

import threading

from pipelines.errors import AlreadyThereError, NotFoundError, OverruledError, VaultNotWritableError
from pipelines.indexing.reconcile import rules_of
from pipelines.vault import files, ignore
from service.usecases.note_file import NoteFile, find_note_file
from service.usecases.schemas.changes import IgnoredAnswer
from service.usecases.search import SearchService
from workers.resources import Resources

_WRITING = threading.Lock()
"""Held while the file is changed: of two changes at once, one would find that the file is being written to."""


def stop_indexing(questions: SearchService, path: str) -> IgnoredAnswer:
    """Keep a note out of the index, and return the line that does.

    Raises NoteNotFoundError, NotFoundError for a vocabulary, OverruledError, VaultNotFoundError, NoteError,
    StateError, VaultNotWritableError.
    """
    with _WRITING:
        file = find_note_file(questions, path)
        if file.key in file.domain.configuration:
            raise NotFoundError(f"{file.key} configures the domain {file.domain.slug}; it is no note")
        try:
            line = _ignore(questions.resources, file)
        except OSError as error:
            raise VaultNotWritableError(
                f"{ignore.IGNORE_FILE} cannot be written ({error.strerror}); make the vault writable"
            ) from error
    # A file name may contain bytes that are not text; the answer must not.
    return IgnoredAnswer(path=file.key, file=ignore.IGNORE_FILE, line=files.note_key(line))


def _ignore(resources: Resources, file: NoteFile) -> str:
    root, displaced = resources.root, resources.place.displaced
    overruled = (
        f"a rule file in a folder of {file.key} lets it in with `!`; remove that line, or ignore it there"
    )
    try:
        line = ignore.ignore(root, file.raw, displaced)
    except AlreadyThereError as error:
        raise OverruledError(f"{ignore.IGNORE_FILE} names {file.key} already, but {overruled}") from error
    if rules_of(root, resources.registry()).for_file(file.raw) is None:
        ignore.stop_ignoring(root, file.raw, displaced)
        raise OverruledError(overruled)
    return line
