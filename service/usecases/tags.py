"""Tags: proposals, decisions, promotion, renames and the change log."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from pipelines.cache.cache import SqliteCache
from pipelines.domains import DOMAINS_FILE
from pipelines.errors import (
    CacheError,
    CannotUndoError,
    NoteTagsError,
    NotFoundError,
    TaxonomyError,
    TooManyWaitingError,
)
from pipelines.model import Domain, Suggestion, now_iso
from pipelines.notes.frontmatter import is_tag
from pipelines.search.excerpts import opening
from pipelines.state.state import TAGGED
from pipelines.state.tags import Change, Proposal, ProposalState
from pipelines.tagging.apply import former_paths
from pipelines.tagging.vocabulary import find, missing
from pipelines.vault import files
from queue_config.queue import Queue
from service.schemas.tags import (
    MOST_NOTHING,
    Asked,
    ChangeItem,
    Decided,
    Decisions,
    MissingTag,
    MissingTags,
    NoteProposals,
    NothingProposed,
    Origin,
    Promoted,
    ProposalItem,
    ProposalList,
    RenameTakenBack,
    TagRename,
    TagRenamed,
    WaitAgain,
)
from service.usecases.audience import named_domains
from service.usecases.changes import wait_for_answer
from service.usecases.search import View
from workers.renames import write_rename
from workers.tag_context import TaggingContext, vocabulary_problem
from workers.tagging import TagTasks, make_tag_tasks

_PATIENCE_SECONDS = 60.0


class Tags:
    """The tag use cases. Decisions are written to `state.db`; only a worker writes notes."""

    def __init__(self, view: View, queue: Queue) -> None:
        resources = view.resources
        self.context = TaggingContext(resources)
        self._view = view
        self._resources = resources
        self._tasks: TagTasks = make_tag_tasks(queue, self.context)

    def proposals(self, domain: str | None, states: list[ProposalState], limit: int) -> ProposalList:
        """List proposals."""
        nothing = self._nothing_proposed(domain)
        store = self.context.proposals()
        counts: dict[str, dict[str, int]] = {}
        there, set_aside = {one.slug for one in self._resources.registry().domains}, 0
        for (slug, state), count in store.counts().items():
            if slug in there:
                counts.setdefault(slug, {})[state] = count
            elif state in ("waiting", "addition"):
                set_aside += count
        notes, dollars = store.spending.of_day(now_iso()[:10])
        return ProposalList(
            proposals=[
                ProposalItem.model_validate(one, from_attributes=True)
                for one in store.of_state(domain, *states, limit=limit)
                if one.domain in there
            ],
            counts=counts,
            spent_today={"notes": notes, "dollars": dollars},
            nothing=nothing[:MOST_NOTHING],
            nothing_count=len(nothing),
            set_aside=set_aside,
        )

    def _nothing_proposed(self, domain: str | None) -> list[NothingProposed]:
        """Return the notes that were examined without a proposal and are there, as far as indexes can be read."""
        found = []
        for owner in named_domains(self._resources, domain):
            without = self.context.proposals().without(owner.slug)
            with suppress(CacheError):  # `status` and the pages name the domain
                there = self._resources.reader(owner).ledger.hashes_of(without) if without else {}
                found += [
                    NothingProposed(domain=owner.slug, path=path, reason=why)
                    for path, why in without.items()
                    if path in there
                ]
        return found

    def by_note(
        self, domain: str | None, states: list[ProposalState], limit: int, tag: str | None, sure: float
    ) -> list[NoteProposals]:
        """List proposals with their notes, newest first: of one tag, at least so sure, where that is asked for."""
        named_domains(self._resources, domain)
        found: dict[tuple[str, str], list[ProposalItem]] = {}
        for one in self.context.proposals().of_state(domain, *states, limit=limit, tag=tag, sure=sure):
            item = ProposalItem.model_validate(one, from_attributes=True)
            found.setdefault((one.domain, one.path), []).append(item)
        opened = {
            owner.slug: self._openings(owner, [path for slug, path in found if slug == owner.slug])
            for owner in self._resources.registry().domains
        }
        notes = []
        for (slug, path), items in found.items():
            if slug in opened:
                title, text = opened[slug].get(path, (PurePosixPath(path).stem, ""))
                notes.append(
                    NoteProposals(domain=slug, path=path, title=title, opening=opening(text), proposals=items)
                )
        return notes

    def written_with(self, notes: Iterable[NoteProposals]) -> dict[int, list[str]]:
        """Return the other tags that were written into the note in the same change, by the id of each that was."""
        found: dict[int, list[str]] = {}
        for note in notes:
            written = [
                one
                for one in self.context.proposals().of_note(note.domain, note.path)
                if one.state == "applied"
            ]
            for one in written:
                found[one.id] = [
                    other.tag
                    for other in written
                    if other.decided_at == one.decided_at and other.id != one.id
                ]
        return found

    def _openings(self, domain: Domain, paths: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the title and the beginning of each note, as far as its index can be read."""
        try:
            return self._resources.reader(domain).notes.openings(paths) if paths else {}
        except CacheError:
            return {}  # the page names the domain; its proposals can still be read

    def tags(self, domain: str | None, states: list[ProposalState]) -> dict[str, int]:
        """Count proposals by tag."""
        return self.context.proposals().tags(domain, *states)

    def ids(
        self, domain: str | None, states: list[ProposalState], limit: int, tag: str, sure: float
    ) -> list[int]:
        """Return the proposals of one tag, newest first, as `by_note` lists them."""
        found = self.context.proposals().of_state(domain, *states, limit=limit, tag=tag, sure=sure)
        return [one.id for one in found]

    def decide(self, decisions: Decisions) -> Decided:
        """Accept and reject proposals; a worker updates the notes and the review queue."""
        store, at = self.context.proposals(), now_iso()
        named = {*decisions.accept, *decisions.reject}
        gone = self._of_gone_notes(named)
        if named and gone.keys() == named:
            paths = ", ".join(repr(path) for path in sorted(set(gone.values())))
            raise NotFoundError(f"{paths}: no longer there; what was proposed for it is shown no more")
        return Decided(
            accepted=store.decide(set(decisions.accept) - gone.keys(), "accepted", at),
            rejected=store.decide(set(decisions.reject) - gone.keys(), "rejected", at),
            gone=sorted(gone),
        )

    def _of_gone_notes(self, ids: Collection[int]) -> dict[int, str]:
        """Return which proposals wait for a note that is no longer there, and its path."""
        waiting = [
            one
            for one in self.context.proposals().get(ids)
            if one.state in ("waiting", "addition", "accepted")
        ]
        gone: dict[int, str] = {}
        for slug in {one.domain for one in waiting}:
            domain = self._resources.registry().get(slug)
            own = {one.id: one.path for one in waiting if one.domain == slug}
            there = self._resources.reader(domain).ledger.hashes_of(own.values()) if domain else {}
            gone |= {number: path for number, path in own.items() if path not in there}
        return gone

    def undo_decisions(self, ids: Collection[int]) -> WaitAgain:
        """Let decided proposals wait again, the tags of a note that were written with them included.

        What was rejected or refused waits at once; a worker takes accepted tags back. Raises WorkerTimeoutError.
        """
        store = self.context.proposals()
        decided = [one for one in store.get(ids) if one.state not in ("waiting", "addition")]
        at_once = {one.id for one in decided if one.state in ("rejected", "refused")}
        store.settle(at_once, "waiting", now_iso())
        accepted: dict[str, list[int]] = {}
        for one in decided:
            if one.id not in at_once:
                accepted.setdefault(one.domain, []).append(one.id)
        answers = self._answers(
            accepted, lambda slug, name: self._tasks.undo_decisions(slug, name, accepted[slug])
        )
        problems = [answer["error"] for answer in answers.values() if "error" in answer]
        problems += [f"{path}: {why}" for answer in answers.values() for path, why in answer.get("left", [])]
        waiting = [one.id for one in store.get([one.id for one in decided]) if one.state == "waiting"]
        return WaitAgain(waiting=waiting, problems=problems)

    def promote(self, domain: str | None) -> Promoted:
        """Read the queues and give notes their accepted tags."""
        return self._each(domain, lambda slug, name: self._tasks.review_tags(slug, name, True))  # noqa: FBT003

    def rename(self, domain: str | None, *, dry_run: bool) -> Promoted:
        """Apply the taxonomies' renames in all the domains or in none, or say what they would change."""
        slugs = [one.slug for one in named_domains(self._resources, domain)]
        answers = self._answers(["renames"], lambda _, name: self._tasks.apply_renames(slugs, name, dry_run))
        answer = answers["renames"]
        return Promoted(domains=answer["domains"] if "domains" in answer else dict.fromkeys(slugs, answer))

    def rename_tag(self, asked: TagRename) -> TagRenamed:
        """Rename a tag of a domain in its vocabulary, its notes and what is proposed, or say what would be renamed.

        A tag that only proposals have gets the new name there, and is accepted for the note of the given proposal; a
        worker then adds it to the vocabulary. Raises NoteTagsError, TaxonomyError, WorkerTimeoutError.
        """
        old, new = asked.old.removeprefix("#"), asked.new.strip().removeprefix("#")
        (owner,) = named_domains(self._resources, asked.domain)
        slug, file = owner.slug, owner.within(owner.taxonomy)
        waiting = self.context.proposals().of_state(slug, "waiting", "addition")
        proposed = [one for one in waiting if one.tag.casefold() == old.casefold()]
        found = TagRenamed(
            old=old, new=new, vocabulary=None, notes=0, proposals=len(proposed), accepted=None, renamed=[]
        )
        try:
            plan = write_rename(self.context, [owner], old, new, dry_run=asked.dry_run)[slug]
        except NotFoundError:
            return self._rename_proposed(asked, owner, found, proposed)
        if plan["refused"]:
            raise NoteTagsError(
                "nothing is renamed: " + "; ".join(f"{path}: {why}" for path, why in plan["refused"])
            )
        if not asked.dry_run:
            done = self.rename(slug, dry_run=False).domains[slug]
            if problem := done.get("error"):
                raise TaxonomyError(problem)
        changed = [one["path"] for one in plan["changes"]]
        return found.model_copy(update={"vocabulary": file, "notes": sum(path != file for path in changed)})

    def _rename_proposed(
        self, asked: TagRename, owner: Domain, found: TagRenamed, proposed: Sequence[Proposal]
    ) -> TagRenamed:
        store = self.context.proposals()
        known = find(self.context.vocabulary(owner).taxonomy, found.new)
        new = known.tag if known else found.new
        if not is_tag(new):
            raise TaxonomyError(f"{new!r} is not a tag: use no spaces, punctuation or plain numbers")
        path = next((one.path for one in proposed if one.id == asked.proposal), None)
        if path is None:
            raise NotFoundError(f"{found.old!r} is not proposed any more")
        accepted, ids = asked.proposal, [one.id for one in proposed]
        if not asked.dry_run:
            store.keys.retag(dict.fromkeys(ids, new))
            key = new.casefold()
            # Where the note has a proposal of that name already, that one is left.
            accepted = next(one.id for one in store.of_note(asked.domain, path) if one.tag.casefold() == key)
            store.decide([accepted], "accepted", now_iso())
        return found.model_copy(update={"new": new, "accepted": accepted, "renamed": ids})

    def undo_rename(self, done: RenameTakenBack) -> WaitAgain:
        """Let the accepted proposal of a rename wait again; what it renamed and still waits gets its old name.

        Raises WorkerTimeoutError.
        """
        store = self.context.proposals()
        answer = self.undo_decisions([done.accepted])
        renamed = [
            one for one in store.get(done.renamed) if one.domain == done.domain and one.tag == done.new
        ]
        store.keys.retag({one.id: done.old for one in renamed if one.state in ("waiting", "addition")})
        return answer

    def ask(self, path: str | None, domain: str | None) -> Asked:
        """Request proposals for a note, or for all notes without a tag."""
        asked, problems = [], []
        for one in named_domains(self._resources, domain):
            cache = self._resources.reader(one)
            known = cache.notes.untagged() if path is None else cache.ledger.settled()
            wanted = [
                note
                for note in known
                if path in (None, note) and note not in one.configuration and files.is_markdown(note)
            ]
            if path is not None and path in known and not files.is_markdown(path):
                problems.append(f"{path} is not Markdown, and gets no tags")
            if path in one.configuration:
                problems.append(f"{path} configures the domain {one.slug}, and gets no tags")
            if not wanted:
                continue
            vocabulary = self.context.vocabulary(one)
            if vocabulary.source is None and not vocabulary.error:
                problems.append(_without_vocabulary(one))
                continue
            if problem := vocabulary_problem(vocabulary):
                problems.append(problem)
            self.context.proposals().ask(one.slug, wanted)
            self._tasks.propose_tags(one.slug)
            asked += wanted
        if path is not None and not asked and not problems:
            raise self._view.no_such_note(path)
        return Asked(paths=asked, problems=problems)

    def missing(self, domain: str | None) -> MissingTags:
        """List what many notes share and no tag of their domain covers, as far as the indexes can be read."""
        found: list[MissingTag] = []
        for owner in named_domains(self._resources, domain):
            taxonomy = self.context.vocabulary(owner).taxonomy
            with suppress(CacheError):  # `status` and the pages name the domain
                found += [
                    MissingTag(
                        domain=owner.slug, phrase=one.phrase, notes=one.notes, examples=list(one.examples)
                    )
                    for one in missing(self._resources.reader(owner), taxonomy, owner.configuration)
                ]
        return MissingTags(missing=found)

    def changes(self, limit: int, path: str | None) -> list[ChangeItem]:
        """List the changes made to notes, newest first; of one note also those made before it was moved."""
        log, former = self.context.proposals().changes, self._former_paths(path) if path else []
        found = {one.id: one for name in (path, *former) for one in log.latest(limit, name)}
        listed = [
            replace(one, path=path) if path and one.path in former else one
            for _, one in sorted(found.items(), reverse=True)
        ]
        return [
            ChangeItem.model_validate(one, from_attributes=True).model_copy(
                update={"proposed": self._origins(found[one.id])}
            )
            for one in listed[:limit]
        ]

    def _origins(self, change: Change) -> list[Origin]:
        keys = {tag.casefold() for tag in change.tags if change.action == "promoted"}
        return (
            []
            if not keys
            else [
                Origin(tag=one.tag, proposer=one.proposer, rationale=one.rationale)
                for one in self.context.proposals().of_note(change.domain, change.path)
                if one.tag.casefold() in keys
            ]
        )

    def _former_paths(self, path: str) -> list[str]:
        """Return the paths at which the log still has a note that was moved, as far as its index can be read."""
        if owner := self._resources.registry().owner(path):
            with suppress(CacheError):
                notes = self.context.notes(owner)
                return former_paths(
                    notes.cache, notes.proposals, notes.log, notes.root, owner.slug, path, notes.max_bytes
                )
        return []

    def undo(self, number: int | None) -> Promoted:
        """Undo a promotion or a run of renames: the given one, or the last one that is not undone yet.

        A run is undone in all of its domains. Raises NotFoundError, CannotUndoError where one of its domains is no
        longer there, WorkerTimeoutError.
        """
        log = self.context.proposals().changes
        change = log.find(number)
        if change is None:
            raise NotFoundError("there is no such change to undo; `everindex tags log` lists them")
        ids = {one.domain: one.id for one in log.run_of(change)}
        if former := [slug for slug in ids if self._resources.registry().get(slug) is None]:
            raise CannotUndoError(_of_former(change, former))
        return Promoted(
            domains=self._answers(ids, lambda slug, name: self._tasks.undo_change(slug, name, ids[slug]))
        )

    def _each(self, domain: str | None, enqueue: Callable[[str, str], Any]) -> Promoted:
        """Let a worker do something in one domain or all. Raises WorkerTimeoutError."""
        slugs = [one.slug for one in named_domains(self._resources, domain)]
        return Promoted(domains=self._answers(slugs, enqueue))

    def _answers(self, slugs: Iterable[str], enqueue: Callable[[str, str], Any]) -> dict[str, dict[str, Any]]:
        """Let a worker do something in some domains; return its answers. Raises WorkerTimeoutError."""
        names = {slug: secrets.token_hex(8) for slug in slugs}
        for slug, name in names.items():
            enqueue(slug, name)
        state, until = self._resources.state(), time.monotonic() + _PATIENCE_SECONDS
        return {slug: wait_for_answer(state, TAGGED, name, until) for slug, name in names.items()}


