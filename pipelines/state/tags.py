"""Tags in `state.db`: the notes examined for tags, and the proposals with their outcomes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from pipelines.model import Place, Suggestion
from pipelines.sqlite import Connection, first, one, records, select, transaction
from pipelines.state.state import open_state

# The keys of the tag tables, which change: a note's domain and path, and a proposed tag.


# The path of a run of renames is that of a vocabulary, which belongs to its domain.
_IDS = "(SELECT CAST(value AS BIGINT) FROM json_each(?))"
_ALL = 2**63 - 1
_OF_A_NOTE = "action NOT IN ('renamed', 'renaming')"


class TagKeys:
    """The keys of examined notes, proposals and changes, on the connection of `Proposals`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def notes(self) -> list[tuple[str, str]]:
        """Return the domain and path of each note that the tag tables know."""
        found = select(
            self._con,
            "SELECT domain, path FROM tag_note UNION SELECT domain, path FROM tag_proposal"
            f" UNION SELECT domain, path FROM tag_audit WHERE {_OF_A_NOTE} ORDER BY domain, path",
        )
        return [(domain, path) for domain, path in found]

    def move(self, domain: str, old: str, new: str) -> None:
        """Move what is known of a note, its proposals and its log to its new path."""
        with transaction(self._con):
            # What the new path has gives way; of the log both stay.
            self._con.execute(
                "DELETE FROM tag_note WHERE domain = ?1 AND path = ?2"
                " AND EXISTS (SELECT 1 FROM tag_note WHERE domain = ?1 AND path = ?3)",
                (domain, new, old),
            )
            self._con.execute(
                "DELETE FROM tag_proposal WHERE domain = ?1 AND path = ?2 AND key IN"
                " (SELECT key FROM tag_proposal WHERE domain = ?1 AND path = ?3)",
                (domain, new, old),
            )
            of_domain = "change IN (SELECT id FROM tag_audit WHERE domain = ?1)"
            self._con.execute(
                f"DELETE FROM tag_renamed WHERE path = ?2 AND {of_domain}"
                " AND change IN (SELECT change FROM tag_renamed WHERE path = ?3)",
                (domain, new, old),
            )
            for table in ("tag_note", "tag_proposal", "tag_audit"):
                self._con.execute(
                    f"UPDATE {table} SET path = ? WHERE domain = ? AND path = ?", (new, domain, old)
                )
            self._con.execute(
                f"UPDATE tag_renamed SET path = ?2 WHERE path = ?3 AND {of_domain}", (domain, new, old)
            )

    def retag(self, names: Mapping[int, str]) -> None:
        """Give proposals the new names of their tags; one whose note has a proposal of that name is deleted."""
        with transaction(self._con):
            self._retag(names)

    def follow(self, change: int, names: Mapping[int, str]) -> None:
        """Rename the tags of proposals as `retag` does, and record their former names, so that it can be undone."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO tag_retagged SELECT ?, id, tag FROM tag_proposal"
                f" WHERE id IN {_IDS} ON CONFLICT DO NOTHING",
                (change, json.dumps(list(names))),
            )
            self._retag(names)

    def take_back(self, change: int) -> None:
        """Restore the tags that `follow` renamed, except those of proposals already written into their notes."""
        with transaction(self._con):
            found = select(
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
        with transaction(self._con):
            for move in moves:
                self._change_domain(*move)

    def _change_domain(self, old: str, new: str, path: str) -> None:
        these = "domain = ?1 AND path = ?3"
        there = "domain = ?2 AND path = ?3"
        # Of two proposals of one tag, the decided one of the new domain stays, or else the one that comes.
        for gone, kept, state in (
            (there, these, " AND state IN ('waiting', 'addition')"),
            (these, there, ""),
        ):
            self._con.execute(
                f"DELETE FROM tag_proposal WHERE {gone}{state}"
                f" AND key IN (SELECT key FROM tag_proposal WHERE {kept})",
                (old, new, path),
            )
        self._con.execute(
            f"DELETE FROM tag_note WHERE {there} AND EXISTS (SELECT 1 FROM tag_note WHERE {these})",
            (old, new, path),
        )
        for table, some in (("tag_proposal", ""), ("tag_note", ""), ("tag_audit", f" AND {_OF_A_NOTE}")):
            self._con.execute(f"UPDATE {table} SET domain = ?2 WHERE {these}{some}", (old, new, path))


# Renames in the audit log: one entry per run covers all its files, so that it is undone as a whole.


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

    def __init__(self, con: Connection) -> None:
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
                " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (at, domain, taxonomy, said, RENAMING, b"", b""),
            )
        return int(number)

    def write(self, number: int, file: RenamedFile) -> None:
        """Record a file's bytes before and after a change that is about to be made."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO tag_renamed VALUES (?, ?, ?, ?) ON CONFLICT (change, path) DO UPDATE"
                " SET head_before = excluded.head_before, head_after = excluded.head_after",
                (number, file.path, file.head_before, file.head_after),
            )

    def finish(self, number: int) -> None:
        """Record that all files of an entry are done."""
        with transaction(self._con):
            self._con.execute("UPDATE tag_audit SET action = ? WHERE id = ?", (RENAMED, number))

    def since(self, domain: str, at: str) -> list[dict[str, str]]:
        """Return each run of a domain's renames (old tag -> new) since a time, in order, without undone runs."""
        found = select(
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


# The pages of the review queue that were shown to the operator, so that ticks on them can be interpreted.


_PAGES_KEPT = 500


class ReviewPages:
    """The shown pages, on the connection of `Proposals`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def show(self, page: str, domain: str, shown: Sequence[tuple[int, str]], at: str) -> None:
        """Record which proposals (id, path then) a page is about to show; the oldest pages are deleted."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO review_page VALUES (?, ?, ?, ?) ON CONFLICT (page) DO UPDATE"
                " SET domain = excluded.domain, shown = excluded.shown, written_at = excluded.written_at",
                (page, domain, json.dumps(shown), at),
            )
            self._con.execute(
                "DELETE FROM review_page WHERE domain = ?1 AND page NOT IN"
                " (SELECT page FROM review_page WHERE domain = ?1 ORDER BY written_at DESC, page LIMIT ?2)",
                (domain, _PAGES_KEPT),
            )

    def shown(self, page: str, domain: str) -> list[tuple[int, str]] | None:
        """Return the proposals (id, path then) that a page showed, in order; None for an unknown page."""
        found = first(
            self._con, "SELECT shown FROM review_page WHERE page = ? AND domain = ?", (page, domain)
        )
        return None if found is None else [(number, path) for number, path in json.loads(found[0])]


