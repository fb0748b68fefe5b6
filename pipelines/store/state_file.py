"""The file `state.db`: every connection to it is opened here, with all of its tables created."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import apsw

from pipelines.documents.formats import MARKDOWN, OF_A_NEW_VAULT
from pipelines.store.connection import connect, row, rows, transaction

STATE_FILE = "state.db"
_FORMATS = "vault_format"
_CREATED = re.compile(r"^CREATE (?:TABLE|INDEX) IF NOT EXISTS (\w+)", re.MULTILINE)
# Versions 0.1.0 and 0.2.0 kept these two decisions among the facts. A pause counts whatever its value is.
_OLD_DECISIONS = "key GLOB 'paused:*' OR key GLOB 'forgotten:*'"
_MOVE_OLD_DECISIONS = f"""
INSERT OR IGNORE INTO paused_domain
    SELECT substr(key, 8), coalesce(
        CASE WHEN json_valid(value) AND json_type(value) = 'object' THEN value ->> '$.since' END,
        strftime('%Y-%m-%dT%H:%M:%S+00:00', at, 'unixepoch')
    ) FROM fact WHERE key GLOB 'paused:*';
INSERT OR IGNORE INTO dismissed_note
    SELECT substr(fact.key, 11), note.key, note.value
    FROM fact, json_each(CASE WHEN json_valid(fact.value) THEN fact.value ELSE '{{}}' END) AS note
    WHERE fact.key GLOB 'forgotten:*' AND note.type = 'integer';
DELETE FROM fact WHERE {_OLD_DECISIONS};
"""


def cache_name(domain: str, number: int) -> str:
    """Return the name of the file, beside `state.db`, of a domain's cache with a number (from 1)."""
    return f"cache-{domain}.{number}.db"


def state_schema() -> str:
    """Return the SQL that creates whatever a `state.db` lacks."""
    return files("pipelines.store").joinpath("state.sql").read_text(encoding="utf-8")


def open_state(folder: Path) -> apsw.Connection:
    """Open a vault's `state.db`, and create the tables that it lacks.

    Raises StateError, CacheCorruptError, StorageUnavailableError.
    """
    con = connect(folder / STATE_FILE)
    schema = state_schema()
    # Only read a file that has every table and index, so that a process that holds its lock delays no reader.
    present = {name for (name,) in rows(con, "SELECT name FROM sqlite_schema")}
    if not present.issuperset(_CREATED.findall(schema)):
        with transaction(con):
            con.execute(schema)
            if _FORMATS not in present:
                # A vault that an earlier version indexed stays as its owner knows it.
                formats = (MARKDOWN,) if present else OF_A_NEW_VAULT
                con.executemany(f"INSERT OR IGNORE INTO {_FORMATS} VALUES (?)", ((name,) for name in formats))
    _move_old_decisions(con)
    return con


def _move_old_decisions(con: apsw.Connection) -> None:
    if row(con, f"SELECT 1 FROM fact WHERE {_OLD_DECISIONS} LIMIT 1"):
        with transaction(con):
            con.execute(_MOVE_OLD_DECISIONS)