def _of_former(change: Change, former: Sequence[str]) -> str:
    """Say why a change of domains that are gone is not undone, and what to do."""
    where, what = ", ".join(former), f"{change.action} {', '.join(change.tags)}"
    return (
        f"change {change.id} ({what}) was made in {where}, which `{DOMAINS_FILE}` no longer has; nothing was undone."
        f" Give the vault the domain {where} again, undo, and remove it, or correct the notes by hand"
    )


def _without_vocabulary(domain: Domain) -> str:
    file = domain.within(domain.taxonomy)
    return f"{domain.slug} has no vocabulary, so no tags are proposed; write {file}, or run `everindex init`"


# Tags that an agent proposes: rows that wait for the operator, like those of any proposer.


MOST_WAITING = 20
"""How many tags of one client may wait for the operator."""

# A client names itself, so one that changes its name is stopped here.
_MOST_OF_AGENTS = 200
_CONFIDENCE = 0.5
_PREFIX = "agent "

Outcome = Literal["waits", "already_there", "decided", "unknown_tag"]


@dataclass(frozen=True, slots=True)
class Proposed:
    """A tag, by its name in the vocabulary where it has one, and what became of it."""

    tag: str
    outcome: Outcome


_ONE_AT_A_TIME = threading.Lock()


class Proposing:
    """Takes what agents propose. Only the operator decides."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._context = TaggingContext(view.resources)

    def propose(self, client: str, path: str, tags: Sequence[str], reason: str) -> list[Proposed]:
        """Let tags of the vocabulary wait for the operator's decision, with the client's name and reason as data.

        Raises NoteNotFoundError, TooManyWaitingError, NoteTagsError (a document, which gets no tags).
        """
        path = files.note_key(path)
        domain, cache = self._view.holder(path)
        if not files.is_markdown(path):
            raise NoteTagsError(f"{path!r} is not Markdown, and gets no tags")
        with _ONE_AT_A_TIME:
            return self._propose(client, domain, cache, path, tags, reason)

    def waiting(self, client: str | None = None) -> int:
        """Return how many tags of a client wait, or of all agents."""
        waiting = [one.proposer for one in self._context.proposals().of_state(None, "waiting")]
        if client is None:
            return sum(proposer.startswith(_PREFIX) for proposer in waiting)
        return waiting.count(_PREFIX + client)

    def vocabulary(self, path: str) -> list[str]:
        """Return the tags that may be proposed for a note."""
        owner = self._view.resources.registry().owner(path)
        entries = self._context.vocabulary(owner).taxonomy.entries if owner else ()
        return [entry.tag for entry in entries if entry.status == "active"]

    def _propose(
        self, client: str, domain: Domain, cache: SqliteCache, path: str, tags: Sequence[str], reason: str
    ) -> list[Proposed]:
        store, taxonomy = self._context.proposals(), self._context.vocabulary(domain).taxonomy
        node = cache.passages.node(path)
        present = {tag.casefold() for tag in node.tags} if node else set()
        known = {one.tag.casefold(): one.state for one in store.of_note(domain.slug, path)}
        left = min(MOST_WAITING - self.waiting(client), _MOST_OF_AGENTS - self.waiting())
        found: list[Proposed] = []
        row = cache.ledger.row(path)
        for name in dict.fromkeys(tags):
            entry = find(taxonomy, name.removeprefix("#"))
            if entry is None or entry.status != "active":
                found.append(Proposed(name, "unknown_tag"))
            elif entry.tag.casefold() in present:
                found.append(Proposed(entry.tag, "already_there"))
            elif entry.tag.casefold() in known:
                waits = known[entry.tag.casefold()] in ("waiting", "addition")
                found.append(Proposed(entry.tag, "waits" if waits else "decided"))
            elif left <= 0:
                raise TooManyWaitingError(
                    f"{MOST_WAITING} of your proposals wait for the operator already; propose more once they are"
                    " decided"
                )
            else:
                store.add(
                    domain.slug,
                    path,
                    [(Suggestion(entry.tag, _CONFIDENCE), entry.group)],
                    proposer=_PREFIX + client,
                    note_hash=(row.indexed_hash if row else None) or "",
                    at=now_iso(),
                    rationale=reason or None,
                )
                left -= 1
                found.append(Proposed(entry.tag, "waits"))
        return found
