"""A domain with a vocabulary, its notes indexed, and its queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.domains import WHOLE_VAULT
from pipelines.model import Suggestion
from pipelines.state.note_log import NoteLog
from pipelines.state.state import State
from pipelines.state.tags import Proposals
from pipelines.tagging.apply import DomainNotes
from pipelines.tagging.review import ReviewContext, review
from pipelines.tagging.vocabulary import load
from tests.pipelines.conftest import MAX_BYTES, House

TAXONOMY = "# Tags\n\n## Garden\n\n- soil: what plants grow in (aliases: earth)\n- compost: rotted leaves\n- bread: flour and yeast\n"
AT = "2026-11-21T12:00:00.000+00:00"


class Tagging:
    """What an operator and the service do, one step at a time."""

    def __init__(self, house: House) -> None:
        self.house = house
        (domain,) = WHOLE_VAULT
        self.domain = domain
        house.write("_taxonomy.md", TAXONOMY)
        state = State(house.state)
        state.close()
        self.proposals = Proposals(house.state)
        self.log = NoteLog(house.state)
        self.notes = DomainNotes(
            domain.slug,
            house.root,
            MAX_BYTES,
            house.cache,
            self.proposals,
            self.log,
            house.state / "displaced",
        )
        self.queue = house.root / "_review-queue.md"

    def context(self, *, apply: bool = True) -> ReviewContext:
        return ReviewContext(self.domain, load(self.house.root, "_taxonomy.md"), self.notes, apply)

    def note(self, path: str, text: str = "The garden soil.") -> None:
        self.house.save(path, text)
        self.house.drain()

    def propose(self, path: str, *tags: str, at: str = AT) -> list[int]:
        """What a proposer does."""
        self.proposals.add(
            self.domain.slug,
            path,
            [(Suggestion(tag, 0.8), "Garden") for tag in tags],
            proposer="local",
            note_hash="seen",
            at=at,
        )
        found = self.proposals.of_state(None, "waiting", "accepted", "applied", "rejected", "refused")
        return [one.id for tag in tags for one in found if (one.path, one.tag) == (path, tag)]

    def review(self, **how: bool):
        return review(self.context(**how), AT)

    def states(self, path: str) -> dict[str, str]:
        every = ("waiting", "addition", "accepted", "applied", "rejected", "refused")
        return {one.tag: one.state for one in self.proposals.of_state(None, *every) if one.path == path}

    def edit(self, old: str, new: str) -> None:
        """What an operator's editor does."""
        text = self.queue.read_text(encoding="utf-8")
        assert old in text, text
        self.queue.write_text(text.replace(old, new, 1), encoding="utf-8")

    def text(self, path: str) -> str:
        return (self.house.root / path).read_bytes().decode()


@pytest.fixture
def tagging(house: House) -> Iterator[Tagging]:
    made = Tagging(house)
    made.house.index()
    yield made
    made.proposals.close()
    made.log.close()
