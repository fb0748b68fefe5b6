"""The fake model server, asked by the official clients of both protocols."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import httpx
import httpx2
import pytest

from tests.fakes.model_api import (
    CLAUDE,
    KEY,
    LOCAL,
    Broken,
    Called,
    Cite,
    Cut,
    ErrorEvent,
    Garbage,
    Ping,
    Reply,
    Said,
    Thought,
    Wait,
    fake_model,
)

anthropic = pytest.importorskip("anthropic", reason="everindex[chat] is not installed")
openai = pytest.importorskip("openai", reason="everindex[chat] is not installed")

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
QUESTION = [{"role": "user", "content": "What is soil?"}]
WHOLE = [
    Thought("I look it up."),
    Ping(),
    Said("Soil is alive. ", slowly=0.001),
    Called("search", {"query": "Bodenlebewesen, größer"}),
    Called("search", {"query": "worms"}),
]


@pytest.fixture
def fake():
    with fake_model() as running:
        yield running


class Claude:
    """Anthropic's client; what a stream said is collected from its events as they come."""

    tools = ({"name": "search", "description": "Search.", "input_schema": SCHEMA},)
    error = anthropic.APIError

    def __init__(self, fake, key=KEY):
        self.client = anthropic.Anthropic(base_url=fake.url, api_key=key, max_retries=0)
        self.given = {"model": CLAUDE, "max_tokens": 100, "messages": QUESTION}

    def events(self, **changed):
        return self.client.messages.create(stream=True, **self.given | changed)

    def read(self, stream):
        """Return what was thought, said, called, why it stopped, and the tokens."""
        got = SimpleNamespace(
            thought="", said="", calls=[], stop=None, tokens=None, pieces=0, cites=[], signed=""
        )
        for event in stream:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                got.calls.append([event.content_block.name, ""])
            elif event.type == "content_block_delta":
                delta = event.delta
                got.pieces += delta.type == "text_delta"
                got.said += getattr(delta, "text", "")
                got.thought += getattr(delta, "thinking", "")
                got.signed += getattr(delta, "signature", "")
                if delta.type == "input_json_delta":
                    got.calls[-1][1] += delta.partial_json
                if delta.type == "citations_delta":
                    got.cites.append((got.said, delta.citation))
            elif event.type == "message_delta":
                got.stop, got.tokens = event.delta.stop_reason, event.usage.output_tokens
        return got

    def whole(self, **changed):
        return self.client.messages.create(**self.given | changed)


class OpenAI:
    """OpenAI's client, as above."""

    tools = ({"type": "function", "function": {"name": "search", "description": "-", "parameters": SCHEMA}},)
    error = openai.APIError

    def __init__(self, fake, key=KEY):
        self.client = openai.OpenAI(base_url=f"{fake.url}/v1", api_key=key, max_retries=0)
        self.given = {"model": LOCAL, "max_tokens": 100, "messages": QUESTION}

    def events(self, **changed):
        given = self.given | {"stream_options": {"include_usage": True}} | changed
        return self.client.chat.completions.create(stream=True, **given)

    def read(self, stream):
        got = SimpleNamespace(thought="", said="", calls=[], stop=None, tokens=None, pieces=0)
        for chunk in stream:
            if chunk.usage:
                got.tokens = chunk.usage.completion_tokens
            for choice in chunk.choices:
                got.pieces += bool(choice.delta.content)
                got.said += choice.delta.content or ""
                got.thought += getattr(choice.delta, "reasoning_content", None) or ""
                got.stop = choice.finish_reason or got.stop
                for call in choice.delta.tool_calls or []:
                    if call.id:
                        got.calls.append([call.function.name, ""])
                    got.calls[call.index][1] += call.function.arguments
        return got

    def whole(self, **changed):
        return self.client.chat.completions.create(**self.given | changed)


@pytest.fixture(params=[Claude, OpenAI])
def client(request, fake):
    made = request.param(fake)
    yield made
    made.client.close()


