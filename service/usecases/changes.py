"""Write a new note into the folder that the operator opened for programs."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from functools import cached_property
from itertools import chain
from typing import Literal, TypeVar
from urllib.parse import urlencode

from pipelines.cache.ledger import LedgerRow
from pipelines.errors import (
    AlreadyThereError,
    CacheError,
    NoteTooLargeError,
    NotFoundError,
    OverruledError,
    VaultNotWritableError,
    WorkerTimeoutError,
)
from pipelines.indexing.ingest import embed_pending, index_words
from pipelines.indexing.reconcile import rules_of
from pipelines.model import Domain, now_iso
from pipelines.notes.frontmatter import read_frontmatter
from pipelines.state.state import LOOKED_AT, WRITTEN, State, Subject, WrittenFacts
from pipelines.state.tags import REPLACED, Change, Proposals
from pipelines.store import WritableCache
from pipelines.tagging.apply import heads
from pipelines.vault import files, ignore
from pipelines.vault.new_note import content_of, stem_of, write_new
from pipelines.vault.write import replace_if_unchanged
from service.runtime.lock import one_writer, only_one
from service.schemas.notes import IgnoredAnswer, IndexAnswer, IndexState, NewNote, WrittenNote
from service.usecases.maintenance import prepare_sentences, refine
from service.usecases.notes import NoteFile, find_note_file
from service.usecases.search import View, paused_because
from service.usecases.status import storage_problem
from workers.resources import Resources
from workers.tasks import RequestNote, look_at, make_request_task, make_tasks


def write_note(view: View, note: NewNote, folder: str | None = None) -> WrittenNote:
    """Write a note into a folder, by default the setting `inbox`, under a name made from its title; return its path.

    A note that was written with the same property `id` is replaced instead, and that can be undone. Raises
    OverruledError without that setting, where the folder is ignored or behind a link, and for a note that was changed
    or moved away since, UnsafePathError, NoteError, AlreadyThereError, VaultNotFoundError, VaultNotWritableError.
    """
    resources = view.resources
    settings, root, registry = resources.settings, resources.root, resources.registry()
    home = folder or settings.inbox
    if not home:
        raise OverruledError(
            "no folder takes new notes; set `inbox` to a folder of the vault (EVERINDEX_INBOX=Inbox), and restart"
        )
    resources.require_present()
    stem, folder = stem_of(note.title), files.path_on_disk(root, files.note_key(home))
    path = f"{folder}/{stem}.md"
    rule = rules_of(root, registry).for_file(path)
    if rule or registry.owner(files.disk_key(path)) not in resources.domains():
        raise OverruledError(f"{home} takes no notes: {rule or 'its domain is not served here'}")
    data = content_of(note.frontmatter(), note.text)
    if len(data) > settings.max_note_bytes:
        raise NoteTooLargeError(f"the note has more than max_note_mb = {settings.max_note_mb:g}; write less")
    identity = note.identity
    if not identity:
        return _written(_write_new(resources, folder, stem, data))
    with _WRITING, one_writer(resources.place.state):
        written = _write_again(view, identity, folder, data)
        if written is None:
            # If this process ends in between, the next one finds the note by its bytes.
            _remember(resources, identity, files.disk_key(path), _hash(data))
            written = _written(_write_new(resources, folder, stem, data))
            _remember(resources, identity, written.path, _hash(data))
    return written


def _write_new(resources: Resources, folder: str, stem: str, data: bytes) -> str:
    taken = [one for domain in resources.registry().domains for one in domain.configuration]
    try:
        return files.disk_key(write_new(resources.root, folder, stem, data, taken))
    except OSError as error:
        raise VaultNotWritableError(
            f"{folder} cannot be written ({error.strerror}); make the folder writable"
        ) from error


# Write a note again that a program wrote with the same id, unless somebody else has changed it since.


_WRITING = threading.Lock()
"""Held while a file is changed: of two changes at once, one would find that the file is being written to."""


def _write_again(view: View, identity: str, folder: str, data: bytes) -> WrittenNote | None:
    """Replace the note that was written with an id; None if none was, or if it is deleted. Raises OverruledError."""
    resources, root = view.resources, view.resources.root
    fact = resources.state().get(WRITTEN, _hash(identity.encode()))
    path = _where_now(view, identity, fact.value) if fact else None
    if fact is None or path is None:
        return None
    raw, hashes = files.path_on_disk(root, path), fact.value.hashes
    before = files.read(root, raw, resources.settings.max_note_bytes).data
    if before == data or hashes == (_hash(data),):  # what somebody made of this very text stays
        return _written(path, "unchanged")
    if not path.startswith(f"{files.disk_key(folder)}/"):
        raise OverruledError(
            f"the note with the id {identity} was moved to {path}, and programs write into"
            f" {files.disk_key(folder)} only; move it back, or give another id"
        )
    changed = OverruledError(
        f"{path}, the note with the id {identity}, was changed since a program wrote it, and is left as it is;"
        " change it by hand, or give another id"
    )
    if _hash(before) not in hashes:
        raise changed
    _remember(resources, identity, path, _hash(before), _hash(data))
    if replace_if_unchanged(root, raw, before, data, resources.place.displaced) is not None:
        raise changed
    written = _written(path, "replaced", _recorded(resources, path, before, data))
    _remember(resources, identity, path, _hash(data))  # what the operator undoes is not replaced again
    return written


def _where_now(view: View, identity: str, fact: WrittenFacts) -> str | None:
    """Return the path of a note that a program wrote, also if it was changed or moved since; None if it is gone.

    Another note may have its path by now: one with an id of its own.
    """
    root, most = view.resources.root, view.resources.settings.max_note_bytes
    moved = (path for _, cache in view.readers() for path in cache.ledger.paths_of(fact.hashes))
    for path in chain([fact.path], moved):
        raw = files.path_on_disk(root, path)
        if files.look(root, raw):
            data = files.read(root, raw, most).data
            own = read_frontmatter(data.decode("utf-8", "replace")).values.get("id")
            if _hash(data) in fact.hashes or own is None or str(own) == identity:
                return path
    return None


def _recorded(resources: Resources, path: str, before: bytes, after: bytes) -> int:
    """Record a replaced note among the changes that can be undone; return the change's id."""
    owner = resources.registry().owner(path)
    slug = owner.slug if owner else ""
    change = Change(0, now_iso(), slug, path, (), REPLACED, *heads(before, after), None)
    return resources.stores.of(Proposals).changes.record_replaced(change)


