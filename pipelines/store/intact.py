"""Whether SQLite and its extension work, and whether a database file is intact, without writing anything."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from pipelines.errors import CacheError, ConfigurationError
from pipelines.store.connection import check_sqlite_version, with_vectors
from pipelines.store.meta import CacheMeta, read_meta
from pipelines.store.state_file import STATE_FILE, cache_name

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
    try:
        with closing(_read_only(file)) as con:
            ((said,),) = con.execute("PRAGMA quick_check(1)")
    except apsw.Error as error:
        return str(error)
    return None if said == "ok" else " ".join(str(said).split())


def current_caches(folder: Path, domains: Iterable[str]) -> list[Path]:
    """Return the file of each domain's current cache, as the `state.db` in the folder names them.

    A damaged `state.db` names none, and `damage` finds it; the first cache has number 1.
    """
    numbers: dict[str, int] = {}
    with suppress(apsw.Error), closing(_read_only(folder / STATE_FILE)) as con:
        numbers = dict(con.execute("SELECT domain, number FROM domain_cache"))
    return [folder / cache_name(domain, numbers.get(domain, 1)) for domain in domains]


def meta_of(file: Path) -> CacheMeta | None:
    """Return what a cache was built with, or None where it does not exist or cannot be read."""
    if not file.exists():
        return None
    try:
        with closing(_read_only(file)) as con:
            return read_meta(con, file)
    except (CacheError, apsw.Error):
        return None


def _read_only(file: Path) -> apsw.Connection:
    # A file without a journal is opened as one that nothing changes, as SQLite would make a journal to read it.
    at_rest = "" if file.with_name(f"{file.name}-wal").exists() else "&immutable=1"
    return apsw.Connection(f"{file.as_uri()}?mode=ro{at_rest}", flags=_READING)
