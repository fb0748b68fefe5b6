"""Conversations in `state.db`: their questions and answers, until they are deleted or too old."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pipelines.errors import ChatNotFoundError
from pipelines.model import Place, as_iso, now_iso
from pipelines.sqlite import first, records, select, snapshot, transaction
from pipelines.state.state import open_state


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A question and its answer as JSON values; `answer` is None until it ended."""

    number: int
    asked_at: str
    model: str
    is_private: bool
    asked: Mapping[str, Any]
    answer: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class StoredChat:
    """A conversation; `scope` is a JSON value."""

    id: str
    scope: list[dict[str, str]]
    turns: tuple[StoredTurn, ...]


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A conversation in a list: its first question as JSON, and its number of questions."""

    id: str
    changed_at: str
    asked: str
    turns: int


@dataclass(frozen=True, slots=True)
class Asking:
    """A question that was stored, for its answer to find."""

    chat: str
    number: int
    key: str


class Chats:
    """A connection to the conversations in a vault's `state.db`."""

    def __init__(self, place: Place) -> None:
        self._con = open_state(place)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def ask(
        self,
        chat: str | None,
        turn: int | None,
        asked: Mapping[str, Any],
        *,
        scope: Sequence[Mapping[str, str]] | None,
        model: str,
    ) -> Asking:
        """Store a question: the first of a new conversation, a further one, or in place of a turn and all after it.

        `scope` None leaves it as it is. Raises ChatNotFoundError, StorageUnavailableError.
        """
        now, key = now_iso(), secrets.token_hex(8)
        with transaction(self._con):
            if chat is None:
                chat = secrets.token_hex(6)
                self._con.execute("INSERT INTO chat VALUES (?, ?, ?)", (chat, json.dumps(scope or []), now))
            else:
                self._con.execute("UPDATE chat SET changed_at = ? WHERE id = ?", (now, chat))
                if not self._con.changes():
                    raise _missing(chat)
                if scope is not None:
                    self._con.execute("UPDATE chat SET scope = ? WHERE id = ?", (json.dumps(scope), chat))
            number = self._next(chat, turn)
            self._con.execute(
                "INSERT INTO chat_turn VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (chat, number, key, now, model, 0, json.dumps(asked)),
            )
        return Asking(chat, number, key)

    def _next(self, chat: str, turn: int | None) -> int:
        """Return the number of the next question, having made room for it."""
        last = select(self._con, "SELECT max(number) FROM chat_turn WHERE chat = ?", (chat,))[0][0] or 0
        if turn is None:
            return int(last) + 1
        if turn > last:
            raise ChatNotFoundError(
                f"the conversation {chat} has {last} questions, and none with the number {turn}"
            )
        self._con.execute("DELETE FROM chat_turn WHERE chat = ? AND number >= ?", (chat, turn))
        return turn

    def answer(self, asking: Asking, answer: Mapping[str, Any], *, is_private: bool) -> None:
        """Store an answer, unless its question was replaced or deleted meanwhile. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE chat_turn SET answer = ?, is_private = ? WHERE chat = ? AND number = ? AND key = ?",
                (json.dumps(answer), int(is_private), asking.chat, asking.number, asking.key),
            )

    def get(self, chat: str) -> StoredChat:
        """Return a conversation. Raises ChatNotFoundError."""
        with snapshot(self._con):
            found = first(self._con, "SELECT scope FROM chat WHERE id = ?", (chat,))
            if found is None:
                raise _missing(chat)
            rows = select(
                self._con,
                "SELECT number, asked_at, model, is_private, asked, answer FROM chat_turn WHERE chat = ?"
                " ORDER BY number",
                (chat,),
            )
        return StoredChat(
            chat,
            json.loads(found[0]),
            tuple(
                StoredTurn(
                    number=number,
                    asked_at=asked_at,
                    model=model,
                    is_private=bool(is_private),
                    asked=json.loads(asked),
                    answer=json.loads(answer) if answer else None,
                )
                for number, asked_at, model, is_private, asked, answer in rows
            ),
        )

    def newest(self, limit: int) -> list[StoredSummary]:
        """Return up to `limit` conversations, the one that changed last first."""
        return records(
            self._con,
            StoredSummary,
            "SELECT id, changed_at,"
            " (SELECT asked FROM chat_turn WHERE chat = chat.id ORDER BY number LIMIT 1) AS asked,"
            " (SELECT count(*) FROM chat_turn WHERE chat = chat.id) AS turns"
            " FROM chat ORDER BY changed_at DESC, id LIMIT ?",
            (limit,),
        )

    def delete(self, chat: str) -> None:
        """Delete a conversation. Raises ChatNotFoundError, StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM chat WHERE id = ?", (chat,))
            if not self._con.changes():
                raise _missing(chat)
            self._con.execute("DELETE FROM chat_turn WHERE chat = ?", (chat,))

    def prune(self, days: float) -> None:
        """Delete the conversations that have not changed for so many days. Raises StorageUnavailableError."""
        until = as_iso(datetime.now(UTC) - timedelta(days=days))
        with transaction(self._con):
            self._con.execute(
                "DELETE FROM chat_turn WHERE chat IN (SELECT id FROM chat WHERE changed_at < ?)", (until,)
            )
            self._con.execute("DELETE FROM chat WHERE changed_at < ?", (until,))


def _missing(chat: str) -> ChatNotFoundError:
    return ChatNotFoundError(f"there is no conversation {chat!r}; GET /chats lists those that there are")
