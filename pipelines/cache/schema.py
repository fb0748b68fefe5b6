"""What a cache was built with: model, dimension, schema and pipeline version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import apsw

from pipelines.errors import CacheCorruptError, CacheError, CacheMissingError, ModelMismatchError
from pipelines.sqlite import corrupt, first, select

SCHEMA_VERSION = 4
# Not in schema.sql: a cache that was created without them gets them when it is opened for writing.
_LATER = (
    # What a note itself says about its privacy (`model.OwnPrivacy`), in one transaction with its other rows.
    # tag_lines: its tags, each on a line of its own, with a line end before the first; empty without tags.
    """CREATE TABLE IF NOT EXISTS vault_privacy (
    path TEXT PRIMARY KEY,
    private INTEGER NOT NULL,
    place TEXT NOT NULL,
    tag_lines TEXT NOT NULL
) WITHOUT ROWID""",
    # Where in a document a chunk is (JSON, `pipelines.model.Locator`), if its lines do not say it.
    """CREATE TABLE IF NOT EXISTS vault_place (
    chunk_id INTEGER PRIMARY KEY,
    locator TEXT NOT NULL
)""",
    # What is embedded before a chunk's text, if anything.
    """CREATE TABLE IF NOT EXISTS vault_context (
    chunk_id INTEGER PRIMARY KEY,
    context TEXT NOT NULL
)""",
    # Where a note's dates come from, if it states any; vault_node has its date of creation (`model.Dates`).
    # *_after: a date by git takes precedence.
    """CREATE TABLE IF NOT EXISTS vault_date (
    path TEXT PRIMARY KEY,
    created_by TEXT,
    created_after INTEGER NOT NULL,
    changed TEXT,
    changed_by TEXT,
    changed_after INTEGER NOT NULL
) WITHOUT ROWID""",
    # A file's first and last commit (ISO 8601, UTC), as of the commit in vault_meta. `changed` is valid while the
    # file has the time `written` (seconds since 1970).
    """CREATE TABLE IF NOT EXISTS vault_git (
    path TEXT PRIMARY KEY,
    created TEXT,
    changed TEXT,
    written INTEGER
) WITHOUT ROWID""",
    # used by `Leases.take_saves`
    """CREATE INDEX IF NOT EXISTS vault_file_noticed ON vault_file
    (priority DESC, wanted_hash IS NULL, dirty_since DESC) WHERE applied_generation < generation AND parked = 0""",
    # used by `Leases.take_apart`
    "CREATE INDEX IF NOT EXISTS vault_file_apart ON vault_file (path) WHERE error_kind = 'apart'",
)

ADDED_LATER = frozenset(re.findall(r"^CREATE \w+ IF NOT EXISTS (\w+)", "\n".join(_LATER), re.MULTILINE))
"""The names of the tables and indexes that a cache of an earlier version may lack until it is opened for writing."""


@dataclass(frozen=True, slots=True)
class CacheMeta:
    """What a cache was built with; `pipeline` identifies everything that determines the chunks that it contains."""

    model: str
    dimension: int
    pipeline: str


def schema_of(dimension: int) -> str:
    """Return the SQL that creates a cache for vectors of a dimension."""
    schema = files("pipelines.cache").joinpath("schema.sql").read_text(encoding="utf-8")
    return schema.replace(":dimension]", f"{dimension}]") + ";\n".join(_LATER)


def build(con: apsw.Connection, meta: CacheMeta) -> None:
    """Create the tables of a new cache (inside the caller's transaction)."""
    con.execute(schema_of(meta.dimension))
    con.executemany(
        "INSERT INTO vault_meta VALUES (?, ?)",
        [
            ("model", meta.model),
            ("dimension", str(meta.dimension)),
            ("pipeline", meta.pipeline),
            ("schema_version", str(SCHEMA_VERSION)),
        ],
    )


def add_later(con: apsw.Connection) -> None:
    """Create what a cache made by an earlier version lacks (inside the caller's transaction)."""
    for statement in _LATER:
        con.execute(statement)


def show_missing(con: apsw.Connection) -> list[str]:
    """Let a connection that cannot write read a cache of an earlier version; return the tables that it lacks."""
    lacks = [
        name
        for name in ("vault_place", "vault_date", "vault_git")
        if not first(con, "SELECT 1 FROM sqlite_schema WHERE name = ?", (name,))
    ]
    for name in lacks:
        created = next(statement for statement in _LATER if f" {name} (" in statement)
        con.execute(created.replace("TABLE IF NOT EXISTS", "TEMP TABLE"))
    return lacks


def read_meta(con: apsw.Connection, path: Path) -> CacheMeta:
    """Return what a cache was built with. Raises CacheMissingError if it is empty, CacheError."""
    if not first(con, "SELECT 1 FROM sqlite_master"):
        raise missing(path)
    try:
        meta = dict(select(con, "SELECT key, value FROM vault_meta"))
    except (apsw.SQLError, CacheCorruptError, UnicodeDecodeError) as error:
        raise CacheCorruptError(
            f"{path} is not an Everindex cache ({error.__cause__ or error}); `everindex index --rebuild` builds a"
            " new one beside it and keeps it"
        ) from error
    lost = [
        key
        for key in ("model", "dimension", "pipeline", "schema_version")
        if not isinstance(meta.get(key), str)
    ]
    if lost or not meta["dimension"].isdecimal():
        raise corrupt(path, ValueError(f"vault_meta lacks its {', '.join(lost) or 'dimension'}"))
    if meta.get("schema_version") != str(SCHEMA_VERSION):
        raise CacheError(
            f"{path} was made by another version of Everindex (schema {meta.get('schema_version')}, this one "
            f"writes {SCHEMA_VERSION}); run `everindex index --rebuild`"
        )
    return CacheMeta(meta["model"], int(meta["dimension"]), meta["pipeline"])


def check_model(found: CacheMeta, model: str, dimension: int, path: Path) -> None:
    """Raise ModelMismatchError, with the ways out, if a cache was built with another model."""
    if (found.model, found.dimension) != (model, dimension):
        raise ModelMismatchError(
            f"{path.name} was built with {found.model} ({found.dimension} dimensions), but the settings say "
            f"{model} ({dimension}); run `everindex reembed` to switch, or restore the setting "
            f"(EMBEDDING_MODEL={found.model})"
        )


def missing(path: Path) -> CacheMissingError:
    """Return the error for a missing cache, with the commands that create one."""
    return CacheMissingError(f"{path} does not exist yet; `everindex up` or `everindex index` creates it")
