"""Renames in the audit log: one entry per run covers all its files, so that it is undone as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import apsw

from pipelines.store.connection import one, records, rows, transaction
from pipelines.store.connection import row as first

RENAMING, RENAMED = "renaming", "renamed"
"""The action of an entry until all of its files are done, and afterwards."""

_TO = " -> "


def pairs_of(tags: Iterable[str]) -> dict[str, str]:
    """Return the renames (old tag -> new) that the tags of an entry describe."""
    return dict(said.split(_TO) for said in tags)


@dataclass(frozen=True, slots=True)
class RenamedFile:
    """A file in which tags were renamed: its bytes up to the last line that differs, before and after."""

    path: str
    head_before: bytes
    head_after: bytes


class RenameLog:
    """The renames in the audit log, on the connection of `Proposals`."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

    def begin(self, domain: str, taxonomy: str, renames: Sequence[tuple[str, str]], at: str) -> int:
        """Return the entry of a domain's unfinished renames, or a new one."""
        with transaction(self._con):
            found = first(
                self._con,
                "SELECT id FROM tag_audit WHERE domain = ? AND action = ?"
                " AND EXISTS (SELECT 1 FROM tag_renamed WHERE change = id) ORDER BY id DESC LIMIT 1",
                (domain, RENAMING),
            )
            if found:
                return int(found[0])
            self._con.execute("DELETE FROM tag_audit WHERE domain = ? AND action = ?", (domain, RENAMING))
            said = json.dumps([f"{old}{_TO}{new}" for old, new in renames], ensure_ascii=False)
            (number,) = one(
                self._con,
                "INSERT INTO tag_audit (at, domain, path, tags, action, head_before, head_after)"
                " VALUES (?, ?, ?, ?, ?, x'', x'') RETURNING id",
                (at, domain, taxonomy, said, RENAMING),
            )
        return int(number)

    def write(self, number: int, file: RenamedFile) -> None:
        """Record a file's bytes before and after a change that is about to be made."""
        with transaction(self._con):
            self._con.execute(
                "INSERT OR REPLACE INTO tag_renamed VALUES (?, ?, ?, ?)",
                (number, file.path, file.head_before, file.head_after),
            )

    def finish(self, number: int) -> None:
        """Record that all files of an entry are done."""
        with transaction(self._con):
            self._con.execute("UPDATE tag_audit SET action = ? WHERE id = ?", (RENAMED, number))

    def since(self, domain: str, at: str) -> list[dict[str, str]]:
        """Return each run of a domain's renames (old tag -> new) since a time, in order, without undone runs."""
        found = rows(
            self._con,
            "SELECT tags FROM tag_audit WHERE domain = ? AND at >= ? AND action IN (?, ?) AND undone_at IS NULL"
            " ORDER BY id",
            (domain, at, RENAMING, RENAMED),
        )
        return [pairs_of(json.loads(tags)) for (tags,) in found]

    def files(self, number: int) -> list[RenamedFile]:
        """Return the files of an entry, by path."""
        return records(
            self._con,
            RenamedFile,
            "SELECT path, head_before, head_after FROM tag_renamed WHERE change = ? ORDER BY path",
            (number,),
        )
