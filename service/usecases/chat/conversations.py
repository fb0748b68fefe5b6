"""Conversations with the vault: what is asked, what is kept of it, and the notes that they are saved as."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from pipelines.chat.models import ChatModel
from pipelines.errors import ChatModelError
from pipelines.model import EndpointUse
from pipelines.state.chats import Asking, Chats, StoredChat, StoredTurn
from pipelines.state.endpoints import EndpointUses
from service.schemas.chat import (
    AddedFile,
    ChatAnswer,
    ChatRequest,
    ChatsAnswer,
    ChatSource,
    ChatSummary,
    ChatTurn,
    DeletedChat,
    DoneLine,
    Pin,
    SavedChat,
    TextLine,
)
from service.schemas.notes import NewNote
from service.usecases.audience import OWNER, Audience
from service.usecases.changes import write_note
from service.usecases.chat.answer import Answering, ChatSpending, PastTurn
from service.usecases.chat.tools import ORIGIN, SAVED_IN, filters_of, passage_of
from service.usecases.search import View
from workers.endpoints import EndpointSpending, chat_model, require_chat

_MOST_LISTED = 200
_LONGEST_TITLE = 80
# The beginning of a tag, of an image or an embedded note, and of a link's address.
_ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|(?<=!)\[|(?<=\])\(")
_SOURCES = TypeAdapter(list[ChatSource])
_TEXT = TypeAdapter(list[TextLine])
_PINS = TypeAdapter(list[Pin])


class Conversations:
    """The conversations with a vault. Only the owner has them; no private note reaches a model that is not local."""

    def __init__(self, view: View) -> None:
        self._resources = view.resources
        self._settings = view.resources.settings.chat
        self._audience = Audience(view.resources)
        self._view = view.seen_by(OWNER if self._is_local else self._audience)
        uses = partial(view.resources.stores.of, EndpointUses)
        self._spending = EndpointSpending(uses, view.resources.settings.endpoints_usd_a_day)
        self._model: ChatModel | None = None
        self._loading = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether a model is named."""
        return self._settings is not None

    @property
    def model_name(self) -> str:
        """The name of the model, or nothing."""
        return self._settings.model if self._settings else ""

    @property
    def _is_local(self) -> bool:
        return bool(self._settings and self._settings.url and self._settings.local)

    async def close(self) -> None:
        """Close the connections to the model."""
        if self._model is not None:
            await self._model.close()

    # Asking

    def begin(self, asked: ChatRequest) -> Answering:
        """Store a question, and return what answers it. Raises ChatOffError, ChatNotFoundError, FilterError."""
        require_chat(self._resources.settings)
        filters_of(asked.scope or [])
        with closing(Chats(self._resources.store)) as chats:
            if asked.turn is not None and asked.files is None and asked.chat is not None:
                asked = asked.model_copy(update={"files": _files_of(chats.get(asked.chat), asked.turn)})
            asking = chats.ask(
                asked.chat,
                asked.turn,
                {
                    "question": asked.question,
                    "files": [{"name": one.name, "text": one.text} for one in asked.files or ()],
                },
                scope=None if asked.scope is None else [one.model_dump() for one in asked.scope],
                model=self.model_name,
            )
            stored = chats.get(asking.chat)
        past, has_private = self._past(stored.turns[: asking.number - 1])
        scope = _PINS.validate_python(stored.scope)
        keep = partial(self._keep, asking, has_private)
        return self._answering(asked, asking.chat, asking.number, scope, past, keep)

    async def expanded(self, question: str) -> str:
        """Return what is searched for a question where `expand` is on. Raises ChatOffError, ChatModelError."""
        require_chat(self._resources.settings)
        answering = self._answering(ChatRequest(question=question))
        answering.expands = True
        return await answering.expanded()

    def _answering(
        self,
        asked: ChatRequest,
        chat: str = "",
        turn: int = 0,
        scope: Sequence[Pin] = (),
        past: Sequence[PastTurn] = (),
        keep: Callable[[Answering, DoneLine], None] = lambda _answering, _done: None,
    ) -> Answering:
        return Answering(
            chat=chat,
            turn=turn,
            asked=asked,
            scope=scope,
            past=past,
            view=self._view,
            model_name=self.model_name,
            is_local=self._is_local,
            expands=bool(self._settings and self._settings.expand),
            load=self._load,
            spending=ChatSpending(self._require_budget, self._record),
            keep=keep,
        )

    def _past(self, turns: Collection[StoredTurn]) -> tuple[list[PastTurn], bool]:
        """Return the turns that the model may be sent, and whether one of them is private.

        A model that is not local gets none that a local one answered from private notes or from files, and none with
        a source that has become private since.
        """
        hidden = self._hidden()
        past, has_private = [], False
        for turn in turns:
            sources = _SOURCES.validate_python(turn.answer["sources"]) if turn.answer else []
            is_private = turn.is_private or any(one.path in hidden for one in sources)
            if turn.answer is None or (is_private and not self._is_local):
                continue
            has_private |= is_private
            answer = "".join(one.text for one in _TEXT.validate_python(turn.answer["text"]))
            if answer.strip():
                files = tuple(passage_of(one) for one in sources if one.path is None)
                past.append(PastTurn(turn.asked["question"], answer, files, tuple(sources)))
        return past, has_private

    def _hidden(self) -> frozenset[str]:
        """Return the paths that a model which is not local must not learn of. Raises CacheError."""
        return frozenset().union(*(self._audience.hidden(one.slug) for one in self._resources.domains()))

    def _keep(self, asking: Asking, has_private: bool, answering: Answering, done: DoneLine) -> None:  # noqa: FBT001
        """Store an answer; it is private if a local model read private notes or files for it."""
        is_private = has_private
        if self._is_local:
            is_private |= bool(answering.asked.files) or not self._hidden().isdisjoint(answering.toolbox.seen)
        answer = {
            "sources": [one.model_dump(mode="json") for one in answering.toolbox.sources.values()],
            "text": [one.model_dump(mode="json") for one in answering.text],
            "done": done.model_dump(mode="json"),
        }
        with closing(Chats(self._resources.store)) as chats:
            chats.answer(asking, answer, is_private=is_private)

    def _load(self) -> ChatModel:
        """Return the model; its client is loaded when it is first asked. Raises ChatModelError."""
        with self._loading:
            if self._model is None:
                self._model = chat_model(self._resources.settings)
            return self._model

    def _require_budget(self) -> None:
        limit = self._resources.settings.endpoints_usd_a_day
        if not self._spending.may_spend():
            raise ChatModelError(
                f"today's limit of {limit:g} dollars is reached, or what was spent cannot be read;"
                " ask tomorrow, or raise `usd_a_day`"
            )

    def _record(self, tokens: int, dollars: float, failed: bool) -> None:  # noqa: FBT001
        use = EndpointUse(f"chat: {self.model_name}", 1, int(failed), 0, tokens, dollars)
        self._spending.used(use)

    # What is kept

    def newest(self) -> ChatsAnswer:
        """List the conversations, the one that changed last first."""
        with closing(Chats(self._resources.store)) as chats:
            found = chats.newest(_MOST_LISTED)
        return ChatsAnswer(
            chats=[
                ChatSummary(id=one.id, title=_title(one.asked), turns=one.turns, changed_at=one.changed_at)
                for one in found
                if one.turns
            ]
        )

    def show(self, chat: str) -> ChatAnswer:
        """Return a conversation. Raises ChatNotFoundError."""
        with closing(Chats(self._resources.store)) as chats:
            stored = chats.get(chat)
        turns = [
            ChatTurn(
                number=one.number,
                question=one.asked["question"],
                files=[file["name"] for file in one.asked["files"]],
                model=one.model,
                asked_at=one.asked_at,
                **_answer_of(one.answer),
            )
            for one in stored.turns
        ]
        title = _short(turns[0].question) if turns else ""
        return ChatAnswer(id=chat, title=title, scope=_PINS.validate_python(stored.scope), turns=turns)

    def delete(self, chat: str) -> DeletedChat:
        """Delete a conversation. Raises ChatNotFoundError."""
        with closing(Chats(self._resources.store)) as chats:
            chats.delete(chat)
        return DeletedChat(deleted=chat)

    def save(self, chat: str) -> SavedChat:
        """Write a conversation into the vault as a note, or write its note again.

        It is private if one of its sources is. Raises ChatNotFoundError, and what `write_note` raises.
        """
        with closing(Chats(self._resources.store)) as chats:
            stored = chats.get(chat)
        shown, hidden = self.show(chat), self._hidden()
        paths = {source.path for turn in shown.turns for source in turn.sources}
        is_private = any(one.is_private for one in stored.turns) or not hidden.isdisjoint(paths)
        note = NewNote(
            title=shown.title.replace("\n", " "),
            text=as_markdown(shown),
            properties={
                ORIGIN[0]: ORIGIN[1],
                "id": f"chat-{chat}",
                **({"private": True} if is_private else {}),
            },
        )
        return SavedChat(path=write_note(self._view, note, SAVED_IN).path)


