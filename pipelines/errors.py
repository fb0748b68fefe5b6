"""Every error that Everindex raises on purpose.

A message says what happened, to what, and what to do about it. `retry_helps` tells a worker whether the same work
may succeed later (a busy file) or only after someone changes something (a note that is too large).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NO_NOTE = ("unknown", "ignored", "folder")  # states of `why` in which a path may be a title


class EverindexError(Exception):
    """The base class of all errors."""

    retry_helps = False


class ConfigurationError(EverindexError):
    """A setting or `_domains.yaml` cannot be used."""


class DomainsFileError(ConfigurationError):
    """`_domains.yaml` is invalid; the message names file, line and reason."""


class ContextsFileError(ConfigurationError):
    """`_contexts.yaml` is invalid; the message names file, line and reason."""


class ScopesFileError(ConfigurationError):
    """`_scopes.yaml` is invalid; the message names file, line and reason."""


class VaultNotFoundError(EverindexError):
    """The vault's folder is missing or not mounted."""

    retry_helps = True


class VaultIdError(EverindexError):
    """The vault's id file contains no id, and no state folder remembers its former id."""


class VaultNotWritableError(EverindexError):
    """A file of the vault cannot be written: its permissions, a read-only or a full disk."""

    retry_helps = True


class OverruledError(EverindexError):
    """A setting, or a file of the vault with ignore rules, is against a request."""


class AlreadyThereError(EverindexError):
    """A file that was about to be written already exists."""


class StateError(EverindexError):
    """The state folder cannot be created or written."""


class AlreadyRunningError(EverindexError):
    """Another process already runs this vault."""


class NotRunningError(EverindexError):
    """No running service was found for the vault."""


class ServiceError(EverindexError):
    """The running service refused a request or answered with an error."""


class NotFoundError(EverindexError):
    """The requested object does not exist."""


