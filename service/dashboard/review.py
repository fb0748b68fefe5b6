"""The page on which an operator decides about proposed tags: the same store as `_review-queue.md`."""

from __future__ import annotations

from typing import Literal

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from service.dashboard.rendering import Pages
from service.usecases.schemas.tags import ProposalItem, ShownState
from service.usecases.search import SearchService
from service.usecases.tags import Tags

_SHOWN = 200
_CHANGES = 20

Choice = Literal["waiting", "accepted", "applied", "rejected", "refused"]
_CHOICES: dict[Choice, list[ShownState]] = {
    "waiting": ["waiting", "addition"],
    "accepted": ["accepted"],
    "applied": ["applied"],
    "rejected": ["rejected"],
    "refused": ["refused"],
}


def _by_note(proposals: list[ProposalItem]) -> list[list[ProposalItem]]:
    """Return the proposals of each note together, in the order in which the notes come first."""
    found: dict[tuple[str, str], list[ProposalItem]] = {}
    for one in proposals:
        found.setdefault((one.domain, one.path), []).append(one)
    return list(found.values())


def add_review_page(app: FastAPI, pages: Pages, questions: SearchService, tags: Tags) -> None:
    """Add the route."""

    @app.get("/ops/review", response_class=HTMLResponse, include_in_schema=False)
    def review(state: Choice = "waiting", domain: str | None = None) -> HTMLResponse:
        """List the proposals of a state, by note, newest first."""
        domain = domain or None
        found = tags.proposals(domain, _CHOICES[state], _SHOWN)
        counts = [found.counts.get(domain, {})] if domain else list(found.counts.values())
        return pages.show(
            "review",
            shown=state,
            shown_states=list(_CHOICES),
            domain=domain,
            domains=[one.slug for one in questions.resources.domains()],
            totals={
                name: sum(of.get(one, 0) for of in counts for one in states)
                for name, states in _CHOICES.items()
            },
            groups=_by_note(found.proposals),
            count_shown=len(found.proposals),
            changes=tags.changes(_CHANGES, None) if state == "applied" else [],
        )
