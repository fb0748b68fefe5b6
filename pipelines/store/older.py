"""Which notes of a cache an earlier pipeline indexed, and the names of those pipelines."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from pipelines.store.connection import one, transaction
from pipelines.store.connection import row as first
from pipelines.store.connection import rows as select
from pipelines.store.ledger import Ledger

_INDEXED = "SELECT path FROM vault_file WHERE indexed_hash IS NOT NULL AND applied_generation"


def replace_pipeline(con: apsw.Connection, name: str) -> None:
    """Name another pipeline as the current one, before its notes are wanted (inside the caller's transaction).

    The names before it are kept while notes remain that this pipeline has not indexed.
    """
    before = _earlier(con) if first(con, f"{_INDEXED} = 0 LIMIT 1") else []
    con.executemany(
        "INSERT OR REPLACE INTO vault_meta VALUES (?, ?)",
        [("pipeline", name), ("earlier_pipelines", " ".join({*before, _current(con)}))],
    )


def want_version(con: apsw.Connection, ledger: Ledger, version: str | None) -> list[str]:
    """Make the notes pending that a pipeline indexed, by its version or whole name; None: those of earlier ones.

    Return their paths. Until they are indexed again, they are found as they are. A note that waits for this pipeline
    counts for every earlier one that left notes.
    """
    with transaction(con):
        paths = [path for (path,) in select(con, f"{_INDEXED} = 0 ORDER BY path")]
        if version is not None and not any(_is_of(name, version) for name in _earlier(con)):
            paths = []
        if version is not None and _is_of(_current(con), version):
            paths += [path for (path,) in select(con, f"{_INDEXED} > 0 ORDER BY path")]
        ledger.want_again(paths)
    return paths


def _current(con: apsw.Connection) -> str:
    (name,) = one(con, "SELECT value FROM vault_meta WHERE key = 'pipeline'")
    return str(name)


def _earlier(con: apsw.Connection) -> Sequence[str]:
    found = first(con, "SELECT value FROM vault_meta WHERE key = 'earlier_pipelines'")
    return found[0].split() if found else []


def _is_of(name: str, version: str) -> bool:
    return version in (name, name.partition(":")[0])
