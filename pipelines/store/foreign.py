"""Find what a database from elsewhere contains besides our own schema, because none of it may ever run here."""

from __future__ import annotations

from pathlib import Path

import apsw

from pipelines.errors import CacheCorruptError
from pipelines.store.connection import corrupt, with_vectors
from pipelines.store.meta import ADDED_LATER, schema_of
from pipelines.store.state_file import state_schema

_SAFE = ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0")
# A cache without an index gives the same answers, only slower; what `state.db` lacks is created when it is opened.
_MAY_LACK = frozenset({"index"})

Object = tuple[str, str, str, str]
"""Type, name, table and SQL of a table, view, index or trigger."""


def foreign_in_state(path: Path) -> str | None:
    """Describe an object in a `state.db` that ours never has; return None if there is none.

    Raises CacheCorruptError.
    """
    return _foreign(_objects(path), _made_by(state_schema()))


def foreign_in_cache(path: Path, dimension: int) -> str | None:
    """Describe how a cache differs from ours of that dimension (a foreign or missing object); None if it does not.

    Raises CacheCorruptError.
    """
    try:
        ours = _made_by(schema_of(dimension))
    except apsw.Error:
        return f"vectors of {dimension} dimensions"
    found = _objects(path)
    if foreign := _foreign(found, ours):
        return foreign
    missing = (one for one in ours - found if one[0] not in _MAY_LACK and one[1] not in ADDED_LATER)
    lacking = sorted(name for _, name, *_ in missing)
    return f"no {lacking[0]!r}" if lacking else None


def _foreign(found: set[Object], ours: set[Object]) -> str | None:
    other = sorted(found - ours)
    if not other:
        return None
    kind, name, *_ = other[0]
    known = any((kind, name) == one[:2] for one in ours)
    return f"the {kind} {name!r}" + (", which differs from what Everindex creates" if known else "")


def _objects(path: Path) -> set[Object]:
    """Read a database's schema without running any of it: no extension, trigger or view, and without writing."""
    try:
        con = apsw.Connection(
            f"{path.absolute().as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            for option in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_VIEW):
                con.config(option, 0)
            for pragma in _SAFE:
                con.execute(f"PRAGMA {pragma}").fetchall()
            return _schema(con)
        finally:
            con.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise corrupt(path, error) from error


def _made_by(sql: str) -> set[Object]:
    con = apsw.Connection(":memory:")
    try:
        with_vectors(con)
        con.execute(sql).fetchall()
        return _schema(con)
    finally:
        con.close()


def _schema(con: apsw.Connection) -> set[Object]:
    found = list(con.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
    objects = {(str(kind), str(name), str(table), _folded(sql)) for kind, name, table, sql in found}
    if len(objects) < len(found):
        raise CacheCorruptError(f"{con.filename} names a table twice")
    return objects


def _folded(sql: object) -> str:
    """Return SQL without the whitespace in which two versions of the same schema may differ."""
    return " ".join(str(sql or "").split())
