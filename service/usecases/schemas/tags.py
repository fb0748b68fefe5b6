"""The schemas of tags: proposals, decisions, and what was changed."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipelines.store.proposals import ProposalState
from service.usecases.schemas.search import example

MOST = 1000


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
    state: ProposalState
    reason: str | None
    proposed_at: str


class ProposalList(_Answer):
    """The proposals of the states that were asked for, newest first; how many there are by domain and state."""

    proposals: list[ProposalItem]
    counts: dict[str, dict[str, int]]
    spent_today: dict[str, float] = Field(description="notes and dollars, for a paid proposer")


class NoteProposals(_Answer):
    """The proposals of a note, with its title and its first lines as plain text."""

    domain: str
    path: str
    title: str
    opening: list[str]
    proposals: list[ProposalItem]


class Decisions(BaseModel):
    """Proposals to accept and to reject, by id."""

    model_config = ConfigDict(extra="forbid")
    accept: list[int] = Field(default_factory=list, max_length=MOST)
    reject: list[int] = Field(default_factory=list, max_length=MOST)


class Decided(_Answer):
    """How many proposals were decided; those that were decided before stay as they are."""

    accepted: int
    rejected: int
    gone: list[int] = Field(description="those that were left as they are, as their note is no longer there")


class TakenBack(BaseModel):
    """Decided proposals that are to wait again, by id."""

    model_config = ConfigDict(extra="forbid")
    ids: list[int] = Field(min_length=1, max_length=MOST)


class WaitAgain(BaseModel):
    """The proposals that wait again, and why others do not."""

    model_config = example(waiting=[3, 4], problems=[])
    waiting: list[int]
    problems: list[str]


class Promoted(_Answer):
    """By domain: what the queue decided, which tags are in which notes now, and which are not, and why."""

    domains: dict[str, dict[str, Any]]


class MissingTag(_Answer):
    """A phrase that many notes of a domain share and no tag covers, and a few of the notes."""

    domain: str
    phrase: str
    notes: int
    examples: list[str]


class MissingTags(BaseModel):
    """What the vocabularies lack, the most telling phrase of each domain first."""

    model_config = example(
        missing=[{"domain": "work", "phrase": "office hours", "notes": 12, "examples": ["Office Hours 5.md"]}]
    )
    missing: list[MissingTag]


class Asked(_Answer):
    """The notes that will be looked at, and why less may come of it than was hoped for."""

    paths: list[str]
    problems: list[str]


class ChangeItem(_Answer):
    """A change that was made to a note's tags; of renames: to the taxonomy at `path`, and to so many `notes`."""

    id: int
    at: str
    domain: str
    path: str
    tags: list[str]
    action: str
    undone_at: str | None
    notes: int = Field(description="in how many notes tags were renamed; 0 for any other change")