# The daily cost of paid proposals.


class Spending:
    """The spend of each day (UTC), on the connection of `Proposals`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def add(self, day: str, proposer: str, dollars: float) -> None:
        """Add one note to a day's spend."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO tag_spend VALUES (?1, ?2, 1, ?3)"
                " ON CONFLICT (day, proposer) DO UPDATE SET notes = tag_spend.notes + 1,"
                " dollars = tag_spend.dollars + ?3",
                (day, proposer, dollars),
            )

    def of_day(self, day: str) -> tuple[int, float]:
        """Return for how many notes a day's paid proposals were, and their cost in dollars."""
        notes, dollars = one(
            self._con,
            "SELECT coalesce(sum(notes), 0), coalesce(sum(dollars), 0) FROM tag_spend WHERE day = ?",
            (day,),
        )
        return int(notes), float(dollars)


# The audit log of tags: what Everindex changed in notes, so that it can be listed and undone.


PROMOTED, UNDONE = "promoted", "undone"
"""The actions of a promotion, and of undoing one or a run of renames; `RENAMED` and `RENAMING` are those of a run."""

REPLACED = "replaced"
"""The action of a program that wrote its own note again."""

# A run that died before its first file changed nothing. The undoing of a run has the files that it restored; one that
# an earlier version recorded has none, and is counted by its run, which counts as undone at the time of that record.
_CHANGE = (
    "SELECT id, at, domain, path, tags, action, head_before, head_after, undone_at,"
    " (SELECT count(*) FROM tag_renamed r WHERE r.path <> tag_audit.path AND r.change = CASE"
    " WHEN action = 'undone' AND NOT EXISTS (SELECT 1 FROM tag_renamed own WHERE own.change = tag_audit.id)"
    " THEN (SELECT run.id FROM tag_audit run WHERE run.undone_at = tag_audit.at AND run.path = tag_audit.path)"
    " ELSE id END) AS notes"
    f" FROM tag_audit WHERE (action <> '{RENAMING}' OR EXISTS (SELECT 1 FROM tag_renamed r WHERE r.change = id))"
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that Everindex made to a note: its bytes up to the last line that differs, before and after.

    For renames (listed in `tags`) it is everything that one run did: in `notes` notes, and in the taxonomy at `path`;
    for their undoing, in how many notes they were taken back.
    """

    id: int
    at: str
    domain: str
    path: str
    tags: tuple[str, ...]
    action: str
    head_before: bytes
    head_after: bytes
    undone_at: str | None
    notes: int = 0


class ChangeLog:
    """The changes made to notes, on the connection of `Proposals`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record(self, change: Change, settled: Collection[int] = (), files: Collection[str] = ()) -> int:
        """Record a change, mark the proposals that it applied, and return its id.

        `files` are those in which it took renames back.
        """
        with transaction(self._con):
            self._con.execute(
                "UPDATE tag_proposal SET state = 'applied', reason = NULL, decided_at = ?"
                f" WHERE id IN {_IDS}",
                (change.at, json.dumps(list(settled))),
            )
            (number,) = one(
                self._con,
                "INSERT INTO tag_audit (at, domain, path, tags, action, head_before, head_after)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (
                    *(change.at, change.domain, change.path, json.dumps(change.tags), change.action),
                    *(change.head_before, change.head_after),
                ),
            )
            self._con.executemany(
                "INSERT INTO tag_renamed VALUES (?, ?, ?, ?)", [(number, path, b"", b"") for path in files]
            )
        return int(number)

    def record_replaced(self, change: Change) -> int:
        """Record that a program replaced its note, and return the id; of a note only the last such change is kept."""
        with transaction(self._con):
            self._con.execute(
                "DELETE FROM tag_audit WHERE domain = ? AND path = ? AND action = ?",
                (change.domain, change.path, REPLACED),
            )
            return self.record(change)

    def latest(self, limit: int, path: str | None = None) -> list[Change]:
        """Return the latest changes, newest first, of one note or all."""
        found = select(
            self._con,
            f"{_CHANGE} AND (?1 IS NULL OR path = ?1 OR id IN (SELECT change FROM tag_renamed WHERE path = ?1))"
            " ORDER BY id DESC LIMIT ?2",
            (path, limit),
        )
        return [_change(row) for row in found]

    def find(self, number: int | None) -> Change | None:
        """Return a change by its id, or the last one that can be undone; None if there is none."""
        found = first(
            self._con,
            f"{_CHANGE} AND (id = ?1 OR"
            f" (?1 IS NULL AND action IN ('promoted', '{RENAMED}', '{RENAMING}') AND undone_at IS NULL))"
            " ORDER BY id DESC LIMIT 1",
            (number,),
        )
        return _change(found) if found else None

    def run_of(self, change: Change) -> list[Change]:
        """Return the changes of the run of renames that a change belongs to and that are not undone, one per domain.

        They have the same time. Any other change is returned alone.
        """
        found = select(
            self._con,
            f"{_CHANGE} AND at = ? AND action IN ('{RENAMED}', '{RENAMING}') AND undone_at IS NULL ORDER BY id",
            (change.at,),
        )
        of_run = [_change(row) for row in found] if change.action in (RENAMED, RENAMING) else []
        return of_run or [change]

    def undo(self, number: int, at: str) -> None:
        """Mark a change as undone; the tags of a promotion wait again."""
        change = self.find(number)
        if change is None:
            return
        with transaction(self._con):
            self._con.execute("UPDATE tag_audit SET undone_at = ? WHERE id = ?", (at, number))
            self._con.execute(
                "UPDATE tag_proposal SET state = 'waiting', decided_at = NULL WHERE domain = ? AND path = ?"
                " AND state = 'applied' AND key IN (SELECT value FROM json_each(?))",
                (change.domain, change.path, json.dumps([tag.casefold() for tag in change.tags])),
            )


