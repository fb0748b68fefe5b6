"""Every error that Everindex raises on purpose.

A message says what happened, to what, and what to do about it. `retry_helps` tells a worker whether the
same work may succeed later (a busy file) or only after somebody changed something (a note that is too large).
"""

from collections.abc import Iterable, Mapping
from typing import Any


class EverindexError(Exception):
    """The root of the tree."""

    retry_helps = False


class ConfigurationError(EverindexError):
    """A setting or `_domains.yaml` cannot be used."""


class DomainsFileError(ConfigurationError):
    """`_domains.yaml` is invalid; the message names file, line and reason."""


class VaultNotFoundError(EverindexError):
    """The vault's folder is not there (missing, or not mounted)."""

    retry_helps = True


class VaultIdError(EverindexError):
    """The vault's id file holds no id, and no state folder remembers which one it held."""


class AlreadyThereError(EverindexError):
    """A file that was to be written exists."""


class StateError(EverindexError):
    """The state folder cannot be made or written."""


class AlreadyRunningError(EverindexError):
    """Another process already runs this vault."""


class NotRunningError(EverindexError):
    """No running service was found for the vault."""


class ServiceError(EverindexError):
    """The running service refused a request or answered with an error."""


class NotFoundError(EverindexError):
    """What was asked for is not there."""


class NoteNotFoundError(NotFoundError):
    """There is no such note in the index; `why` is what `why` says of the path."""

    def __init__(self, message: str, why: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.why = why


class DomainNotFoundError(NotFoundError):
    """There is no domain of that name; `known` are those that there are."""

    def __init__(self, slug: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no domain {slug!r}; the vault has {', '.join(known)}")


class NotComparableError(EverindexError):
    """What was asked for cannot be compared: another model, or no vectors yet."""


class WorkerTimeoutError(EverindexError):
    """No worker took up a request in time."""

    retry_helps = True


class DomainPausedError(EverindexError):
    """A domain is paused: its notes are indexed when it is resumed."""

    retry_helps = True


class UnsafePathError(EverindexError):
    """A path of the vault leads through a link, out of the vault, to what is no regular file, or to one too large."""


class PatternError(EverindexError):
    """A pattern of a vault cannot be used; the message is the reason, a clause."""


class NoteError(EverindexError):
    """One note cannot be indexed; `kind` names the reason that `status` and `why` show."""

    kind = "unreadable"


class NoteVanishedError(NoteError):
    """The file is no longer there."""

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
    """The path is a FIFO, a socket, a device or a link, not a file."""

    kind = "not-a-file"


class NoteTooLargeError(NoteError):
    """The file is larger than the configured limit."""

    kind = "too-large"


class NameCollisionError(NoteError):
    """Two files have the same name in Unicode's composed form."""

    kind = "name-collision"


class ParserDiedError(NoteError):
    """The process that parsed a note died of it."""

    kind = "crash"
    retry_helps = True


class ParserMemoryError(NoteError):
    """A note takes more memory to parse than its process may have."""

    kind = "memory"


class ChildDiedError(EverindexError):
    """A process that did a piece of work ended without its result."""

    retry_helps = True


class ApartStoppedError(EverindexError):
    """Work in a process of its own was left because the worker stops."""

    retry_helps = True


class StaleWorkError(EverindexError):
    """The lease ran out or a newer generation arrived: this result must not be written."""


class CacheError(EverindexError):
    """A cache file cannot be used."""


class StorageUnavailableError(CacheError):
    """SQLite cannot write just now: the disk is full, read-only or failing, or another writer holds it."""

    retry_helps = True


class CacheMissingError(CacheError):
    """A cache was not made yet, or is being made just now."""

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
    """A vault names a model that is not on this machine, and that the settings do not name."""


class BadVectorError(EverindexError):
    """A model returned a vector that is not finite, is zero, or has the wrong dimension."""


class EvidenceNotFoundError(NotFoundError):
    """There is no evidence record of that id."""


class FilterError(EverindexError):
    """A filter of a question is unknown, or its value cannot be used."""


class JudgedQueriesError(ConfigurationError):
    """`_queries.yaml` is missing or invalid."""


class BackupError(EverindexError):
    """A backup cannot be written, or a file cannot be restored; nothing was changed."""


class NotABackupError(BackupError):
    """The file is not a backup that this version of Everindex can read."""


class BackupDamagedError(BackupError):
    """The backup is not as it was written."""


class OtherVaultError(BackupError):
    """The backup was made of another vault."""


class TaxonomyError(ConfigurationError):
    """A `_taxonomy.md` is invalid; the message names file, line and reason, one line an error."""


class NoteTagsError(EverindexError):
    """A note's frontmatter cannot be given a tag without a risk to what it holds; the note was left alone."""


class CannotUndoError(EverindexError):
    """A change of tags cannot be taken back: it is none, it was taken back already, or not now."""


class ProposerError(EverindexError):
    """A tag proposer cannot answer for good: a bad key, a model that is not there."""


class ProposerBusyError(ProposerError):
    """A tag proposer cannot answer just now.

    `retry_after` says how many seconds to wait, where it knows; `cost_usd` what its useless answer cost.
    """

    retry_helps = True

    def __init__(self, message: str, retry_after: float | None = None, cost_usd: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.cost_usd = cost_usd
