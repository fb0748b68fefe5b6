"""Tags that an agent proposes: rows that wait for the operator, like those of any proposer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.cache import passages
from pipelines.cache.cache import Cache
from pipelines.errors import NoteTagsError, TooManyWaitingError
from pipelines.model import Domain, Suggestion, now_iso
from pipelines.tagging.vocabulary import find
from pipelines.vault import files
from service.usecases.audience import OWNER, Audience
from service.usecases.search import SearchService
from workers.tag_context import TaggingContext

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


class Proposing:
    """Takes what agents propose. Only the operator decides."""

    def __init__(self, questions: SearchService) -> None:
        self._questions = questions
        self._context = TaggingContext(questions.resources)
        self._lock = threading.Lock()

    def propose(
        self, client: str, path: str, tags: Sequence[str], reason: str, audience: Audience = OWNER
    ) -> list[Proposed]:
        """Let tags of the vocabulary wait for the operator's decision, with the client's name and reason as data.

        Raises NoteNotFoundError, TooManyWaitingError, NoteTagsError (a document, which gets no tags).
        """
        path = files.note_key(path)
        domain, cache = self._questions.holder(path, audience)
        if not files.is_markdown(path):
            raise NoteTagsError(f"{path!r} is not Markdown, and gets no tags")
        with self._lock:
            return self._propose(client, domain, cache, path, tags, reason)

    def waiting(self, client: str | None = None) -> int:
        """Return how many tags of a client wait, or of all agents."""
        waiting = [one.proposer for one in self._context.proposals().of_state(None, "waiting")]
        if client is None:
            return sum(proposer.startswith(_PREFIX) for proposer in waiting)
        return waiting.count(_PREFIX + client)

    def vocabulary(self, path: str) -> list[str]:
        """Return the tags that may be proposed for a note."""
        owner = self._questions.resources.registry().owner(path)
        entries = self._context.vocabulary(owner).taxonomy.entries if owner else ()
        return [entry.tag for entry in entries if entry.status == "active"]

    def _propose(
        self, client: str, domain: Domain, cache: Cache, path: str, tags: Sequence[str], reason: str
    ) -> list[Proposed]:
        store, taxonomy = self._context.proposals(), self._context.vocabulary(domain).taxonomy
        node = passages.node(cache, path)
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
                    reason=reason or None,
                )
                left -= 1
                found.append(Proposed(entry.tag, "waits"))
        return found
