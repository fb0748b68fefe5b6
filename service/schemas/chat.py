"""The schemas of conversations: what is asked, the lines of an answer, and what is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.search.quotes import Reason
from pipelines.search.thresholds import Match
from service.schemas.search import LONGEST_QUERY, IndexState, Lines

MOST_FILES = 5
MOST_PINS = 50
LONGEST_FILES = 40_000
"""Characters of the texts that are added to a question, together."""
LARGEST_PICTURE = 700_000
"""Characters of a picture in base64."""
_LONGEST_NAME = 1_000
_ID = r"^[0-9a-f]{12}$"

ChatId = Annotated[str, Field(pattern=_ID)]


class Pin(BaseModel):
    """A part of the vault that a conversation is about: a folder, a tag or one note."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["folder", "tag", "note"]
    value: str = Field(min_length=1, max_length=_LONGEST_NAME)


class AddedFile(BaseModel):
    """A file that is added to a question, and never indexed: its text, or a picture in base64."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=_LONGEST_NAME)
    text: str | None = None
    picture: str | None = Field(default=None, max_length=LARGEST_PICTURE, pattern=r"^[A-Za-z0-9+/]+={0,2}$")
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"] | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> AddedFile:
        if (self.text is None) == (self.picture is None) or (self.picture is None) != (
            self.media_type is None
        ):
            raise ValueError("give either `text`, or `picture` with its `media_type`")
        return self


class ChatRequest(BaseModel):
    """A question: of a new conversation, or of one that is going on.

    With `turn`, the number (from 1) of an earlier question, it takes its place, and what came after is deleted.
    """

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1, max_length=LONGEST_QUERY, pattern=r"\S")
    chat: ChatId | None = Field(default=None, description="null: a new conversation")
    turn: int | None = Field(default=None, ge=1)
    scope: list[Pin] | None = Field(
        default=None,
        max_length=MOST_PINS,
        description="what the answers are drawn from, from now on; [] for all notes, null: as before",
    )
    files: list[AddedFile] | None = Field(
        default=None, max_length=MOST_FILES, description="null: with `turn` its texts again, else none"
    )

    @model_validator(mode="after")
    def _can_be_asked(self) -> ChatRequest:
        if sum(len(one.text or "") for one in self.files or ()) > LONGEST_FILES:
            raise ValueError(f"the files have more than {LONGEST_FILES:,} characters together; add less")
        if self.turn is not None and self.chat is None:
            raise ValueError("`turn` is of a conversation: give `chat`, too")
        return self


# The lines of an answer, in the order in which they come; each is one JSON object.


class ChatSource(BaseModel):
    """A passage that the model was given, or a file that was added (`path` is null); the answer cites it as `[n]`."""

    n: int
    path: str | None
    title: str
    section: str
    lines: Lines | None
    place: str | None = Field(default=None, description="where it is in a document that is not Markdown")
    text: str
    why: str = Field(description="why the model was given it")


class MetadataLine(BaseModel):
    """What the answer will rest on. It comes before the text, and again when the model finds more."""

    type: Literal["metadata"] = "metadata"
    chat: ChatId
    turn: int
    model: str
    local: bool = Field(description="the model runs where private notes may go")
    match: Match | None = Field(
        description="how well the notes answer the question; `none`: they do not seem to"
    )
    sources: list[ChatSource] = Field(description="those that are new")
    scope: list[Pin]
    index: IndexState | None = Field(description="null: it cannot be read now")


class MemoryLine(BaseModel):
    """How much of the conversation the model is sent, in characters, and how many of the oldest turns it is not."""

    type: Literal["memory"] = "memory"
    characters: int
    most: int
    forgotten: int


class ThinkingLine(BaseModel):
    """A part of what the model thinks before it answers."""

    type: Literal["thinking"] = "thinking"
    text: str


class ToolLine(BaseModel):
    """A tool that the model called, with what, and what came of it in a few words."""

    type: Literal["tool"] = "tool"
    name: str
    given: dict[str, object]
    said: str
    failed: bool = False


Support = Literal["quoted", "cited", "unverified", "own", "judgement"]


class CheckedSpan(BaseModel):
    """A quote in a part of an answer: where it begins and ends in `text`, and whether its source contains it."""

    quote: str
    start: int | None = Field(
        description="null: the model's provider names these words, and the answer does not quote them"
    )
    end: int | None
    n: int | None = Field(description="the source that contains it, else the one that is named for it")
    verified: bool
    reason: Reason | Literal["other_source"] = Field(
        description="other_source: it is in another source than the one that the answer names"
    )


class TextLine(BaseModel):
    """A part of the answer, a sentence or a line, and what supports it.

    `quoted`: its quotes are in the notes, word for word. `cited`: it names a source, and quotes nothing.
    `unverified`: it quotes what the named note does not say, or names a source that there is not. `own`: the model's
    own words. `judgement`: Everindex's own, that the notes do not seem to answer.
    """

    type: Literal["text"] = "text"
    text: str
    support: Support
    quotes: list[CheckedSpan] = []
    cited: list[int] = []


class ErrorLine(BaseModel):
    """What went wrong; the answer ends unless more lines follow."""

    type: Literal["error"] = "error"
    message: str


class DoneLine(BaseModel):
    """The end of an answer. `ended`: by itself, or because a limit, an error or its reader stopped it."""

    type: Literal["done"] = "done"
    ended: Literal["complete", "tokens", "time", "error", "stopped"]
    limits: list[str] = Field(default=[], description="which limits were reached, in words")
    tokens_in: int
    tokens_out: int
    dollars: float
    verified: int = Field(description="quotes that are in the notes, word for word")
    unverified: int
    index: IndexState | None
    took_ms: float


ChatLine = Annotated[
    MetadataLine | MemoryLine | ThinkingLine | ToolLine | TextLine | ErrorLine | DoneLine,
    Field(discriminator="type"),
]


# What is kept of conversations.


class ChatTurn(BaseModel):
    """A question and its answer; `done` is null where the answer was interrupted before its end."""

    number: int
    question: str
    files: list[str]
    model: str
    asked_at: str
    sources: list[ChatSource]
    text: list[TextLine]
    done: DoneLine | None


class ChatSummary(BaseModel):
    """A conversation in a list; its title is its first question."""

    id: ChatId
    title: str
    turns: int
    changed_at: str


class ChatsAnswer(BaseModel):
    """The conversations, the one that changed last first."""

    chats: list[ChatSummary]


class ChatAnswer(BaseModel):
    """A conversation as a whole."""

    id: ChatId
    title: str
    scope: list[Pin]
    turns: list[ChatTurn]


class DeletedChat(BaseModel):
    """A conversation that was deleted."""

    deleted: ChatId


class SavedChat(BaseModel):
    """The note into which a conversation was written."""

    path: str
