"""What a conversation asks of a language model, and what comes back, whichever provider runs it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from pipelines.claude import encodable
from pipelines.errors import ChatModelError


class CitablePassage(NamedTuple):
    """A passage that the model may cite as `[n]`; `where` is its path and lines."""

    n: int
    where: str
    title: str
    text: str


class Picture(NamedTuple):
    """A picture in base64."""

    media_type: str
    data: str


class ToolSpec(NamedTuple):
    """A tool as it is described to the model; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ToolCall(NamedTuple):
    """A call of a tool; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResult(NamedTuple):
    """What a call gave: a text, and passages."""

    id: str
    text: str
    passages: tuple[CitablePassage, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `own` is an answer with calls of tools as its provider wants it back."""

    role: Literal["user", "assistant"]
    text: str = ""
    passages: tuple[CitablePassage, ...] = ()
    pictures: tuple[Picture, ...] = ()
    results: tuple[ToolResult, ...] = ()
    own: Any = None

    @property
    def every_passage(self) -> list[CitablePassage]:
        """The passages beside its text, then those of its results: as they are sent."""
        return [*self.passages, *(passage for result in self.results for passage in result.passages)]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request: instructions, the conversation, the tools, and the most tokens of the answer."""

    instructions: str
    messages: Sequence[Message]
    most_tokens: int
    tools: Sequence[ToolSpec] = ()


class ThoughtPart(NamedTuple):
    """A part of what the model thinks."""

    text: str


class SaidPart(NamedTuple):
    """A part of the answer's text."""

    text: str


class CitedPart(NamedTuple):
    """The provider says that the text before rests on these words of a passage."""

    n: int
    quote: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a model's answer: why, the tools that it calls, what it cost, and the answer to give back."""

    reason: Literal["complete", "tokens", "refused", "tools"]
    calls: tuple[ToolCall, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    own: Any = field(default=None, compare=False)


Event = ThoughtPart | SaidPart | CitedPart | Ended


class ChatModel(Protocol):
    """A language model behind an endpoint. `local`: private notes may go there; `paid`: its answers cost money."""

    name: str
    local: bool
    paid: bool
    cites: bool
    """It cites passages by itself; others have to be asked to quote."""

    def stream(self, asked: ModelRequest) -> AsyncGenerator[Event, None]:
        """Yield the answer piece by piece, with `Ended` at the end. Raises ChatModelError, ToolsRefusedError."""

    def dollars(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of these tokens in US dollars, for an answer that ended before its own count."""

    async def close(self) -> None:
        """Close its connections."""


@contextmanager
def chat_errors(model: str, lost: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise ChatModelError for an answer that cannot be read, and for the errors `lost` of a client's connection."""
    try:
        yield
    except lost as error:
        raise ChatModelError(
            f"no complete answer came from {model} ({type(error).__name__}); check that it can be reached"
        ) from None
    # The clients validate nothing: any part of an answer may be missing or of another type.
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise ChatModelError(
            f"the answer of {model} is unreadable ({type(error).__name__}); ask again"
        ) from None


def readable(arguments: str) -> dict[str, Any]:
    """Return a call's arguments; those that are no JSON object are none, since no server takes them back."""
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(given, dict):
        return {}
    # An escape in JSON may stand for half a character, which no text can have.
    whole: dict[str, Any] = json.loads(encodable(json.dumps(given, ensure_ascii=False)))
    return whole


CHARACTERS_PER_TOKEN = 4
"""About how many characters a token has, where the server does not count them."""


def characters_of(message: Message) -> int:
    """Return how many characters of a message are sent, without its pictures."""
    texts = [
        message.text,
        *(one.text for one in message.every_passage),
        *(one.text for one in message.results),
    ]
    return sum(map(len, texts))
