"""The SQL views of a vault in PostgreSQL, for dashboards and programs: what its current caches hold, by domain."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from pipelines.model import PostgresPlace
from pipelines.sqlite import first, select, transaction

_VERSION = "views"
"""The key in `state_meta` of the version of the views that there are."""


class ViewedDomain(NamedTuple):
    """A domain that the views show, and which of its notes are private (as `pipelines.cache.notes.Rules`).

    `configuration`: the paths of its own files, which quote notes.
    """

    domain: str
    llm: bool
    tags: list[str]
    folders: list[str]
    folder: str
    nested: list[str]
    configuration: list[str]


def show(place: PostgresPlace, domains: Sequence[ViewedDomain]) -> None:
    """Have the views show these domains; make the views if they are missing or of another version.

    The vault's state must be there. Raises StateError, StorageUnavailableError.
    """
    from pipelines.postgres import PostgresConnection  # noqa: PLC0415 - its library is not always installed

    script = files(__package__).joinpath("views.sql").read_text(encoding="utf-8")
    version = sha256(script.encode()).hexdigest()
    with closing(PostgresConnection(place.address, place.schema("state"))) as con, transaction(con):
        if first(con, "SELECT value FROM state_meta WHERE key = ?", (_VERSION,)) != (version,):
            # Those who write the state wait meanwhile, and must not wait for a reader's long query.
            con.execute("SET LOCAL lock_timeout = '2s'")
            schemas = {"state": con.schema, "all": place.schema("views_all"), "views": place.schema("views")}
            con.run(
                script, schemas, {"vault": place.vault} | {f"{key}_name": schemas[key] for key in schemas}
            )
            con.execute(
                "INSERT INTO state_meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (_VERSION, version),
            )
        if select(con, "SELECT * FROM view_domain ORDER BY domain") != sorted(domains):
            con.execute("DELETE FROM view_domain")
            con.executemany("INSERT INTO view_domain VALUES (?, ?, ?, ?, ?, ?, ?)", domains)
