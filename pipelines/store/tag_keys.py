"""The keys of the tag tables, which change: a note's domain and path, and a proposed tag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import apsw

from pipelines.store.connection import rows, transaction

# The path of a run of renames is that of a vocabulary, which belongs to its domain.
_OF_A_NOTE = "action NOT IN ('renamed', 'renaming')"
_MOVES = (
    "(SELECT value ->> 0 AS old, value ->> 1 AS new, value ->> 2 AS path FROM json_each(?1)) m"
    " WHERE {table}.domain = m.old AND {table}.path = m.path"
)


class TagKeys:
    """The keys of examined notes, proposals and changes, on the connection of `Proposals`."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

    def notes(self) -> list[tuple[str, str]]:
        """Return the domain and path of each note that the tag tables know."""
        found = rows(
            self._con,
            "SELECT domain, path FROM tag_note UNION SELECT domain, path FROM tag_proposal"
            f" UNION SELECT domain, path FROM tag_audit WHERE {_OF_A_NOTE}",
        )
        return [(domain, path) for domain, path in found]

    def move(self, domain: str, old: str, new: str) -> None:
        """Move what is known of a note, its proposals and its log to its new path."""
        with transaction(self._con):
            for table in ("tag_note", "tag_proposal", "tag_audit"):
                self._con.execute(
                    f"UPDATE OR REPLACE {table} SET path = ? WHERE domain = ? AND path = ?",
                    (new, domain, old),
                )
            self._con.execute(
                "UPDATE OR REPLACE tag_renamed SET path = ?2 WHERE path = ?3"
                " AND change IN (SELECT id FROM tag_audit WHERE domain = ?1)",
                (domain, new, old),
            )

    def retag(self, names: Mapping[int, str]) -> None:
        """Give proposals the new names of their tags; one whose note has a proposal of that name is deleted."""
        with transaction(self._con):
            self._retag(names)

    def follow(self, change: int, names: Mapping[int, str]) -> None:
        """Rename the tags of proposals as `retag` does, and record their former names, so that it can be undone."""
        with transaction(self._con):
            self._con.execute(
                "INSERT OR IGNORE INTO tag_retagged SELECT ?, id, tag FROM tag_proposal"
                " WHERE id IN (SELECT value FROM json_each(?))",
                (change, json.dumps(list(names))),
            )
            self._retag(names)

    def take_back(self, change: int) -> None:
        """Restore the tags that `follow` renamed, except those of proposals already written into their notes."""
        with transaction(self._con):
            found = rows(
                self._con,
                "SELECT p.id, r.tag FROM tag_retagged r JOIN tag_proposal p ON p.id = r.proposal"
                " WHERE r.change = ? AND p.state <> 'applied'",
                (change,),
            )
            self._retag(dict(found))
            self._con.execute("DELETE FROM tag_retagged WHERE change = ?", (change,))

    def _retag(self, names: Mapping[int, str]) -> None:
        for number, tag in names.items():
            self._con.execute(
                "DELETE FROM tag_proposal AS own WHERE id = ?1 AND EXISTS (SELECT 1 FROM tag_proposal o"
                " WHERE o.domain = own.domain AND o.path = own.path AND o.key = ?2 AND o.id <> ?1)",
                (number, tag.casefold()),
            )
            self._con.execute(
                "UPDATE tag_proposal SET tag = ?2, key = ?3 WHERE id = ?1", (number, tag, tag.casefold())
            )

    def change_domains(self, moves: Sequence[tuple[str, str, str]]) -> None:
        """Give what is known of notes to another domain: each move is the old domain, the new one and the path.

        A decision that the new domain has on a tag stays; otherwise the moved proposal counts.
        """
        said = json.dumps(moves)
        of_proposal = _MOVES.format(table="tag_proposal")
        with transaction(self._con):
            self._con.execute(
                "DELETE FROM tag_proposal WHERE state IN ('waiting', 'addition') AND id IN"
                " (SELECT there.id FROM tag_proposal there JOIN tag_proposal coming USING (path, key)"
                " JOIN (SELECT value ->> 0 AS old, value ->> 1 AS new, value ->> 2 AS path FROM json_each(?1)) m"
                " ON there.domain = m.new AND coming.domain = m.old AND coming.path = m.path)",
                (said,),
            )
            self._con.execute(f"UPDATE OR IGNORE tag_proposal SET domain = m.new FROM {of_proposal}", (said,))
            self._con.execute(f"DELETE FROM tag_proposal WHERE EXISTS (SELECT 1 FROM {of_proposal})", (said,))
            self._con.execute(
                f"UPDATE OR REPLACE tag_note SET domain = m.new FROM {_MOVES.format(table='tag_note')}",
                (said,),
            )
            self._con.execute(
                f"UPDATE tag_audit SET domain = m.new FROM {_MOVES.format(table='tag_audit')} AND {_OF_A_NOTE}",
                (said,),
            )