def _remember(resources: Resources, identity: str, path: str, *hashes: str) -> None:
    resources.state().put(WRITTEN, WrittenFacts(path, hashes), _hash(identity.encode()))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _written(
    path: str, state: Literal["new", "replaced", "unchanged"] = "new", change: int | None = None
) -> WrittenNote:
    index = f"/index?{urlencode({'path': path, 'wait': 1})}"
    return WrittenNote(path=path, index=index, state=state, change=change)


# Stop indexing a note: by a line in the vault's `.everindexignore`, never by removing its file.


def stop_indexing(view: View, path: str) -> IgnoredAnswer:
    """Keep a note out of the index, and return the line that does.

    Raises NoteNotFoundError, NotFoundError for a vocabulary, OverruledError, VaultNotFoundError, NoteError,
    StateError, VaultNotWritableError.
    """
    with _WRITING:
        file = find_note_file(view, path)
        if file.key in file.domain.configuration:
            raise NotFoundError(f"{file.key} configures the domain {file.domain.slug}; it is no note")
        try:
            line = _ignore(view.resources, file)
        except OSError as error:
            raise VaultNotWritableError(
                f"{ignore.IGNORE_FILE} cannot be written ({error.strerror}); make the vault writable"
            ) from error
    # A file name may contain bytes that are not text; the answer must not.
    line = files.note_key(line)
    return IgnoredAnswer(
        path=file.key, file=ignore.IGNORE_FILE, line=line, passages=_passages_of(view.resources, file)
    )


