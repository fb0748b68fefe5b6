"""Stop indexing a note: by a line in the vault's `.everindexignore`, never by removing its file."""

from __future__ import annotations

from pipelines import ignore_file
from pipelines.errors import NotFoundError, OverruledError, VaultNotWritableError
from pipelines.reconcile import rules_of
from service.usecases.note_file import find_note_file
from service.usecases.schemas.changes import IgnoredAnswer
from service.usecases.search import SearchService


def stop_indexing(questions: SearchService, path: str) -> IgnoredAnswer:
    """Keep a note out of the index, and return the line that does.

    Raises NoteNotFoundError, NotFoundError for a vocabulary, OverruledError, VaultNotFoundError, NoteError,
    StateError, VaultNotWritableError.
    """
    resources = questions.resources
    file = find_note_file(questions, path)
    if file.key in file.domain.configuration:
        raise NotFoundError(f"{file.key} configures the domain {file.domain.slug}; it is no note")
    root, displaced = resources.root, resources.place.displaced
    try:
        line = ignore_file.ignore(root, file.raw, displaced)
        if rules_of(root, resources.registry()).for_file(file.raw) is None:
            ignore_file.stop_ignoring(root, file.raw, displaced)
            raise OverruledError(
                f"a rule file in a folder of {file.key} lets it in with `!`; remove that line, or ignore it there"
            )
    except OSError as error:
        raise VaultNotWritableError(
            f"{ignore_file.IGNORE_FILE} cannot be written ({error.strerror}); make the vault writable"
        ) from error
    return IgnoredAnswer(path=file.key, file=ignore_file.IGNORE_FILE, line=line)
