"""Write a new note into the folder that the operator opened for programs."""

from __future__ import annotations

from urllib.parse import urlencode

from pipelines.errors import NoteTooLargeError, OverruledError, VaultNotWritableError
from pipelines.indexing.reconcile import rules_of
from pipelines.vault import files
from pipelines.vault.new_note import content_of, stem_of, write_new
from service.usecases.schemas.changes import NewNote, WrittenNote
from service.usecases.search import SearchService


def write_note(questions: SearchService, note: NewNote) -> WrittenNote:
    """Write a note into the setting `inbox`, under a name made from its title; return its path.

    Raises OverruledError without that setting, and where the folder is ignored or behind a link,
    UnsafePathError, NoteTooLargeError, AlreadyThereError, VaultNotFoundError, VaultNotWritableError.
    """
    resources = questions.resources
    settings, root, registry = resources.settings, resources.root, resources.registry()
    if not settings.inbox:
        raise OverruledError(
            "no folder takes new notes; set `inbox` to a folder of the vault (EVERINDEX_INBOX=Inbox), and restart"
        )
    resources.require_present()
    stem, folder = stem_of(note.title), files.path_on_disk(root, files.note_key(settings.inbox))
    path = f"{folder}/{stem}.md"
    rule = rules_of(root, registry).for_file(path)
    if rule or registry.owner(files.disk_key(path)) not in resources.domains():
        raise OverruledError(f"{settings.inbox} takes no notes: {rule or 'its domain is not served here'}")
    data = content_of(note.frontmatter(), note.text)
    if len(data) > settings.max_note_bytes:
        raise NoteTooLargeError(f"the note has more than max_note_mb = {settings.max_note_mb:g}; write less")
    taken = [one for domain in registry.domains for one in domain.configuration]
    try:
        written = files.disk_key(write_new(root, folder, stem, data, taken))
    except OSError as error:
        raise VaultNotWritableError(
            f"{settings.inbox} cannot be written ({error.strerror}); make the folder writable"
        ) from error
    return WrittenNote(path=written, index=f"/index?{urlencode({'path': written, 'wait': 1})}")
