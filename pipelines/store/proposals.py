"""Tags in `state.db`: the notes examined for tags, and the proposals with their outcomes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pipelines.model import Suggestion
from pipelines.store.change_log import ChangeLog
from pipelines.store.connection import records, rows, transaction
from pipelines.store.rename_log import RenameLog
from pipelines.store.review_pages import ReviewPages
from pipelines.store.spending import Spending
from pipelines.store.state_file import open_state
from pipelines.store.tag_keys import TagKeys

ProposalState = Literal["waiting", "accepted", "applied", "rejected", "refused", "addition"]
Outcome = Literal["baseline", "proposed", "nothing", "private", "failed", "asked"]
OPERATOR = "operator"
# A tag that waits for a note whose file is gone is kept but not shown.
_SHOWN = (
    " (state NOT IN ('waiting', 'addition') OR NOT EXISTS"
    " (SELECT 1 FROM tag_gone g WHERE g.domain = tag_proposal.domain AND g.path = tag_proposal.path))"
)

_PROPOSAL = (
    'id, domain, path, tag, tag_group AS "group", confidence, proposer, note_hash, state, reason, proposed_at'
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A tag suggested for a note; `note_hash` names the bytes that the proposer saw, None for a typed tag."""

    id: int
    domain: str
    path: str
    tag: str
    group: str
    confidence: float
    proposer: str
    note_hash: str | None
    state: ProposalState
    reason: str | None
    proposed_at: str


@dataclass(frozen=True, slots=True)
class Looked:
    """A note that was examined for tags: its content then, the outcome, and when a failed one is retried."""

    note_hash: str
    sketch: bytes
    outcome: Outcome
    reason: str | None
    attempts: int
    next_attempt: float | None


