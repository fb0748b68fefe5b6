"""Tags over HTTP: what is proposed, decisions, promotion, renames, and what was changed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field

from pipelines.store.notes import untagged
from service.named import named_domains
from service.worker_answers import wait_for_answer
from workers.resources import Resources
from workers.tag_desk import TagDesk
from workers.tagging import TagTasks, make_tag_tasks, now_iso

_PATIENCE_SECONDS = 60.0
_MOST = 1000

ShownState = Literal["waiting", "addition", "accepted", "applied", "rejected", "refused"]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProposalItem(_Answer):
    """A tag suggested for a note, and how it stands."""

    id: int
    domain: str
    path: str
    tag: str
    group: str
    confidence: float = Field(description="from 0 to 1")
    proposer: str
    state: ShownState
    reason: str | None
    proposed_at: str


class ProposalList(_Answer):
    """The proposals of the states that were asked for, newest first; how many there are by domain and state."""

    proposals: list[ProposalItem]
    counts: dict[str, dict[str, int]]
    spent_today: dict[str, float] = Field(description="notes and dollars, for a paid proposer")


class Decisions(BaseModel):
    """Proposals to accept and to reject, by id."""

    model_config = ConfigDict(extra="forbid")
    accept: list[int] = Field(default_factory=list, max_length=_MOST)
    reject: list[int] = Field(default_factory=list, max_length=_MOST)


class Decided(_Answer):
    """How many proposals were decided; those that were decided before stay as they are."""

    accepted: int
    rejected: int


class Promoted(_Answer):
    """By domain: what the queue decided, which tags are in which notes now, and which are not, and why."""

    domains: dict[str, dict[str, Any]]


class Asked(_Answer):
    """The notes that will be looked at."""

    paths: list[str]


class ChangeItem(_Answer):
    """A change that was made to a note's tags."""

    id: int
    at: str
    domain: str
    path: str
    tags: list[str]
    action: str
    undone_at: str | None


class Tags:
    """What the routes do; deciding writes `state.db`, and notes are written by a worker alone."""

    def __init__(self, resources: Resources) -> None:
        self.desk = TagDesk(resources)
        self._resources = resources
        self._tasks: TagTasks = make_tag_tasks(resources.queue(), self.desk)

    def proposals(self, domain: str | None, states: list[ShownState], limit: int) -> ProposalList:
        """List proposals."""
        named_domains(self._resources, domain)
        store = self.desk.proposals()
        counts: dict[str, dict[str, int]] = {}
        for (slug, state), count in store.counts().items():
            counts.setdefault(slug, {})[state] = count
        notes, dollars = store.spent(now_iso()[:10])
        return ProposalList(
            proposals=[
                ProposalItem.model_validate(one, from_attributes=True)
                for one in store.of_state(domain, *states, limit=limit)
            ],
            counts=counts,
            spent_today={"notes": notes, "dollars": dollars},
        )

    def decide(self, decisions: Decisions) -> Decided:
        """Accept and reject; a worker carries it out, and the queue follows."""
        store, at = self.desk.proposals(), now_iso()
        return Decided(
            accepted=store.decide(decisions.accept, "accepted", at),
            rejected=store.decide(decisions.reject, "rejected", at),
        )

    def promote(self, domain: str | None) -> Promoted:
        """Read the queues and give notes their accepted tags."""
        return self._each(domain, lambda slug, name: self._tasks.review_tags(slug, name, True))  # noqa: FBT003

    def rename(self, domain: str | None, *, dry_run: bool) -> Promoted:
        """Apply the taxonomies' renames, or say what they would change."""
        return self._each(domain, lambda slug, name: self._tasks.apply_renames(slug, name, dry_run))

    def ask(self, path: str | None, domain: str | None) -> Asked:
        """Want proposals for a note, or for all notes without any tag."""
        asked = []
        for one in named_domains(self._resources, domain):
            cache = self._resources.reader(one)
            known = untagged(cache) if path is None else cache.ledger.settled()
            wanted = [note for note in known if path in (None, note)]
            self.desk.proposals().ask(one.slug, wanted)
            self._tasks.propose_tags(one.slug)
            asked += wanted
        if path is not None and not asked:
            raise HTTPException(404, f"{path} is not indexed; see /why/{path}")
        return Asked(paths=asked)

    def changes(self, limit: int, path: str | None) -> list[ChangeItem]:
        """List what was changed in notes, newest first."""
        return [
            ChangeItem.model_validate(one, from_attributes=True)
            for one in self.desk.proposals().changes(limit, path)
        ]

    def undo(self, number: int | None) -> Promoted:
        """Take a promotion back: the given one, or the last one that is not taken back yet."""
        change = self.desk.proposals().change(number)
        if change is None:
            raise HTTPException(404, "there is no such promotion; `everindex tags log` lists them")
        return self._each(change.domain, lambda slug, name: self._tasks.undo_change(slug, name, change.id))

    def _each(self, domain: str | None, enqueue: Callable[[str, str], Any]) -> Promoted:
        """Let a worker do something in each domain; return its answers. Raises HTTPException."""
        names = {one.slug: secrets.token_hex(8) for one in named_domains(self._resources, domain)}
        for slug, name in names.items():
            enqueue(slug, name)
        state, until = self._resources.state(), time.monotonic() + _PATIENCE_SECONDS
        return Promoted(
            domains={slug: wait_for_answer(state, f"tags:{name}", until) for slug, name in names.items()}
        )


def add_tags(app: FastAPI, tags: Tags) -> None:
    """Add the routes."""

    @app.get("/proposals")
    def proposals(
        domain: str | None = None,
        state: Annotated[list[ShownState] | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = 200,
    ) -> ProposalList:
        """List proposed tags: those that wait, unless other states are asked for."""
        return tags.proposals(domain, state or ["waiting", "addition"], limit)

    @app.post("/proposals/decide")
    def decide(decisions: Decisions) -> Decided:
        """Accept and reject proposals; a worker writes the notes and the queue."""
        return tags.decide(decisions)

    @app.post("/proposals/ask")
    def ask(path: str | None = None, domain: str | None = None) -> Asked:
        """Want proposals for a note, or for all notes that have no tag."""
        return tags.ask(path, domain)

    @app.post("/promote")
    def promote(domain: str | None = None) -> Promoted:
        """Apply what is ticked in the review queues, and write them anew."""
        return tags.promote(domain)

    @app.post("/apply-renames")
    def apply_renames(domain: str | None = None, *, dry_run: bool = False) -> Promoted:
        """Rename tags as the taxonomies say, in every note of their domains or in none."""
        return tags.rename(domain, dry_run=dry_run)

    @app.get("/changes")
    def changes(
        limit: Annotated[int, Query(ge=1, le=_MOST)] = 50, path: str | None = None
    ) -> list[ChangeItem]:
        """List what was changed in notes, newest first."""
        return tags.changes(limit, path)

    @app.post("/changes/undo")
    def undo(number: Annotated[int | None, Query(ge=1, alias="id")] = None) -> Promoted:
        """Take a promotion back, the last one unless another is named."""
        return tags.undo(number)
