"""A real model answers about a real vault: what it says is poor, but stream, stop, limits and quotations are real."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from pipelines.search.quotes import normalise
from queue_config.settings import ChatSettings
from service.schemas.chat import ChatRequest
from service.usecases.chat.conversations import Conversations
from service.usecases.search import View
from tests.chat_session import NOTES, QUESTION, asked_user, kept, lines_of, write
from tests.servers import llama_chat, needs_llama
from tests.working import indexed
from workers.resources import Resources

pytest.importorskip("openai", reason="everindex[chat] is not installed")
pytestmark = [pytest.mark.slow, needs_llama]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A machine that is busy with other tests is slower than the limits allow for."""
    monkeypatch.setattr("service.usecases.chat.answer.MOST_SECONDS", 200.0)


@pytest.fixture
def asked(tmp_path, tiny_model):
    with asked_user(tmp_path, write(tmp_path / "notes"), EMBEDDING_MODEL=str(tiny_model)) as user:
        yield user


def test_an_answer_comes_line_by_line_and_who_leaves_frees_the_model(asked):
    printed = next(asked.root.parent.glob("*.log"))
    lines = list(lines_of(asked, most=2, question=QUESTION))
    kinds = [line["type"] for line in lines]
    assert kinds[:2] == ["memory", "metadata"]
    assert kinds.count("text") == 2
    again = list(lines_of(asked, most=1, question="When does the boat sail?"))
    assert [line["type"] for line in again][-1] == "text"
    assert "Disconnected from client" in printed.read_text()
    for chat in asked.get("/chats").json()["chats"]:
        turn = kept(asked, chat["id"])
        assert turn["done"]["ended"] == "stopped"
        assert turn["text"]


def test_a_limit_ends_the_answer_and_its_quotations_are_those_of_the_notes(
    vault, tmp_path, tiny_model, monkeypatch
):
    monkeypatch.setattr("service.usecases.chat.answer.MOST_TOKENS", 80)
    made = indexed(vault, tmp_path / "state", tiny_model, NOTES)
    with llama_chat(tmp_path) as served:
        chosen = ChatSettings(model="gemma-3-270m", url=served.url, local=True)
        resources = Resources(made.model_copy(update={"chat": chosen}))
        answers = asyncio.run(asked_often(Conversations(View(resources, wait_for_model=True)), 3))
    written = normalise(" ".join(NOTES.values()))
    spans = [span for lines in answers for line in lines if line.type == "text" for span in line.quotes]
    assert spans
    for span in spans:
        stands = normalise(span.quote) in written
        assert stands if span.verified else span.reason != "not_found" or not stands
    for *_, done in answers:
        assert done.ended in ("tokens", "complete")
        assert 0 < done.tokens_out <= 80
        assert done.limits == (["an answer has 80 tokens at most"] if done.ended == "tokens" else [])
    assert "tokens" in [done.ended for *_, done in answers]
    assert sum(done.verified + done.unverified for *_, done in answers) == len(spans)


async def asked_often(chats, times):
    """Ask the same in one conversation after another; return all lines of each answer."""
    found = []
    for _ in range(times):
        async with aclosing(chats.begin(ChatRequest(question=QUESTION)).lines()) as lines:
            found.append([line async for line in lines])
    await chats.close()
    return found