class NoteNotFoundError(NotFoundError):
    """There is no such note in the index; `why` is the result of `why` for the path."""

    def __init__(self, message: str, why: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.why = why


class DomainNotFoundError(NotFoundError):
    """There is no domain of that name; `known` are the existing ones."""

    def __init__(self, slug: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no domain {slug!r}; the vault has {', '.join(known)}")


class CursorError(EverindexError):
    """A cursor was altered, or continues another request."""


class TooManyWaitingError(EverindexError):
    """A client has as many proposals waiting for the operator as it may have."""


class NotComparableError(EverindexError):
    """The request cannot be answered by comparison: another model, or no vectors yet."""


class WorkerTimeoutError(EverindexError):
    """No worker started on a request in time."""

    retry_helps = True


class DomainPausedError(EverindexError):
    """A domain is paused: its notes are indexed when it is resumed."""

    retry_helps = True


class UnsafePathError(EverindexError):
    """A path leads through a link, out of the vault, to something that is not a regular file, or to one too large."""


class NoteError(EverindexError):
    """A note cannot be indexed or changed; `kind` names the reason, as `status` shows it."""

    kind = "unreadable"


class NoteVanishedError(NoteError):
    """The file no longer exists."""

    kind = "vanished"
    retry_helps = True


class NoteUnreadableError(NoteError):
    """The file cannot be read (permission, I/O error)."""

    kind = "unreadable"
    retry_helps = True


class NoteChangedError(NoteError):
    """The file changed while it was being read."""

    kind = "changing"
    retry_helps = True


class NotARegularFileError(NoteError):
    """The path is a FIFO, a socket, a device or a link instead of a file."""

    kind = "not-a-file"


class NoteTooLargeError(NoteError):
    """The file is larger than the configured limit."""

    kind = "too-large"


class NameCollisionError(NoteError):
    """Two files have the same name in Unicode's composed form (NFC)."""

    kind = "name-collision"


class NoteTagsError(NoteError):
    """A note's tags cannot be changed without a risk to its contents; the note was left alone."""

    kind = "tags"


class DocumentError(NoteError):
    """A document is damaged, encrypted, or exceeds a limit of its reader; the message says which."""

    kind = "document"


class ParserDiedError(NoteError):
    """The process that was parsing a note died."""

    kind = "crash"
    retry_helps = True


class ParserMemoryError(NoteError):
    """A note needs more memory to parse than its process may use."""

    kind = "memory"


class ChildDiedError(EverindexError):
    """A child process ended without a result."""

    retry_helps = True


class ApartStoppedError(EverindexError):
    """Work in a separate process was abandoned because the worker is stopping."""

    retry_helps = True


class StaleWorkError(EverindexError):
    """The lease ran out or a newer generation arrived: this result must not be written."""


class CacheError(EverindexError):
    """A cache file cannot be used."""


class StorageUnavailableError(CacheError):
    """SQLite cannot write now: the disk is full, read-only or failing, or another writer holds the lock."""

    retry_helps = True


class CacheMissingError(CacheError):
    """A cache does not exist yet, or is being created."""

    retry_helps = True


class CacheCorruptError(CacheError):
    """SQLite finds a cache damaged."""


class ModelMismatchError(CacheError):
    """A cache was built with another embedding model or dimension."""


class SqliteTooOldError(CacheError):
    """The SQLite library has the WAL-reset bug (before 3.51.3)."""


class ModelUnavailableError(EverindexError):
    """An embedding model cannot be loaded."""


class ModelNotAllowedError(ModelUnavailableError):
    """A vault names a model that is not on this machine and not named in the settings."""


class EndpointError(EverindexError):
    """An endpoint gave no usable answer; the message says why, without the key and without a note's text.

    `passing`: a later request may succeed. `of_texts`: one of the texts may be the cause. `retry_after`: seconds.
    """

    def __init__(
        self, message: str, *, passing: bool = False, of_texts: bool = False, retry_after: float = 0.0
    ) -> None:
        super().__init__(message)
        self.passing = passing
        self.of_texts = of_texts
        self.retry_after = retry_after


class EndpointSlowError(EndpointError):
    """An endpoint did not answer in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:.0f} s", passing=True, of_texts=True)


class BadVectorError(EverindexError):
    """A model returned a vector that is not finite, is zero, or has the wrong dimension."""


class EvidenceNotFoundError(NotFoundError):
    """There is no evidence record with that id."""


class RecipeNotFoundError(NotFoundError):
    """There is no recipe of that name."""


class FilterError(EverindexError):
    """A filter of a question is unknown, or its value cannot be used."""


class JudgedQueriesError(ConfigurationError):
    """`_queries.yaml` is missing or invalid."""


class BackupError(EverindexError):
    """A backup cannot be written, or a file cannot be restored; nothing was changed."""


class NotABackupError(BackupError):
    """The file is not a backup that this version of Everindex can read."""


class BackupDamagedError(BackupError):
    """The backup's content changed since it was written."""


class OtherVaultError(BackupError):
    """The backup belongs to another vault."""


class MigrationError(EverindexError):
    """A vault cannot be migrated to another store; the store that it is in was only read."""


class TaxonomyError(ConfigurationError):
    """A `_taxonomy.md` is invalid; the message names file, line and reason, one error per line."""


class CannotUndoError(EverindexError):
    """A change of tags cannot be undone: it is not such a change, it is already undone, or not now."""


class ChatOffError(EverindexError):
    """No model is named that could answer in a conversation."""


class ChatNotFoundError(NotFoundError):
    """There is no such conversation, or no such question in it."""


class ChatModelError(EverindexError):
    """A model gave no answer, or not all of it."""


class ToolsRefusedError(ChatModelError):
    """A model takes no tools."""


class CalculationError(EverindexError):
    """An expression cannot be calculated."""


class ProposerError(EverindexError):
    """A tag proposer cannot answer until something changes: a bad key, a missing model."""


class ProposerBusyError(ProposerError):
    """A tag proposer cannot answer now; `retry_after`: seconds to wait, `cost_usd`: what the failed answer cost."""

    retry_helps = True

    def __init__(self, message: str, retry_after: float | None = None, cost_usd: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.cost_usd = cost_usd
