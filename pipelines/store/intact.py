"""Whether SQLite and its extension work, and whether a database file is intact, without writing anything."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from pipelines.errors import ConfigurationError
from pipelines.store.connection import check_sqlite_version, with_vectors

_READING = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class Library(NamedTuple):
    """The versions of SQLite and of sqlite-vec."""

    sqlite: str
    vectors: str


def try_library() -> Library:
    """Return the versions in use, after both full-text search and vectors have worked.

    Raises SqliteTooOldError, and ConfigurationError where one of the two is missing.
    """
    check_sqlite_version()
    try:
        with closing(apsw.Connection(":memory:")) as con:
            con.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
            with_vectors(con)
            ((vectors,),) = con.execute("SELECT vec_version()")
    except apsw.Error as error:
        raise ConfigurationError(
            f"SQLite cannot do what an index needs ({error}); install apsw and sqlite-vec again"
        ) from error
    return Library(apsw.sqlite_lib_version(), vectors)


def damage(file: Path) -> str | None:
    """Return what SQLite finds wrong with a database file, or None where it is intact or does not exist."""
    if not file.exists():
        return None
    # A file without a journal is opened as one that nothing changes, as SQLite would make a journal to read it.
    at_rest = "" if file.with_name(f"{file.name}-wal").exists() else "&immutable=1"
    try:
        with closing(apsw.Connection(f"{file.as_uri()}?mode=ro{at_rest}", flags=_READING)) as con:
            ((said,),) = con.execute("PRAGMA quick_check(1)")
    except apsw.Error as error:
        return str(error)
    return None if said == "ok" else str(said)
