"""The schemas of a single note, and of the state of a path."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from pipelines.state.note_log import NoteAction, RemovalReason
from service.schemas.search import Place, example


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
            {"path": "Concepts/Pricing.md", "kind": "wikilink", "type": "rests_on", "count": 2, "text": "pricing",
             "fragment": "", "line": 14, "relation": "rests on"}
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
        description="files that it links to: one entry per file, kind and type of link, with a count"
    )
    backlinks: list[dict[str, Any]] = Field(
        description="notes of any domain that link to it; `type` as seen from this note"
    )
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
    cure: str | None = Field(None, description="what lets an ignored path in: a command, or a line to write")
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


# The schema of a list of notes.


class ListedNote(BaseModel):
    """A note in a list."""

    path: str
    title: str
    domain: str
    kind: str | None
    date: str = Field(description="the day that the filters `since` and `until` compare: YYYY-MM-DD")
    chunks: int
    warnings: list[str] = Field(description="the parts of the note that could not be read, and why")


class ListAnswer(BaseModel):
    """The listed notes, and how many they are."""

    notes: list[ListedNote]
    count: int
    reason: str | None = Field(None, description="why the list is empty, if a tag is that no note has")
    configuration: list[str] = Field(
        description="the paths of those that pass, too, but configure a domain instead of being notes: vocabularies"
    )


# The schemas of what the search page offers besides answers: notes to start from, and filters to narrow down.


class SuggestedNote(BaseModel):
    """A note in a list; `changed` is null in a list by links, `links` in a list by time."""

    path: str
    title: str
    domain: str
    changed: str | None = None
    links: int | None = Field(default=None, description="how many notes of any domain link to it")


class Start(BaseModel):
    """What the page shows before a question: notes changed last, and notes with the most links to them."""

    recent: list[SuggestedNote]
    most_linked: list[SuggestedNote]


class Facet(BaseModel):
    """A filter that narrows the answers down, and how many of the found notes pass it."""

    filter: str
    value: str
    label: str
    count: int


class PassageLine(BaseModel):
    """A line of a passage as plain text; `answers`: a sentence of the excerpt begins on it."""

    text: str
    answers: bool


class PassageText(BaseModel):
    """A passage of a note; without lines if the note has changed and the place of the passage is unknown."""

    path: str
    lines: list[PassageLine]


# The schemas of the answers to requests that change which notes are indexed.


LONGEST_TITLE, LONGEST_TEXT = 200, 500_000
_DEEPEST = 10
_LONGEST_NAME = 100
_LARGEST_INTEGER = 2**63 - 1
_OWN = ("title", "kind", "source")

IndexState = Literal["queued", "pending", "indexed", "parked"]


class IndexAnswer(BaseModel):
    """The answer of `POST /index`."""

    model_config = example(
        path="Concepts/Moats.md",
        domain="finance",
        state="indexed",
        findable=True,
        reason=None,
        passages=4,
        took_ms=184.0,
    )

    path: str
    domain: str
    state: IndexState = Field(
        description="queued: a worker will look at it; pending: it is recorded, and not indexed yet; parked: it "
        "cannot be indexed"
    )
    findable: bool = Field(description="whether a search finds the version that is on the disk now")
    reason: str | None = Field(description="why it is not findable yet, or not by meaning; null: it is")
    passages: int | None = Field(description="how many the index has of it; null: it is not indexed")
    took_ms: float


class IgnoredAnswer(BaseModel):
    """The answer of `DELETE /documents/<path>`: the line that now ignores the note, and its file in the vault."""

    model_config = example(path="Drafts/Idea.md", file=".everindexignore", line="/Drafts/Idea.md", passages=4)

    path: str
    file: str
    line: str
    passages: int = Field(description="how many the index has of it, which are removed within seconds")


class NewNote(BaseModel):
    """The body of `POST /notes`."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE)]
    text: Annotated[str, Field(max_length=LONGEST_TEXT, description="Markdown")]
    kind: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    source: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    properties: Annotated[dict[str, JsonValue], Field(max_length=100)] = {}

    @field_validator("title")
    @classmethod
    def _is_a_line(cls, title: str) -> str:
        if not title.strip() or not title.isprintable():
            raise ValueError("a title is one line of visible text")
        return title

    @field_validator("text", "kind", "source")
    @classmethod
    def _can_be_written(cls, text: str | None) -> str | None:
        return None if text is None else _writable(text)

    @field_validator("properties")
    @classmethod
    def _are_properties(cls, properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name, value in properties.items():
            if not (name.isprintable() and name == name.strip() and 0 < len(name) <= _LONGEST_NAME):
                raise ValueError(
                    f"the name of a property is one line of at most {_LONGEST_NAME} visible signs"
                )
            if name.casefold() in _OWN:
                raise ValueError(f"{name} is a field of its own, not a property")
            _check(value, 1)
        return properties

    @property
    def identity(self) -> str | None:
        """The note's id, by which it is written again, from the property `id`; None without one."""
        value = self.properties.get("id")
        return (
            str(value)
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""
            else None
        )

    def frontmatter(self) -> dict[str, object]:
        """Return all properties of the note, the title first."""
        given = {"title": self.title, "kind": self.kind, "source": self.source}
        return {**{name: value for name, value in given.items() if value is not None}, **self.properties}


def _check(value: JsonValue, depth: int) -> None:
    """Refuse what would not be read from a note as it was given. Raises ValueError."""
    if depth > _DEEPEST:
        raise ValueError(f"a property is nested more than {_DEEPEST} levels deep")
    if isinstance(value, str):
        _writable(value)
    elif isinstance(value, list):
        for one in value:
            _check(one, depth + 1)
    elif isinstance(value, dict):
        for name, one in value.items():
            _writable(name)
            _check(one, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is not finite")
    elif isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        raise ValueError("a number has more than 64 bits")


def _writable(text: str) -> str:
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError("NUL and half a surrogate pair cannot be written into a note")
    return text


class WrittenNote(BaseModel):
    """The answer of `POST /notes`: the note's path, and the address to POST to until a search finds it."""

    model_config = example(
        path="Inbox/Moats.md", index="/index?path=Inbox%2FMoats.md&wait=1", state="new", change=None
    )

    path: str
    index: str
    state: Literal["new", "replaced", "unchanged"] = Field(
        description="replaced, unchanged: a note was written with this id before"
    )
    change: int | None = Field(None, description="what `POST /changes/undo?id=` undoes, of a replaced note")