def _passages_of(resources: Resources, file: NoteFile) -> int:
    """Return how many passages the index has of a note."""
    try:
        return len(resources.reader(file.domain).passages.chunks_of(file.key))
    except CacheError:  # there is no index yet, or it has a problem of its own
        return 0


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


# Workers' replies to requests, passed through `state.db`.


T = TypeVar("T")
_LOOK_SECONDS = 0.02


def wait_for_answer(state: State, subject: Subject[T], request: str, deadline: float) -> T:
    """Return a worker's reply to a request, and delete it.

    Raises WorkerTimeoutError if no worker has replied by the deadline (monotonic clock).
    """
    while time.monotonic() < deadline:
        answer = state.get(subject, request)
        if answer:
            state.delete(subject, request)
            return answer.value
        time.sleep(_LOOK_SECONDS)
    raise WorkerTimeoutError("no worker took it; it waits on the queue (is a worker running?)")


# Index one note at once, and say when a search finds it.
#
# A worker looks at the file and records its change in the ledger, as the watcher does; it is indexed like any save.


PATIENCE_SECONDS = 30.0
"""How long a request waits for its note."""

_MOST_WAITERS = 2
"""How many requests may wait in a process: each holds a slot, and HTTP's writes and an agent's tools have few."""

_WAITERS = threading.BoundedSemaphore(_MOST_WAITERS)
_NO_WORKER = "no worker runs; it is indexed when one does (`everindex up`)"
_STARTING_SECONDS = 10.0
_QUEUED = "it waits on the queue"
_CROWDED = f"it waits on the queue; {_MOST_WAITERS} requests wait for an answer already, so this one does not"
_LATE = "a worker has not finished it yet; `GET /why/<path>` says when it has"
_WRITTEN_TO = "it is being written to; it is indexed when it is quiet"


class IndexRequests:
    """Requests to index a note. The first one opens a queue of its own."""

    def __init__(self, view: View, patience: float = PATIENCE_SECONDS) -> None:
        self._view = view
        self._resources = view.resources
        self._patience = patience

    def index(self, path: str, *, wait: bool, force: bool = False) -> IndexAnswer:
        """Have a worker index a note now; with `wait`, answer when it is findable, or after `PATIENCE_SECONDS`.

        With `force` also a note that did not change is read, split and written again. A request beyond
        `_MOST_WAITERS` is answered at once. Raises NoteNotFoundError for a path that is no note or that the asker
        does not see, VaultNotFoundError, QueueUnavailableError.
        """
        began = time.monotonic()
        file = find_note_file(self._view, path)
        domain, key = file.domain, file.key
        state, reason = self._requested(domain, key, began + self._patience if wait else None, force=force)
        if state in ("indexed", "parked") and not self._view.audience.sees(domain.slug, key):
            raise self._view.no_such_note(key)
        return _answered(self._resources, file, state, reason, began)

    def _requested(
        self, domain: Domain, key: str, until: float | None, *, force: bool
    ) -> tuple[IndexState, str | None]:
        """Enqueue a request; wait for its outcome until a moment of the monotonic clock, or (None) not at all."""
        if until is None or not _WAITERS.acquire(blocking=False):
            self._enqueue(key, None, force)
            return "queued", self._held_up(domain) or (_QUEUED if until is None else _CROWDED)
        try:
            request = secrets.token_hex(8)
            self._enqueue(key, request, force)
            return self._outcome(domain, key, request, until)
        finally:
            _WAITERS.release()

    @cached_property
    def _enqueue(self) -> RequestNote:
        queue = self._resources.queue()
        tasks = make_tasks(queue, self._resources)
        return make_request_task(queue, self._resources, tasks.index_notes)

    def _outcome(self, domain: Domain, key: str, request: str, until: float) -> tuple[IndexState, str | None]:
        """Wait for a worker until a moment of the monotonic clock; return how far the note is, and why no further."""
        while held_up := self._held_up(domain):
            # A service that was just started answers before its worker has reported.
            if (
                held_up != _NO_WORKER
                or self._resources.running_s > _STARTING_SECONDS
                or time.monotonic() >= until
            ):
                return "queued", held_up
            time.sleep(_LOOK_SECONDS)
        try:
            is_quiet = wait_for_answer(self._resources.state(), LOOKED_AT, request, until)
        except WorkerTimeoutError:
            return "queued", _LATE
        while True:
            row = self._resources.reader(domain).ledger.row(key)
            if row is None or row.wanted_hash is None:
                raise self._view.no_such_note(key)
            if done := _done(row, quiet=is_quiet):
                return done
            if time.monotonic() >= until:
                # The error may be of a version that this asker must not see.
                known = row.error if self._view.audience.sees(domain.slug, key) else None
                return "pending", known or self._held_up(domain) or _LATE
            time.sleep(_LOOK_SECONDS)

    def _held_up(self, domain: Domain) -> str | None:
        """Return why no worker takes the note now, or None."""
        resources = self._resources
        if paused := paused_because(resources, domain.slug):
            return paused
        return storage_problem(resources.place.state) or (
            None if any(resources.workers().values()) else _NO_WORKER
        )