class Proposals:
    """A connection to the tag tables in a vault's `state.db`."""

    def __init__(self, folder: Path) -> None:
        self._con = open_state(folder)
        self.changes = ChangeLog(self._con)
        self.renames = RenameLog(self._con)
        self.spending = Spending(self._con)
        self.pages = ReviewPages(self._con)
        self.keys = TagKeys(self._con)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    # Examined notes

    def looked_at(self, domain: str) -> dict[str, Looked]:
        """Return what is known of each examined note of a domain."""
        found = rows(
            self._con,
            "SELECT path, note_hash, sketch, outcome, reason, attempts, next_attempt FROM tag_note"
            " WHERE domain = ?",
            (domain,),
        )
        return {path: Looked(*rest) for path, *rest in found}

    def look(self, domain: str, notes: Mapping[str, Looked]) -> None:
        """Record examined notes, replacing what was known of them."""
        with transaction(self._con):
            self._con.executemany(
                "INSERT OR REPLACE INTO tag_note VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (domain, path, n.note_hash, n.sketch, n.outcome, n.reason, n.attempts, n.next_attempt)
                    for path, n in notes.items()
                ],
            )

    def without(self, domain: str) -> dict[str, str]:
        """Return the notes of a domain that were examined without a proposal, by path: the reason, or "".

        A note for which a tag waits, or is to be written, has a proposal: an agent's, or an earlier one.
        """
        found = rows(
            self._con,
            "SELECT path, coalesce(reason, '') FROM tag_note WHERE domain = ?1"
            " AND outcome IN ('nothing', 'private', 'failed') AND path NOT IN (SELECT path FROM tag_proposal"
            "  WHERE domain = ?1 AND state IN ('waiting', 'addition', 'accepted')) ORDER BY path",
            (domain,),
        )
        return dict(found)

    def ask(self, domain: str, paths: Collection[str]) -> None:
        """Request that notes be examined (again), whatever the outcome was before."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE tag_note SET outcome = 'asked', attempts = 0, next_attempt = NULL"
                " WHERE domain = ? AND path IN (SELECT value FROM json_each(?))",
                (domain, json.dumps(list(paths))),
            )

    # Proposals

    def add(
        self,
        domain: str,
        path: str,
        suggestions: Iterable[tuple[Suggestion, str]],
        *,
        proposer: str,
        note_hash: str,
        at: str,
        reason: str | None = None,
    ) -> int:
        """Add suggestions, each with its tag's group, except those that the operator has already decided on.

        `reason` is what the proposer says for them; it is shown as data.
        """
        with transaction(self._con):
            before = self._con.total_changes()
            self._con.executemany(
                "INSERT OR IGNORE INTO tag_proposal"
                " (domain, path, key, tag, tag_group, confidence, proposer, note_hash, state, proposed_at, reason)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)",
                [
                    (
                        domain,
                        path,
                        s.tag.casefold(),
                        s.tag,
                        group,
                        s.confidence,
                        proposer,
                        note_hash,
                        at,
                        reason,
                    )
                    for s, group in suggestions
                ],
            )
            return self._con.total_changes() - before

    def of_state(
        self,
        domain: str | None,
        *states: ProposalState,
        limit: int = -1,
        tag: str | None = None,
        sure: float = 0.0,
    ) -> list[Proposal]:
        """Return the proposals in these states, newest first, a note's best first.

        They may be of one domain or all, of one tag, of at least the confidence `sure`. Those that wait for a missing
        note are left out.
        """
        return records(
            self._con,
            Proposal,
            f"SELECT {_PROPOSAL} FROM tag_proposal WHERE (?1 IS NULL OR domain = ?1)"
            f" AND state IN (SELECT value FROM json_each(?2)) AND {_SHOWN}"
            " AND (?4 IS NULL OR key = ?4) AND confidence >= ?5"
            " ORDER BY proposed_at DESC, path, confidence DESC, id LIMIT ?3",
            (domain, json.dumps(states), limit, tag and tag.casefold(), sure),
        )

    def tags(self, domain: str | None, *states: ProposalState) -> dict[str, int]:
        """Count the proposals in these states by tag, ordered by name, without those for a note that is gone."""
        return dict(
            rows(
                self._con,
                "SELECT tag, count(*) FROM tag_proposal WHERE (?1 IS NULL OR domain = ?1)"
                f" AND state IN (SELECT value FROM json_each(?2)) AND {_SHOWN} GROUP BY key ORDER BY key",
                (domain, json.dumps(states)),
            )
        )

    def of_note(self, domain: str, path: str) -> list[Proposal]:
        """Return a note's proposals in every state, newest first, then best first."""
        return records(
            self._con,
            Proposal,
            f"SELECT {_PROPOSAL} FROM tag_proposal WHERE domain = ? AND path = ?"
            " ORDER BY proposed_at DESC, confidence DESC, id",
            (domain, path),
        )

    def get(self, ids: Collection[int]) -> list[Proposal]:
        """Return proposals by id."""
        return records(
            self._con,
            Proposal,
            f"SELECT {_PROPOSAL} FROM tag_proposal WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
            (json.dumps(list(ids)),),
        )

    def version(self, domain: str) -> list[Any]:
        """Return a value that changes whenever a page would: counts and ids by state, and the notes that wait."""
        found = rows(
            self._con,
            "SELECT state, count(*), max(id), sum(id), group_concat(iif(state IN ('waiting','addition'), path, NULL))"
            f" FROM tag_proposal WHERE domain = ? AND {_SHOWN} GROUP BY state ORDER BY state",
            (domain,),
        )
        return [[*row, sha256((paths or "").encode()).hexdigest()] for *row, paths in found]

    def counts(self) -> dict[tuple[str, str], int]:
        """Count the proposals by domain and state, without those that wait for a note that is gone."""
        found = rows(
            self._con,
            f"SELECT domain, state, count(*) FROM tag_proposal WHERE {_SHOWN} GROUP BY domain, state",
        )
        return {(domain, state): count for domain, state, count in found}

    def open_paths(self, domain: str) -> set[str]:
        """Return the notes of a domain, gone or not, that have waiting tags."""
        found = rows(
            self._con,
            "SELECT DISTINCT path FROM tag_proposal WHERE domain = ? AND state IN ('waiting', 'addition')",
            (domain,),
        )
        return {path for (path,) in found}

    def gone(self, domain: str) -> set[str]:
        """Return the notes of a domain that are known to be gone and have waiting tags."""
        return {path for (path,) in rows(self._con, "SELECT path FROM tag_gone WHERE domain = ?", (domain,))}

    def set_gone(self, domain: str, paths: Collection[str]) -> None:
        """Replace the list of a domain's notes that are gone; their waiting tags are not shown."""
        with transaction(self._con):
            self._con.execute("DELETE FROM tag_gone WHERE domain = ?", (domain,))
            self._con.executemany("INSERT INTO tag_gone VALUES (?, ?)", [(domain, path) for path in paths])

    def forget(self, domain: str, path: str) -> None:
        """Delete the waiting proposals of a path that now holds another note; decisions stay."""
        with transaction(self._con):
            self._con.execute(
                "DELETE FROM tag_proposal WHERE domain = ? AND path = ? AND state = 'waiting'", (domain, path)
            )

    def drop(self, ids: Collection[int]) -> None:
        """Delete waiting proposals by id; those already decided stay."""
        sql = "DELETE FROM tag_proposal WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting'"
        with transaction(self._con):
            self._con.execute(sql, (json.dumps(list(ids)),))

    def decide(
        self, ids: Collection[int], state: ProposalState, at: str, *, reason: str | None = None
    ) -> int:
        """Decide on waiting proposals and return how many; those already decided stay as they are."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE tag_proposal SET state = ?, reason = ?, decided_at = ?"
                " WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('waiting', 'addition')",
                (state, reason, at, json.dumps(list(ids))),
            )
            return self._con.changes()

    def settle(self, ids: Collection[int], state: ProposalState, at: str, reason: str | None = None) -> None:
        """Record the outcome of accepted proposals: applied, refused, or waiting again."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE tag_proposal SET state = ?, reason = ?, decided_at = ?"
                " WHERE id IN (SELECT value FROM json_each(?))",
                (state, reason, at, json.dumps(list(ids))),
            )

    def want(self, domain: str, path: str, tag: str, group: str, state: ProposalState, at: str) -> None:
        """Record a tag that the operator typed for a note: accepted, or an addition to the vocabulary."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO tag_proposal"
                " (domain, path, key, tag, tag_group, confidence, proposer, state, proposed_at, decided_at)"
                " VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?8)"
                " ON CONFLICT DO UPDATE SET state = ?7, tag = ?4, reason = NULL, decided_at = ?8"
                " WHERE state NOT IN ('accepted', 'applied')",
                (domain, path, tag.casefold(), tag, group, OPERATOR, state, at),
            )
