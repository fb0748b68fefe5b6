"""The schemas of the answers to requests that change which notes are indexed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from service.usecases.schemas.search import example

IndexState = Literal["queued", "pending", "indexed", "parked"]


class IndexAnswer(BaseModel):
    """The answer of `POST /index`."""

    model_config = example(
        path="Concepts/Moats.md", domain="finance", state="indexed", findable=True, reason=None, took_ms=184.0
    )

    path: str
    domain: str
    state: IndexState = Field(
        description="queued: a worker will look at it; pending: it is recorded, and not indexed yet; parked: it "
        "cannot be indexed"
    )
    findable: bool = Field(description="whether a search finds the version that is on the disk now")
    reason: str | None = Field(description="why it is not findable yet, or not by meaning; null: it is")
    took_ms: float


class IgnoredAnswer(BaseModel):
    """The answer of `DELETE /documents/<path>`: the line that now ignores the note, and its file in the vault."""

    model_config = example(path="Drafts/Idea.md", file=".everindexignore", line="/Drafts/Idea.md")

    path: str
    file: str
    line: str
