"""Conversations with a server of OpenAI's shape: OpenAI, Ollama, LM Studio, llama.cpp, vLLM, OpenRouter."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pipelines.chat.models import (
    CHARACTERS_PER_TOKEN,
    CitablePassage,
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
from pipelines.claude import encodable
from pipelines.errors import ChatModelError, ToolsRefusedError

_REASONS = {"length": "tokens", "content_filter": "refused", "tool_calls": "tools"}
_OF_THE_REQUEST = (400, 404, 422, 500, 501)
_REMEDIES = {
    401: "check its key",
    402: "check the account's credit",
    403: "check what its key may do",
    404: "check its url and model",
    429: "wait, or check the account's limits",
}
_OPENAI = "api.openai.com"


class OpenAIModel:
    """A model behind OpenAI's `/chat/completions`; `timeout_s` limits connecting and each wait for more."""

    cites = False

    def __init__(
        self,
        name: str,
        url: str,
        *,
        key: str = "",
        local: bool = False,
        usd_per_million_tokens: float = 0.0,
        timeout_s: float = 60.0,
    ) -> None:
        """Make the client. Raises ChatModelError where it is not installed."""
        try:
            import httpx2  # noqa: PLC0415 - as below
            import openai  # noqa: PLC0415 - takes half a second, and is needed only for a conversation
        except ImportError:
            raise ChatModelError(
                "the client of OpenAI's API is not installed; install everindex[chat]"
            ) from None
        # At debug level the client logs whole requests, but a note's text must never go into logs.
        logging.getLogger("openai").setLevel(logging.WARNING)
        self.name = name
        self.local = local
        self.paid = usd_per_million_tokens > 0
        self._price = usd_per_million_tokens
        self._key = key
        self._errors = openai
        # In the middle of an answer the client lets the errors of its connection through.
        self._lost = (openai.OpenAIError, httpx2.HTTPError, OSError)
        self._limit = "max_completion_tokens" if urlsplit(url).hostname == _OPENAI else "max_tokens"
        # Texts go to the endpoint's own address alone, whatever the environment says.
        self._client = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=url,
            timeout=timeout_s,
            max_retries=0,
            organization="",
            project="",
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False),
        )

    async def stream(self, asked: ModelRequest) -> AsyncGenerator[Event, None]:
        """Yield the answer piece by piece, with `Ended` at the end. Raises ChatModelError, ToolsRefusedError."""
        answer = _OpenAIAnswer(self.name, self._price)
        request = self._request(asked)
        with chat_errors(self.name, self._lost):
            try:
                async with await self._client.chat.completions.create(**request, stream=True) as chunks:
                    async for chunk in chunks:
                        for piece in answer.take(chunk):
                            yield piece
            except self._errors.APIStatusError as error:
                raise self._refused(error, with_tools=bool(asked.tools)) from None
        yield answer.ended(sum(len(str(one)) for one in request["messages"]))

    def dollars(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of these tokens in US dollars."""
        return (tokens_in + tokens_out) * self._price / 1e6

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    def _request(self, asked: ModelRequest) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": asked.instructions}]
        for one in asked.messages:
            messages += _messages(one)
        request: dict[str, Any] = {
            "model": self.name,
            "messages": messages,
            self._limit: asked.most_tokens,
            "stream_options": {"include_usage": True},
        }
        if asked.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": one.name,
                        "description": one.description,
                        "parameters": one.schema,
                    },
                }
                for one in asked.tools
            ]
        return request

    def _refused(self, error: Any, *, with_tools: bool) -> ChatModelError:
        """Return what an HTTP status means; it never contains the key."""
        status = error.status_code
        said = str(error.message).replace(self._key or "\0", "[key]")[:300]
        if with_tools and status in _OF_THE_REQUEST and "tool" in said.lower():
            return ToolsRefusedError(f"{self.name} takes no tools")
        todo = _REMEDIES.get(status, "see what it says")
        return ChatModelError(
            f"the server of {self.name} refused the request (HTTP {status}: {said}); {todo}"
        )


def _messages(one: Message) -> Iterator[dict[str, Any]]:
    if one.own is not None:
        yield one.own
        return
    for result in one.results:
        text = "\n\n".join([result.text, *map(written, result.passages)])
        yield {"role": "tool", "tool_call_id": result.id, "content": encodable(text)}
    text = encodable("\n\n".join([*map(written, one.passages), *filter(None, [one.text])]))
    if one.pictures:
        pictures = [
            {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
            for kind, data in one.pictures
        ]
        yield {"role": one.role, "content": [*pictures, {"type": "text", "text": text}]}
    elif text:
        yield {"role": one.role, "content": text}


def written(passage: CitablePassage) -> str:
    """Return a passage as a model reads it. What ends it cannot be part of its text, or of its note's path."""
    where, text = (one.replace("</passage", "<\u200b/passage") for one in (passage.where, passage.text))
    return f'<passage n="{passage.n}" from="{where.replace(chr(34), chr(39))}">\n{text}\n</passage>'


@dataclass(slots=True)
class _OpenAIAnswer:
    """What has come of an answer."""

    model: str
    price: float
    text: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    reason: str | None = None
    usage: Any = None

    def take(self, chunk: Any) -> Iterator[Event]:
        """Take a chunk of the stream, and yield what it adds. Raises TypeError and its like for a broken one."""
        if getattr(chunk, "usage", None):
            self.usage = chunk.usage
        for choice in chunk.choices[:1]:
            self.reason = choice.finish_reason or self.reason
            delta = choice.delta
            # Servers of models that think call it by either name.
            thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
            if thought:
                yield ThoughtPart(encodable(str(thought)))
            if delta.content:
                said = encodable(delta.content)
                self.text.append(said)
                yield SaidPart(said)
            for call in delta.tool_calls or ():
                self._add(call)

    def _add(self, call: Any) -> None:
        """Add a part of a call of a tool: its arguments come in pieces."""
        held = self.calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
        held["id"] = call.id or held["id"]
        if call.function:
            held["name"] += encodable(call.function.name or "")
            held["arguments"] += call.function.arguments or ""

    def ended(self, characters: int) -> Ended:
        """Return the end of the answer; a server that counts no tokens is counted by its characters."""
        if self.reason is None:
            raise ChatModelError(f"the answer of {self.model} broke off; ask again")
        said = "".join(self.text)
        calls = tuple(
            ToolCall(one["id"] or f"call_{at}", one["name"], one["arguments"] or "{}")
            for at, one in self.calls.items()
            if one["name"]
        )
        given = getattr(self.usage, "prompt_tokens", None) or characters // CHARACTERS_PER_TOKEN
        made = getattr(self.usage, "completion_tokens", None) or -(-len(said) // CHARACTERS_PER_TOKEN)
        own: dict[str, Any] = {"role": "assistant", "content": said or None}
        if calls:
            own["tool_calls"] = [
                {
                    "id": one.id,
                    "type": "function",
                    "function": {"name": one.name, "arguments": json.dumps(readable(one.arguments))},
                }
                for one in calls
            ]
        reason: Any = "tools" if calls else _REASONS.get(self.reason, "complete")
        return Ended(reason, calls, given, made, (given + made) * self.price / 1e6, own)
