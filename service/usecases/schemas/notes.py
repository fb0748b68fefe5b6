"""The schemas of a single note, and of the state of a path."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from pipelines.state.note_log import NoteAction, RemovalReason
from service.usecases.schemas.locator import Place
from service.usecases.schemas.search import example


class NodeChunk(BaseModel):
    """A chunk (passage) of a note: its headings, its first and last line (from 1), and its text."""

    section: str
    heading_path: list[str]
    lines: tuple[int, int]
    place: Place | None = Field(None, description="where it is in a document that is not Markdown")
    range: tuple[int, int] = Field(description="where it begins and ends: characters of the note, from 0")
    text: str


class Dates(BaseModel):
    """When a note was created and changed (ISO 8601), each with its source: `property created`, `file name`, ..."""

    created: str
    created_by: str = Field(description="`property <name>`, `file name`, `git` or `file`")
    changed: str
    changed_by: str = Field(description="`property <name>`, `git` or `file`")
    said: str = Field(description="the same in a sentence")


class NodeAnswer(BaseModel):
    """The answer of `GET /node/<path>`."""

    model_config = example(
        path="Concepts/Moats.md", domain="finance", title="Moats", frontmatter={"tags": ["investing"]},
        tags=["investing"], aliases=["Moat"], author=None, kind=None, published_at=None,
        modified="2026-11-21T05:51:27+00:00",
        dates={
            "created": "2021-03-04", "created_by": "property created", "changed": "2026-11-21T05:51:27+00:00",
            "changed_by": "git", "said": "created 2021-03-04 by its property created; changed 2026-11-21 by git",
        },
        evergreen=False, warnings=[], links=[],
        outlinks=[
            {"path": "Concepts/Pricing.md", "kind": "wikilink", "count": 2, "text": "pricing", "fragment": "",
             "line": 14}
        ],
        backlinks=[], unresolved=[],
        pagerank=0.0021, centrality=0.0114, community=3, community_label="pricing",
        chunks=[
            {"section": "What a moat is", "heading_path": ["Moats", "What a moat is"], "lines": [12, 31],
             "range": [220, 255], "text": "A moat is pricing power that lasts."}
        ],
        indexed_at="2026-11-21T05:51:28+00:00",
    )  # fmt: skip

    path: str
    domain: str
    title: str
    frontmatter: dict[str, Any]
    tags: list[str]
    aliases: list[str]
    author: str | None
    kind: str | None
    published_at: str | None = Field(
        description="when it was created, by the note itself or git; null: only the time of its file is known"
    )
    modified: str = Field(description="when it was changed: by a property, git, or the time of its file")
    dates: Dates
    evergreen: bool
    warnings: list[str]
    links: list[dict[str, Any]]
    outlinks: list[dict[str, Any]] = Field(
        description="files that it links to: one entry per file and kind of link, with a count"
    )
    backlinks: list[dict[str, Any]] = Field(description="notes of any domain that link to it")
    unresolved: list[dict[str, Any]] = Field(description="broken links: no file matches")
    pagerank: float | None = Field(description="null: the note has no link, or is not ranked yet")
    centrality: float | None
    community: int | None
    community_label: str | None
    chunks: list[NodeChunk]
    indexed_at: str | None


class IgnoreRule(BaseModel):
    """The line of an ignore file that decides about a path."""

    file: str
    line: int
    pattern: str


class PathState(BaseModel):
    """The answer of `GET /why/<path>`."""

    path: str
    domain: str | None
    state: Literal["indexed", "pending", "parked", "ignored", "folder", "unknown"]
    reason: str | None
    attempts: int | None = Field(None, description="failed attempts to index a pending or parked note")
    indexed_at: str | None = None
    renamed_to: str | None = Field(None, description="where the note is now that was here last")
    warnings: list[str] = Field(
        [], description="the parts of an indexed note that could not be read, and why"
    )
    dates: Dates | None = Field(None, description="when an indexed note was created and changed, and by what")
    hidden_from_agents: str | None = Field(
        None, description="why agents do not see an indexed note; null if they do"
    )
    rule: IgnoreRule | None = Field(
        None, description="the rule that ignores it: the last that matches it or one of its folders"
    )


class LogEntry(BaseModel):
    """What happened to a note at a time (UTC, ISO 8601)."""

    at: str
    domain: str
    action: NoteAction
    renamed_to: str | None = Field(description="in the log of the old path: the new one")
    renamed_from: str | None = Field(description="in the log of the new path: the old one")
    passages: int | None = Field(description="passages that the note was split into; null: not counted")
    texts_embedded: int = Field(description="texts that were embedded; vectors that were known are reused")
    vectors_pending: bool = Field(description="more of its texts were embedded later")
    ms: float = Field(description="time that it took; of work for several notes this note's share")
    model: str
    pipeline: str = Field(description="version of what splits notes, and its settings")
    error: str | None = Field(description="why the note was parked; null once it is removed")
    reason: RemovalReason | None = Field(
        None,
        description="why the note was removed: its file was deleted, or a rule ignores it; null: not known",
    )


class NoteLogAnswer(BaseModel):
    """The answer of `GET /log/<path>`, newest first."""

    model_config = example(
        path="Concepts/Moats.md",
        entries=[
            {"at": "2026-11-21T05:51:27.204+00:00", "domain": "finance", "action": "indexed",
             "renamed_to": None, "renamed_from": None, "passages": 4, "texts_embedded": 1,
             "vectors_pending": False, "ms": 21.4, "model": "all-MiniLM-L6-v2",
             "pipeline": "5:200/40/1200", "error": None, "reason": None}
        ],
    )  # fmt: skip

    path: str
    entries: list[LogEntry]
