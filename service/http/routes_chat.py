"""The routes of conversations: a question's answer as lines of JSON, and what is kept of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from anyio import CancelScope
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.schemas.chat import (
    ChatAnswer,
    ChatId,
    ChatLine,
    ChatRequest,
    ChatsAnswer,
    DeletedChat,
    SavedChat,
)
from service.usecases.chat.answer import Answering
from service.usecases.chat.conversations import Conversations
from service.usecases.search import View


class AnswerLines(StreamingResponse):
    """An answer, line by line; a reader that goes away ends the model's answer, too."""

    media_type = "application/x-ndjson"

    def __init__(
        self, answering: Answering, write: Callable[[ChatLine], str] = BaseModel.model_dump_json
    ) -> None:
        self._lines = answering.lines()
        self._write = write
        super().__init__(self._text(), headers={"X-Accel-Buffering": "no"})

    async def _text(self) -> AsyncGenerator[str, None]:
        async for line in self._lines:
            yield f"{self._write(line)}\n"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await self._lines.aclose()


def add_chat(app: FastAPI, view: View) -> Conversations:
    """Add the routes, and return the conversations, which the caller closes."""
    chats = Conversations(view)

    @app.post(
        "/chat",
        status_code=200,
        response_class=AnswerLines,
        responses={200: {"model": ChatLine, "description": "one line after another"}},
    )
    def ask(asked: ChatRequest) -> StreamingResponse:
        """Ask the vault: the answer of the model that the settings name, one JSON object per line.

        First `memory` and `metadata` with the sources that were found; then `thinking`, `tool`, more `metadata`,
        `text` and `error` as they come; last `done`. Each quotation was checked with its note before its line is
        sent. Without a model, 409.
        """
        return AnswerLines(chats.begin(asked))

    @app.get("/chats")
    def newest() -> ChatsAnswer:
        """List the conversations, the one that changed last first."""
        return chats.newest()

    @app.get("/chats/{chat}")
    def show(chat: ChatId) -> ChatAnswer:
        """Return a conversation with its answers and their sources."""
        return chats.show(chat)

    @app.delete("/chats/{chat}")
    def delete(chat: ChatId) -> DeletedChat:
        """Delete a conversation."""
        return chats.delete(chat)

    @app.post("/chats/{chat}/note")
    def save(chat: ChatId) -> SavedChat:
        """Write a conversation into the vault as a note in the folder `Chats`, or write its note again."""
        return chats.save(chat)

    return chats