def _done(row: LedgerRow, *, quiet: bool) -> tuple[IndexState, str | None] | None:
    """Return the state of a note, with the reason, if no more is to come of its request, else None."""
    if row.parked:
        return "parked", row.error
    if not quiet:
        return "pending", _WRITTEN_TO
    if not row.pending:
        return "indexed", "its vectors are pending" if row.vectors_pending else None
    return None


def _answered(
    resources: Resources, file: NoteFile, state: IndexState, reason: str | None, began: float
) -> IndexAnswer:
    return IndexAnswer(
        path=file.key,
        domain=file.domain.slug,
        state=state,
        findable=state == "indexed" and file.key not in file.domain.configuration,
        reason=reason,
        passages=_passages_of(resources, file) if state == "indexed" else None,
        took_ms=round((time.monotonic() - began) * 1000, 1),
    )


# Index one note in this process, where no service runs.


_INDEXING = threading.Lock()
"""Held while a thread indexes: the lock of the state folder would refuse the others."""


def index_here(view: View, path: str, *, force: bool = False) -> IndexAnswer:
    """Index a note in this process, vectors included; answer as `IndexRequests.index` does, `force` as there.

    Other pending notes may be indexed with it. Raises NoteNotFoundError for a path that is no note,
    AlreadyRunningError if a service runs, VaultNotFoundError, ModelMismatchError, ModelUnavailableError.
    """
    began, resources = time.monotonic(), view.resources
    file = find_note_file(view, path)
    with _INDEXING, only_one(resources.place.state, PATIENCE_SECONDS):
        resources.check_models()
        is_quiet, _ = look_at(resources, file.key, force=force)
        cache = resources.cache(file.domain)
        row = _completed(resources, file, cache) if is_quiet else cache.ledger.row(file.key)
        if is_quiet and (row is None or row.wanted_hash is None):
            raise view.no_such_note(file.key)
        done = _done(row, quiet=is_quiet) if row else ("pending", _WRITTEN_TO)
        state, reason = done or ("pending", row.error if row else None)
        answer = _answered(resources, file, state, reason, began)
    refine(resources, file.domain, cache)
    prepare_sentences(resources, file.domain, cache)
    return answer


def _completed(resources: Resources, file: NoteFile, cache: WritableCache) -> LedgerRow | None:
    """Index until a note has its words and vectors, or nothing helps for `PATIENCE_SECONDS`; return its row."""
    cache.leases.free_those_of_the_dead(resources.is_at_work)
    ingest = resources.ingest(file.domain, cache)
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        row = cache.ledger.row(file.key)
        if row is None or row.parked or not (row.pending or row.vectors_pending):
            return row
        if (index_words if row.pending else embed_pending)(cache, ingest).touched:
            until = time.monotonic() + PATIENCE_SECONDS
        elif time.monotonic() >= until:
            return row
        else:
            time.sleep(_LOOK_SECONDS)
