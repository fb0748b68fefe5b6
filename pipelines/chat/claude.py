"""Conversations with Claude through Anthropic's client; passages are sent so that the API itself cites them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any

from pipelines.chat.models import (
    CitablePassage,
    CitedPart,
    Ended,
    Event,
    Message,
    ModelRequest,
    SaidPart,
    ThoughtPart,
    ToolCall,
    chat_errors,
    readable,
)
from pipelines.claude import API, cost_of, dollars_of, encodable, refusal_of
from pipelines.errors import ChatModelError

_REASONS: dict[str | None, str] = {"max_tokens": "tokens", "refusal": "refused", "tool_use": "tools"}


class Claude:
    """Claude by Anthropic's Messages API; `timeout_s` limits connecting and each wait for more of the answer."""

    local = False
    paid = True
    cites = True

    def __init__(self, name: str, key: str, *, base_url: str | None = None, timeout_s: float = 60.0) -> None:
        """Make the client. Raises ChatModelError where it is not installed."""
        try:
            import anthropic  # noqa: PLC0415 - takes a second, and is needed only for a conversation
            import httpx2  # noqa: PLC0415 - likewise
        except ImportError:
            raise ChatModelError("Claude's client is not installed; install everindex[chat]") from None
        # At debug level the client logs whole requests, but a note's text must never go into logs.
        logging.getLogger("anthropic").setLevel(logging.WARNING)
        self.name = name
        self._key = key
        self._errors = anthropic
        # In the middle of an answer the client lets the errors of its connection through.
        self._lost = (anthropic.AnthropicError, httpx2.HTTPError, OSError)
        self._client = anthropic.AsyncAnthropic(
            api_key=key, base_url=base_url or API, timeout=timeout_s, max_retries=0, open_telemetry=False
        )

    async def stream(self, asked: ModelRequest) -> AsyncGenerator[Event, None]:
        """Yield the answer piece by piece, with `Ended` at the end. Raises ChatModelError."""
        # The API numbers them in this order.
        answer = _ClaudeAnswer(
            self.name, [one for message in asked.messages for one in message.every_passage]
        )
        with chat_errors(self.name, self._lost):
            try:
                async with await self._client.messages.create(**self._request(asked), stream=True) as events:
                    async for event in events:
                        for piece in answer.take(event):
                            yield piece
            except self._errors.APIStatusError as error:
                raise ChatModelError(refusal_of(error, self.name, self._key).message) from None
        yield answer.ended()

    def dollars(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of these tokens in US dollars."""
        return dollars_of(self.name, tokens_in, tokens_out)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    def _request(self, asked: ModelRequest) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.name,
            "max_tokens": asked.most_tokens,
            "system": asked.instructions,
            "messages": [_message(one) for one in asked.messages],
        }
        if asked.tools:
            request["tools"] = [
                {"name": one.name, "description": one.description, "input_schema": one.schema}
                for one in asked.tools
            ]
        # Other model families do not allow thinking to be turned off, so their default stays.
        if "haiku" in self.name:
            request["thinking"] = {"type": "disabled"}
        return request


def _message(one: Message) -> dict[str, Any]:
    if one.own is not None:
        return {"role": one.role, "content": one.own}
    content: list[dict[str, Any]] = [_search_result(passage) for passage in one.passages]
    content += [
        {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
        for kind, data in one.pictures
    ]
    for result in one.results:
        inner = [{"type": "text", "text": encodable(result.text)}, *map(_search_result, result.passages)]
        content.append(
            {
                "type": "tool_result",
                "tool_use_id": result.id,
                "content": inner,
                "is_error": result.failed,
            }
        )
    if one.text:
        content.append({"type": "text", "text": encodable(one.text)})
    return {"role": one.role, "content": content}


def _search_result(passage: CitablePassage) -> dict[str, Any]:
    """Return a passage with a block per line: the smallest part that the API cites."""
    lines = [line for line in encodable(passage.text).splitlines(keepends=True) if line.strip()]
    return {
        "type": "search_result",
        "source": encodable(passage.where),
        "title": encodable(passage.title) or "-",
        "content": [{"type": "text", "text": line} for line in lines or ["-"]],
        "citations": {"enabled": True},
    }


@dataclass(slots=True)
class _ClaudeAnswer:
    """What has come of an answer: its blocks as they are given back, and its tokens."""

    model: str
    passages: list[CitablePassage]
    blocks: list[dict[str, Any]] = field(default_factory=list)
    arguments: str = ""
    cited: list[CitedPart] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    reason: str | None = None
    counts: list[Any] = field(default_factory=list)

    def take(self, event: Any) -> Iterator[Event]:
        """Take an event of the stream, and yield what it adds. Raises ValueError and its like for a broken one."""
        match event.type:
            case "message_start":
                self.counts.append(event.message.usage)
            case "content_block_start":
                self.blocks.append(event.content_block.model_dump(mode="json", exclude_none=True))
                self.arguments = ""
            case "content_block_delta":
                yield from self._add(event.delta)
            case "content_block_stop":
                yield from self._finish()
            case "message_delta":
                self.reason = event.delta.stop_reason
                self.counts.append(event.usage)

    def _add(self, delta: Any) -> Iterator[Event]:
        block = self.blocks[-1]
        match delta.type:
            case "text_delta":
                said = encodable(delta.text)
                block["text"] += said
                yield SaidPart(said)
            case "thinking_delta":
                block["thinking"] += delta.thinking
                yield ThoughtPart(encodable(delta.thinking))
            case "signature_delta":
                block["signature"] = delta.signature
            case "input_json_delta":
                self.arguments += delta.partial_json
            case "citations_delta" if delta.citation.type == "search_result_location":
                found = self.passages[delta.citation.search_result_index]
                self.cited.append(CitedPart(found.n, encodable(delta.citation.cited_text)))

    def _finish(self) -> Iterator[Event]:
        """Yield the citations of a block: some come before its text, and they mean all of it."""
        block = self.blocks[-1]
        if block["type"] == "tool_use":
            block["input"] = readable(self.arguments)
            self.calls.append(ToolCall(block["id"], encodable(block["name"]), self.arguments or "{}"))
        block.pop("citations", None)
        yield from self.cited
        self.cited = []

    def ended(self) -> Ended:
        """Return the end of the answer; without a stop reason it was cut."""
        if self.reason is None:
            raise ChatModelError(f"the answer of {self.model} broke off; ask again")
        first, last = self.counts[0], self.counts[-1]
        usage = first.model_copy(update={"output_tokens": last.output_tokens})
        given = (
            usage.input_tokens
            + (usage.cache_read_input_tokens or 0)
            + (usage.cache_creation_input_tokens or 0)
        )
        reason: Any = _REASONS.get(self.reason, "complete")
        # An empty text is refused when it is given back.
        own = [one for one in self.blocks if one["type"] != "text" or one["text"]]
        return Ended(reason, tuple(self.calls), given, usage.output_tokens, cost_of(self.model, usage), own)