def _files_of(stored: StoredChat, turn: int) -> list[AddedFile]:
    """Return the texts that were added to a question; pictures are not kept."""
    return [
        AddedFile(name=file["name"], text=file["text"], picture=None, media_type=None)
        for one in stored.turns
        if one.number == turn
        for file in one.asked["files"]
        if file["text"] is not None
    ]


def _answer_of(answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parts of a stored answer; one that was interrupted has none."""
    return dict(answer) if answer else {"sources": [], "text": [], "done": None}


def _title(asked: str) -> str:
    return _short(json.loads(asked)["question"])


def _short(question: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in question).split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1].rstrip()}…"


def as_markdown(chat: ChatAnswer) -> str:
    """Return a conversation as Markdown: each question is a heading above its answer."""
    return "\n".join(f"## {one.question.strip()}\n\n{answer_as_markdown(chat, one)}\n" for one in chat.turns)


def answer_as_markdown(chat: ChatAnswer, turn: ChatTurn) -> str:
    """Return an answer as Markdown: what is not verified is marked, and each source is a link with its lines."""
    return "\n".join(_written(chat, turn))


def _written(chat: ChatAnswer, turn: ChatTurn) -> Iterator[str]:
    yield "".join(_marked(line) for line in turn.text).strip() + "\n"
    cited = {n for line in turn.text for n in (*line.cited, *(span.n for span in line.quotes))}
    known = [source for one in chat.turns for source in one.sources if source.n in cited]
    for source in known:
        where = f"[[{source.path}]]" if source.path else source.title
        lines = f", lines {source.lines.first} to {source.lines.last}" if source.lines else ""
        yield f"- [{source.n}] {where}{lines}"


def _marked(line: TextLine) -> str:
    """Return a sentence with a mark behind each quotation that is not in the notes, and nothing that a page loads."""
    parts, at = [], 0
    wrong = [one for one in line.quotes if not one.verified]
    for span in sorted(wrong, key=lambda one: one.end or 0):
        if span.end is not None:
            end = span.end + 1  # after the quotation mark
            parts += [_inert(line.text[at:end]), " (not in the notes)"]
            at = end
    rest = line.text[at:]
    if line.support == "unverified" and not parts:
        kept = rest.rstrip()
        return f"{_inert(kept)} (its source is not there){rest[len(kept) :]}"
    return "".join([*parts, _inert(rest)])


def _inert(text: str) -> str:
    """Return Markdown of which no program loads an image, follows a link or reads HTML: a model made it up."""
    return _ACTIVE.sub(r"\\\g<0>", text)
