"""The page on which an operator decides about proposed tags, from the same store as `_review-queue.md`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse

from pipelines.state.tags import ProposalState
from service.dashboard.rendering import Pages
from service.usecases.search import SearchService
from service.usecases.tags import Tags

_SHOWN = 200
_CHANGES = 20
_LONGEST_TAG = 200

Choice = Literal["waiting", "accepted", "applied", "rejected", "refused"]
_CHOICES: dict[Choice, list[ProposalState]] = {
    "waiting": ["waiting", "addition"],
    "accepted": ["accepted"],
    "applied": ["applied"],
    "rejected": ["rejected"],
    "refused": ["refused"],
}


def add_review_page(app: FastAPI, pages: Pages, questions: SearchService, tags: Tags) -> None:
    """Add the route."""

    @app.get("/ops/review", response_class=HTMLResponse, include_in_schema=False)
    def review(
        state: Choice = "waiting",
        domain: str | None = None,
        tag: Annotated[str | None, Query(max_length=_LONGEST_TAG)] = None,
        sure: Annotated[int, Query(ge=0, le=100, description="percent")] = 0,
        *,
        missing: bool = False,
    ) -> HTMLResponse:
        """List the proposals of a state, by note, newest first."""
        domain, tag = domain or None, tag or None
        notes = tags.by_note(domain, _CHOICES[state], _SHOWN, tag, sure / 100)
        found = tags.proposals(domain, [], 1)
        counts = [found.counts.get(domain, {})] if domain else list(found.counts.values())
        wanted = {"domain": domain, "tag": tag, "sure": sure}
        return pages.show(
            "review",
            shown=state,
            shown_states=list(_CHOICES),
            wanted=wanted,
            query={key: value for key, value in wanted.items() if value},
            domains=[one.slug for one in questions.resources.domains()],
            tags=tags.tags(domain, _CHOICES[state]),
            totals={
                name: sum(of.get(one, 0) for of in counts for one in states)
                for name, states in _CHOICES.items()
            },
            notes=notes,
            ids=[one.id for note in notes for one in note.proposals],
            additions=sorted(
                {one.tag for note in notes for one in note.proposals if one.state == "addition"}
            ),
            most=_SHOWN,
            missing=tags.missing(domain).missing if missing else None,
            changes=tags.changes(_CHANGES, None) if state == "applied" else [],
        )