STOPS = {
    Claude: {"end": "end_turn", "tokens": "max_tokens", "refusal": "refusal", "tools": "tool_use"},
    OpenAI: {"end": "stop", "tokens": "length", "refusal": "content_filter", "tools": "tool_calls"},
}


def test_thoughts_texts_and_calls_come_as_they_were_said(fake, client):
    fake.replies.append(Reply(*WHOLE))
    got = client.read(client.events(tools=client.tools))
    assert (got.thought, got.said, got.pieces) == ("I look it up.", "Soil is alive. ", 4)
    assert [(name, json.loads(given)) for name, given in got.calls] == [
        ("search", {"query": "Bodenlebewesen, größer"}),
        ("search", {"query": "worms"}),
    ]
    assert got.stop == STOPS[type(client)]["tools"]
    assert got.tokens > 8
    assert fake.requests[0]["messages"] == QUESTION
    assert "What is soil?" in fake.wire
    assert fake.keys == [KEY]


def test_what_is_not_streamed_is_the_same(fake, client):
    fake.by_default = lambda _: Reply(*WHOLE)
    answer = client.whole(tools=client.tools)
    if isinstance(client, Claude):
        assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert answer.content[1].text == "Soil is alive. "
        assert answer.content[3].input == {"query": "worms"}
        assert len({block.id for block in answer.content[2:]}) == 2
        assert (answer.stop_reason, answer.usage.output_tokens > 8) == ("tool_use", True)
    else:
        message = answer.choices[0].message
        assert (message.content, message.reasoning_content) == ("Soil is alive. ", "I look it up.")
        assert json.loads(message.tool_calls[1].function.arguments) == {"query": "worms"}
        assert len({call.id for call in message.tool_calls}) == 2
        assert (answer.choices[0].finish_reason, answer.usage.completion_tokens > 8) == ("tool_calls", True)


@pytest.mark.parametrize("stop", ["end", "tokens", "refusal"])
def test_an_answer_ends_for_the_reason_it_is_given(fake, client, stop):
    fake.replies.append(Reply(Said("Well."), stop=stop))
    assert client.read(client.events()).stop == STOPS[type(client)][stop]


def test_a_limit_of_tokens_ends_the_answer(fake, client):
    fake.by_default = lambda _: Reply(Said("one two three"), Called("search", {"query": "more than seven"}))
    for most, said, stop, calls in ((2, "one two", "tokens", 0), (4, "one two three", "tokens", 1)):
        got = client.read(client.events(max_tokens=most, tools=client.tools))
        assert (got.said, got.tokens, len(got.calls)) == (said, most, calls)
        assert got.stop == STOPS[type(client)][stop]
    assert client.read(client.events(max_tokens=50, tools=client.tools)).stop == STOPS[type(client)]["tools"]


def test_errors_have_their_status_headers_and_message(fake, client):
    fake.replies += [Reply(status=429, headers={"retry-after": "7"}), Reply(status=500, message="no room")]
    with pytest.raises(client.error) as busy:
        client.events()
    assert (busy.value.status_code, busy.value.response.headers["retry-after"]) == (429, "7")
    with pytest.raises(client.error, match="no room"):
        client.events()


@pytest.mark.parametrize("fault", [ErrorEvent(message="too busy"), Broken(), Garbage()])
def test_what_breaks_in_the_middle_is_an_error_after_what_was_said(fake, client, fault):
    fake.by_default = lambda _: Reply(Said("Half of"), fault, Said(" never"))
    said = []
    stream = client.events()
    # The clients raise what they meet, of themselves, of their HTTP library or of JSON.
    with pytest.raises((client.error, ValueError, httpx2.HTTPError)):
        said.extend(stream)
    assert 2 < len(said) < 10
    assert not fake.hung_up.is_set()
    with pytest.raises((client.error, ValueError)):
        client.whole()


def test_a_stream_that_is_cut_has_no_end(fake, client):
    fake.replies.append(Reply(Said("Half of"), Cut(), Said(" never")))
    got = client.read(client.events())
    assert (got.said, got.stop, got.tokens) == ("Half of", None, None)


