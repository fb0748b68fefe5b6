"""Conversations as their user has them: a real service, whose model is a fake server in another process's place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fakes.model_api import KEY, LOCAL, Reply, Said, Wait, fake_model
from tests.whole.conftest import User, wait_for

pytest.importorskip("openai", reason="everindex[chat] is not installed")

NOTES = {
    f"area{n}/Note {n}.md": f"# Note {n}\n\nThe password of area {n} is swordfish{n}.\n" for n in range(10)
}


@pytest.fixture
def fake():
    with fake_model() as running:
        yield running


@pytest.fixture
def asked(tmp_path, tiny_model, fake):
    root = tmp_path / "notes"
    for path, text in NOTES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    chat = {"model": LOCAL, "url": f"{fake.url}/v1", "key": KEY, "local": True, "usd_per_million_tokens": 0}
    user = User(tmp_path, root, EMBEDDING_MODEL=str(tiny_model), EVERINDEX_CHAT=json.dumps(chat))
    user.up()
    yield user
    user.stop()


def streamed(user, **body):
    """Return the open stream of an answer."""
    token = (user.state / "token").read_text().strip()
    return httpx.stream(
        "POST",
        f"http://127.0.0.1:{user.port}/chat",
        json=body,
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )


def answered(user, **body):
    with streamed(user, **body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.iter_lines()]


def test_a_sentence_arrives_while_the_model_still_speaks_and_who_leaves_ends_it(asked, fake):
    more = threading.Event()
    fake.replies.append(Reply(Said("The first is here. The second "), Wait(more), Said("comes. "), Wait(60)))
    with streamed(asked, question="What is the password of area 3?") as response:
        lines = (json.loads(line) for line in response.iter_lines())
        kinds = []
        for line in lines:
            kinds.append(line["type"])
            if line["type"] == "text" and "first" in line["text"]:
                break
        assert kinds[:2] == ["memory", "metadata"]
        assert not more.is_set()
    assert fake.hung_up.wait(30)
    (turn,) = asked.get(f"/chats/{asked.get('/chats').json()['chats'][0]['id']}").json()["turns"]
    assert turn["done"]["ended"] == "stopped"
    assert "The first is here." in "".join(line["text"] for line in turn["text"])


def test_a_service_that_dies_in_the_middle_of_an_answer_loses_no_conversation(asked, fake):
    first = answered(asked, question="What is the password of area 3?")[1]["chat"]
    fake.replies.append(Reply(Said("It begins. And "), Wait(60)))
    with streamed(asked, question="And of area 4?", chat=first) as response:
        next(line for line in response.iter_lines() if "It begins" in line)
        service = json.loads((asked.state / "service.json").read_text())
        os.kill(int(service["process"].rpartition(":")[2].partition("/")[0]), signal.SIGKILL)
        for process in asked.processes:
            process.kill()
    asked.stop()
    asked.up()
    turns = asked.get(f"/chats/{first}").json()["turns"]
    assert [turn["question"] for turn in turns] == ["What is the password of area 3?", "And of area 4?"]
    assert turns[0]["done"]["ended"] == "complete"
    assert turns[1]["done"] is None
    again = answered(asked, question="And of area 4?", chat=first, turn=2)
    assert again[-1]["ended"] == "complete"
    assert len(asked.get(f"/chats/{first}").json()["turns"]) == 2


def test_twenty_conversations_at_once_keep_to_their_scopes(asked, fake):
    fake.by_default = lambda body: Reply(Said(body["messages"][-1]["content"], slowly=0.001))

    def ask(number):
        scope = [{"kind": "folder", "value": f"area{number % 10}"}]
        return number, answered(asked, question=f"question {number}: what is the password?", scope=scope)

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(ask, range(20)))
    for number, lines in found:
        own = number % 10
        sources = {one["path"] for line in lines if line["type"] == "metadata" for one in line["sources"]}
        text = "".join(line["text"] for line in lines if line["type"] == "text")
        assert sources == {f"area{own}/Note {own}.md"}
        assert f"swordfish{own}" in text
        assert not any(f"swordfish{n}" in text for n in range(10) if n != own)
        assert f"question {number}:" in text
    assert len(asked.get("/chats").json()["chats"]) == 20


def run(user, *arguments, typed=None):
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments, *user.place],
        env=user.environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_terminal_asks_marks_quotations_and_goes_on(asked, fake, tmp_path):
    fake.by_default = lambda _: Reply(
        Said('It is "password of area 3 is swordfish3" [1]. Or "password of area 3 is herring" [1].')
    )
    done = run(asked, "ask", "what is the password of area 3?", "--folder", "area3")
    assert done.returncode == 0, done.stderr
    assert 'swordfish3" ✓ [1]' in done.stdout
    assert 'herring" ✗ not in the notes [1]' in done.stdout
    assert "[1] area3/Note 3.md:" in done.stdout
    assert "1 quotation in your notes, 1 not" in done.stderr
    chat = done.stderr.rpartition("--continue ")[2].split()[0]
    (tmp_path / "list.txt").write_text("Buy nineteen red buckets.")
    done = run(asked, "ask", "and now?", "--continue", chat, "--file", str(tmp_path / "list.txt"), "--json")
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()][-1] == "done"
    assert "nineteen red buckets" in fake.wire
    done = run(asked, "chat", typed="first thing\nsecond thing\n\n")
    assert done.returncode == 0, done.stderr
    request = json.dumps(fake.requests[-1])
    assert "first thing" in request
    assert "second thing" in request


def test_an_answer_that_failed_is_an_exit_code_and_without_a_model_it_is_said_how_to_name_one(asked, fake):
    fake.by_default = lambda _: Reply(status=401, message="no")
    done = run(asked, "ask", "what?")
    assert done.returncode == 1
    assert "check its key" in done.stderr
    asked.stop()
    del asked.environment["EVERINDEX_CHAT"]
    asked.up()
    wait_for(asked.health, "it is up")
    assert asked.post("/chat", {"question": "what?"}).status_code == 409
    done = run(asked, "ask", "what?")
    assert done.returncode == 1
    assert "EVERINDEX_CHAT" in done.stderr