def _change(row: tuple[Any, ...]) -> Change:
    number, at, domain, path, tags, *rest = row
    return Change(number, at, domain, path, tuple(json.loads(tags)), *rest)


ProposalState = Literal["waiting", "accepted", "applied", "rejected", "refused", "addition"]
Outcome = Literal["baseline", "proposed", "nothing", "private", "failed", "asked"]
OPERATOR = "operator"
# A tag that waits for a note whose file is gone is kept but not shown.
_SHOWN = (
    " (state NOT IN ('waiting', 'addition') OR NOT EXISTS"
    " (SELECT 1 FROM tag_gone g WHERE g.domain = tag_proposal.domain AND g.path = tag_proposal.path))"
)

_PROPOSAL = (
    'id, domain, path, tag, tag_group AS "group", confidence, proposer, note_hash, state, rationale, reason,'
    " proposed_at, decided_at"
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A tag suggested for a note; `note_hash` names the bytes that the proposer saw, None for a typed tag.

    `rationale` is the proposer's, `reason` says why an accepted tag was refused or waits again. `decided_at` is when
    it got its state, None while it waits. Tags that were written into a note together have the same.
    """

    id: int
    domain: str
    path: str
    tag: str
    group: str
    confidence: float
    proposer: str
    note_hash: str | None
    state: ProposalState
    rationale: str | None
    reason: str | None
    proposed_at: str
    decided_at: str | None


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

    def __init__(self, place: Place) -> None:
        self._con = open_state(place)
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
        found = select(
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
                "INSERT INTO tag_note VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (domain, path) DO UPDATE SET"
                " note_hash = excluded.note_hash, sketch = excluded.sketch, outcome = excluded.outcome,"
                " reason = excluded.reason, attempts = excluded.attempts, next_attempt = excluded.next_attempt",
                [
                    (domain, path, n.note_hash, n.sketch, n.outcome, n.reason, n.attempts, n.next_attempt)
                    for path, n in notes.items()
                ],
            )

    def without(self, domain: str) -> dict[str, str]:
        """Return the notes of a domain that were examined without a proposal, by path: the reason, or "".

        A note for which a tag waits, or is to be written, has a proposal: an agent's, or an earlier one.
        """
        found = select(
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
        rationale: str | None = None,
    ) -> int:
        """Add suggestions, each with its tag's group, except those that the operator has already decided on.

        `rationale` is what the proposer says for them; it is shown as data.
        """
        with transaction(self._con):
            before = self._con.total_changes()
            self._con.executemany(
                "INSERT INTO tag_proposal"
                " (domain, path, key, tag, tag_group, confidence, proposer, note_hash, state, proposed_at, rationale)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?) ON CONFLICT DO NOTHING",
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
                        rationale,
                    )
                    for s, group in suggestions
                ],
            )
            return self._con.total_changes() - before

    def of_state(
        self,
        domain: str | None,
        *states: ProposalState,
        limit: int = _ALL,
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
            select(
                self._con,
                "SELECT min(tag), count(*) FROM tag_proposal WHERE (?1 IS NULL OR domain = ?1)"
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
            f"SELECT {_PROPOSAL} FROM tag_proposal WHERE id IN {_IDS} ORDER BY id",
            (json.dumps(list(ids)),),
        )

    def version(self, domain: str) -> list[Any]:
        """Return a value that changes whenever a page would: counts and ids by state, and the notes that wait."""
        found = select(
            self._con,
            "SELECT state, count(*), max(id), sum(id),"
            " group_concat(CASE WHEN state IN ('waiting', 'addition') THEN path END)"
            f" FROM tag_proposal WHERE domain = ? AND {_SHOWN} GROUP BY state ORDER BY state",
            (domain,),
        )
        return [[*row, sha256((paths or "").encode()).hexdigest()] for *row, paths in found]

    def counts(self) -> dict[tuple[str, str], int]:
        """Count the proposals by domain and state, without those that wait for a note that is gone."""
        found = select(
            self._con,
            f"SELECT domain, state, count(*) FROM tag_proposal WHERE {_SHOWN} GROUP BY domain, state",
        )
        return {(domain, state): count for domain, state, count in found}

    def open_paths(self, domain: str) -> set[str]:
        """Return the notes of a domain, gone or not, that have waiting tags."""
        found = select(
            self._con,
            "SELECT DISTINCT path FROM tag_proposal WHERE domain = ? AND state IN ('waiting', 'addition')",
            (domain,),
        )
        return {path for (path,) in found}

    def gone(self, domain: str) -> set[str]:
        """Return the notes of a domain that are known to be gone and have waiting tags."""
        return {
            path for (path,) in select(self._con, "SELECT path FROM tag_gone WHERE domain = ?", (domain,))
        }

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
        sql = f"DELETE FROM tag_proposal WHERE id IN {_IDS} AND state = 'waiting'"
        with transaction(self._con):
            self._con.execute(sql, (json.dumps(list(ids)),))

    def decide(
        self, ids: Collection[int], state: ProposalState, at: str, *, reason: str | None = None
    ) -> int:
        """Decide on waiting proposals and return how many; those already decided stay as they are."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE tag_proposal SET state = ?, reason = ?, decided_at = ?"
                f" WHERE id IN {_IDS} AND state IN ('waiting', 'addition')",
                (state, reason, at, json.dumps(list(ids))),
            )
            return self._con.changes()

    def settle(self, ids: Collection[int], state: ProposalState, at: str, reason: str | None = None) -> None:
        """Record the outcome of accepted proposals: applied, refused, or waiting again."""
        with transaction(self._con):
            self._con.execute(
                f"UPDATE tag_proposal SET state = ?, reason = ?, decided_at = ? WHERE id IN {_IDS}",
                (state, reason, at, json.dumps(list(ids))),
            )

    def want(self, domain: str, path: str, tag: str, group: str, state: ProposalState, at: str) -> None:
        """Record a tag that the operator typed for a note: accepted, or an addition to the vocabulary."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO tag_proposal"
                " (domain, path, key, tag, tag_group, confidence, proposer, state, proposed_at, decided_at)"
                " VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?8)"
                " ON CONFLICT (domain, path, key) DO UPDATE SET state = ?7, tag = ?4, reason = NULL, decided_at = ?8"
                " WHERE tag_proposal.state NOT IN ('accepted', 'applied')",
                (domain, path, tag.casefold(), tag, group, OPERATOR, state, at),
            )