def test_it_tells_when_a_client_leaves_and_never_when_it_stays_to_the_end(fake, client):
    held = threading.Event()
    fake.replies += [Reply(Said("All.")), Reply(Said("Half"), Wait(held), Said(" and whole."))]
    client.read(client.events())
    stream = client.events()
    assert client.read(stream_until(stream)).said == "Half"
    assert not fake.hung_up.wait(0.05)
    assert fake.answering == 1
    stream.close()
    assert fake.hung_up.wait(30)
    assert fake.left == [fake.requests[1]]
    fake.replies.append(Reply(Said("Free.")))
    assert client.read(client.events()).said == "Free."
    assert len(fake.left) == 1


def stream_until(stream):
    """Yield the events up to the first that says something."""
    for event in stream:
        yield event
        if "Half" in event.model_dump_json():
            return


def test_a_client_that_leaves_while_nothing_comes_is_seen(fake, client):
    fake.by_default = lambda _: Reply(hang=True)
    client.client = client.client.with_options(timeout=0.2)
    with pytest.raises(client.error):
        client.events()
    assert fake.hung_up.wait(30)


def test_waiting_ends_when_the_test_says(fake, client):
    held = threading.Event()
    fake.replies.append(Reply(Wait(held), Said("Now."), Wait(0.001)))
    threading.Timer(0.05, held.set).start()
    assert client.read(client.events()).said == "Now."


def test_another_key_path_or_model_is_refused(fake, client):
    other = type(client)(fake, "sk-other")
    with pytest.raises(client.error) as error:
        other.events()
    assert error.value.status_code == 401
    with pytest.raises(client.error) as error:
        client.events(model="gpt-unknown")
    assert error.value.status_code == 404
    other.client.close()


def test_a_server_without_a_key_or_tools_or_counts(fake, client):
    fake.key, fake.refuses_tools, fake.counts = "", True, False
    with pytest.raises(client.error, match="tools param requires") as error:
        client.events(tools=client.tools)
    assert error.value.status_code == 400
    if isinstance(client, OpenAI):
        assert client.read(client.events()).tokens is None


def test_citations_name_the_blocks_of_the_request(fake):
    client = Claude(fake)
    results = [
        {
            "type": "search_result",
            "source": f"{name}.md",
            "title": name,
            "content": [{"type": "text", "text": text} for text in texts],
            "citations": {"enabled": True},
        }
        for name, texts in (("Soil", ["Soil is alive."]), ("Worms", ["Worms dig.", " They eat.", " Rest."]))
    ]
    content = [*results, {"type": "text", "text": "What digs?"}]
    given = {"messages": [{"role": "user", "content": content}]}
    cites = [Cite(1, 0, 2), Cite(0, says="Soil is dead."), Cite(9)]
    fake.replies += [Reply(Said("Worms.", cites)), Reply(Said("Worms.", cites, cites_first=True))]
    got = client.read(client.events(**given))
    assert [(cite.title, cite.cited_text) for _, cite in got.cites] == [
        ("Worms", "Worms dig. They eat."),
        ("Soil", "Soil is dead."),
        ("", ""),
    ]
    assert [said for said, _ in got.cites] == ["Worms."] * 3
    assert [said for said, _ in client.read(client.events(**given)).cites] == [""] * 3
    del results[0]["citations"]
    with pytest.raises(client.error, match="for all, or for none"):
        client.events(**given)
    client.client.close()


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_a_request_that_real_servers_refuse_is_refused_and_kept(fake, text):
    messages = [{"role": "user", "content": text}]
    body = json.dumps({"model": CLAUDE, "max_tokens": 5, "messages": messages})
    headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    for path in ("/v1/messages", "/v1/chat/completions"):
        answer = httpx.post(fake.url + path, content=body, headers=headers, timeout=30)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert fake.refused[-1] == answer.json()["error"]["message"]
    assert len(fake.requests) == 2
