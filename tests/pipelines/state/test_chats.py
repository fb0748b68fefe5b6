"""Conversations stay as they were until they are asked anew, deleted or too old, on both stores."""

from __future__ import annotations

import time

import pytest

from pipelines.errors import ChatNotFoundError
from pipelines.state.chats import Chats
from pipelines.state.state import State

ON_BOTH_STORES = True
SCOPE = [{"kind": "folder", "value": "Notes ☃"}]


@pytest.fixture
def chats(place):
    State(place).close()
    opened = Chats(place)
    yield opened
    opened.close()


def ask(chats, question, chat=None, turn=None, scope=None):
    return chats.ask(chat, turn, {"question": question, "files": []}, scope=scope, model="m")


def questions(chats, chat):
    return [turn.asked["question"] for turn in chats.get(chat).turns]


def test_a_conversation_is_what_was_asked_and_answered(chats):
    first = ask(chats, "one ☃", scope=SCOPE)
    chats.answer(first, {"text": "uno"}, is_private=True)
    second = ask(chats, "two", first.chat)
    stored = chats.get(first.chat)
    assert (first.number, second.number) == (1, 2)
    assert stored.scope == SCOPE
    assert [turn.answer for turn in stored.turns] == [{"text": "uno"}, None]
    assert [turn.is_private for turn in stored.turns] == [True, False]


def test_a_question_that_is_asked_anew_deletes_what_came_after_it(chats):
    chat = ask(chats, "one").chat
    late = ask(chats, "two", chat)
    ask(chats, "three", chat)
    ask(chats, "deux", chat, turn=2)
    chats.answer(late, {"text": "an answer that came too late"}, is_private=False)
    assert questions(chats, chat) == ["one", "deux"]
    assert chats.get(chat).turns[1].answer is None
    with pytest.raises(ChatNotFoundError):
        ask(chats, "five", chat, turn=5)


def test_a_conversation_that_is_not_there_cannot_be_asked(chats):
    for act in (chats.get, chats.delete, lambda chat: ask(chats, "what?", chat)):
        with pytest.raises(ChatNotFoundError):
            act("0123456789ab")
    assert chats.newest(10) == []


def test_the_newest_come_first_and_the_deleted_not_at_all(chats):
    one, two = ask(chats, "one").chat, ask(chats, "two").chat
    time.sleep(0.002)  # the precision of the times
    ask(chats, "more", one)
    assert [(found.id, found.turns) for found in chats.newest(10)] == [(one, 2), (two, 1)]
    chats.delete(one)
    assert [found.id for found in chats.newest(10)] == [two]


def test_what_has_not_changed_for_too_long_is_deleted(chats):
    chat = ask(chats, "one").chat
    chats.prune(1.0)
    assert questions(chats, chat) == ["one"]
    time.sleep(0.002)
    chats.prune(0.0)
    assert chats.newest(10) == []
