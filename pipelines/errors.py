"""Every error that Everindex raises on purpose.

A message says what happened, to what, and what to do about it. `retry_helps` tells a worker whether the
same work may succeed later (a busy file) or only after somebody changed something (a note that is too large).
"""


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


class StateError(EverindexError):
    """The state folder cannot be made or written."""


class AlreadyRunningError(EverindexError):
    """Another process already runs this vault."""


class NotRunningError(EverindexError):
    """No running service was found for the vault."""


class ServiceError(EverindexError):
    """The running service refused a request or answered with an error."""


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


class BadVectorError(EverindexError):
    """A model returned a vector that is not finite, is zero, or has the wrong dimension."""


class EvidenceNotFoundError(EverindexError):
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
