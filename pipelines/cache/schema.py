"""What a cache was built with: model, dimension, schema and pipeline version."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from pipelines.errors import CacheCorruptError, CacheError, CacheMissingError, ModelMismatchError
from pipelines.sqlite import Connection, Steps, connect, corrupt, first, one, select, steps_of

_OLDEST = 4
SET_META = "INSERT INTO vault_meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


@dataclass(frozen=True, slots=True)
class CacheMeta:
    """What a cache was built with; `pipeline` identifies everything that determines the chunks that it contains."""

    model: str
    dimension: int
    pipeline: str

    @property
    def embeds(self) -> bool:
        """Say whether its passages get vectors: not where the model is `none`."""
        return self.dimension > 0

    @property
    def version(self) -> str:
        """The version of the pipeline, which determines how sentences are divided."""
        return self.pipeline.partition(":")[0]


def steps_for(dimension: int) -> Steps:
    """Return the steps that make a cache for vectors of a dimension."""
    steps = steps_of(__package__)
    # A table of vectors has a dimension, even if it stays empty.
    return {number: sql.replace(":dimension]", f"{dimension or 1}]") for number, sql in steps.items()}


def build(con: Connection, meta: CacheMeta) -> None:
    """Create the tables of a new cache (inside the caller's transaction)."""
    if isinstance(con, apsw.Connection):
        for sql in steps_for(meta.dimension).values():
            con.execute(sql)
    con.executemany(
        "INSERT INTO vault_meta VALUES (?, ?)",
        [("model", meta.model), ("dimension", str(meta.dimension)), ("pipeline", meta.pipeline)],
    )


def version_of(con: Connection) -> int:
    """Return the number of the last step that made a cache. Raises CacheError."""
    return int(one(con, "SELECT value FROM vault_meta WHERE key = 'schema_version'")[0])


def read_meta(con: Connection, path: Path) -> CacheMeta:
    """Return what a cache was built with. Raises CacheMissingError if it is empty, CacheError."""
    if isinstance(con, apsw.Connection) and not first(con, "SELECT 1 FROM sqlite_master"):
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
    lost += [key for key in ("dimension", "schema_version") if key not in lost and not meta[key].isdecimal()]
    if lost:
        raise corrupt(path, ValueError(f"vault_meta lacks its {', '.join(lost)}"))
    version, latest = int(meta["schema_version"]), max(steps_of(__package__))
    if not _OLDEST <= version <= latest:
        age = "a later" if version > latest else "a very early"
        raise CacheError(
            f"{path} was made by {age} version of Everindex (schema {version}; this one knows {_OLDEST} to {latest});"
            " run that version, or `everindex index --rebuild`, which builds a new index and keeps this one"
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


def mend_schema(con: apsw.Connection, meta: CacheMeta) -> None:
    """Replace a cache's triggers, indexes and views by those of a new one (inside the caller's transaction)."""
    have, wanted = objects_of(con), wanted_objects(meta)
    for kind, name in have:
        if have[kind, name] != wanted.get((kind, name)):
            quoted = name.replace('"', '""')
            con.execute(f'DROP {kind} "{quoted}"')
    for key, sql in wanted.items():
        if have.get(key) != sql:
            con.execute(sql)


def fresh_cache(meta: CacheMeta) -> apsw.Connection:
    """Return a new cache in memory."""
    con = connect(Path(":memory:"))
    build(con, meta)
    return con


def wanted_objects(meta: CacheMeta) -> dict[tuple[str, str], str]:
    """Return the triggers, indexes and views that a new cache has, as `objects_of` does."""
    with closing(fresh_cache(meta)) as fresh:
        return objects_of(fresh)


def objects_of(con: apsw.Connection) -> dict[tuple[str, str], str]:
    """Return the SQL of the triggers, indexes and views of a cache, by their kind and name."""
    found = select(con, "SELECT type, name, sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL")
    return {(kind, name): sql for kind, name, sql in found}
