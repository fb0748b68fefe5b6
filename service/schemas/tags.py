"""The schemas of tags: proposals, decisions, and changes made to notes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipelines.state.tags import ProposalState
from service.schemas.search import example

MOST = 1000
MOST_NOTHING = 20
"""How many notes without a proposal an answer names."""


class _TagsModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProposalItem(_TagsModel):
    """A tag suggested for a note, and the state of the suggestion."""

    id: int
    domain: str
    path: str
    tag: str
    group: str
    confidence: float = Field(description="how sure the proposer is, from 0 to 1")
    proposer: str
    state: ProposalState
    rationale: str | None = Field(description="why its proposer proposes it")
    reason: str | None = Field(description="why, once accepted, it was refused or waits again")
    proposed_at: str
    decided_at: str | None = Field(
        description="when it was accepted, rejected, written into its note or refused"
    )


class NothingProposed(_TagsModel):
    """A note that was examined for tags and got no proposal."""

    domain: str
    path: str
    reason: str = Field(description="why; empty if it was examined by an earlier version")


class ProposalList(_TagsModel):
    """The proposals in the requested states, newest first; `counts` are by domain and state."""

    proposals: list[ProposalItem]
    counts: dict[str, dict[str, int]]
    spent_today: dict[str, float] = Field(
        description="notes sent to a paid proposer today (UTC), and the cost in US dollars"
    )
    nothing: list[NothingProposed] = Field(
        description="the first notes that were examined without a proposal"
    )
    nothing_count: int = Field(description="how many notes were examined without a proposal")
    set_aside: int = Field(
        description="proposals for notes that no domain contains any more; they wait again once one does"
    )


class NoteProposals(_TagsModel):
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


class Decided(_TagsModel):
    """How many proposals were decided. Those that were decided earlier stay as they are."""

    accepted: int
    rejected: int
    gone: list[int] = Field(description="ids of proposals left undecided because their note is gone")


class TakenBack(BaseModel):
    """Ids of decided proposals that are to wait for a decision again."""

    model_config = ConfigDict(extra="forbid")
    ids: list[int] = Field(min_length=1, max_length=MOST)


class WaitAgain(BaseModel):
    """Ids of the proposals that wait again, and why others do not."""

    model_config = example(waiting=[3, 4], problems=[])
    waiting: list[int]
    problems: list[str]


class TagRename(BaseModel):
    """A tag of a domain, its new name, and the proposal at which the operator asked."""

    model_config = ConfigDict(extra="forbid")
    domain: str
    old: str = Field(min_length=1, max_length=200)
    new: str = Field(min_length=1, max_length=200)
    proposal: int
    dry_run: bool = False


class TagRenamed(_TagsModel):
    """What gets the new name; `accepted`: the proposal that is accepted under it, of a tag that was only proposed."""

    old: str
    new: str
    vocabulary: str | None = Field(description="the file, where it changes")
    notes: int
    proposals: int
    accepted: int | None
    renamed: list[int] = Field(description="ids of the proposals that got the name, if one was accepted")


class RenameTakenBack(BaseModel):
    """A rename that accepted a proposal, as `TagRenamed` says it."""

    model_config = ConfigDict(extra="forbid")
    domain: str
    old: str = Field(min_length=1, max_length=200)
    new: str = Field(min_length=1, max_length=200)
    accepted: int
    renamed: list[int]


class Promoted(_TagsModel):
    """By domain: decisions read from the review queue, tags written into notes, and tags not written and why."""

    domains: dict[str, dict[str, Any]]


class MissingTag(_TagsModel):
    """A phrase that many notes of a domain share and no tag covers, and a few of the notes."""

    domain: str
    phrase: str
    notes: int
    examples: list[str]


class MissingTags(BaseModel):
    """Phrases that the vocabularies lack, the most distinctive of each domain first."""

    model_config = example(
        missing=[{"domain": "work", "phrase": "office hours", "notes": 12, "examples": ["Office Hours 5.md"]}]
    )
    missing: list[MissingTag]


class Asked(_TagsModel):
    """The notes for which proposals were requested, and problems that may limit the result."""

    paths: list[str]
    problems: list[str]


class Origin(_TagsModel):
    """Who proposed a tag, and why."""

    tag: str
    proposer: str
    rationale: str | None


class ChangeItem(_TagsModel):
    """A change to a note's tags. For a run of renames, `path` is the vocabulary and `notes` counts the notes."""

    id: int
    at: str
    domain: str
    path: str
    tags: list[str]
    action: str
    undone_at: str | None
    notes: int = Field(description="number of notes in which tags were renamed; 0 for other changes")
    proposed: list[Origin] = Field([], description="where the tags come from that were written with it")
