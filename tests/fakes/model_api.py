"""A fake of servers that answer with text, as a stream or whole: a real HTTP server, no model.

It speaks Anthropic's `/v1/messages` (https://platform.claude.com/docs/en/build-with-claude/streaming) and OpenAI's
`/v1/chat/completions` (https://platform.openai.com/docs/api-reference/chat-streaming). It refuses what one
of the real servers refuses (`model_checks`), keeps every request, and answers what the test says, in the shape of the
path that was asked:

    with fake_model() as fake:
        fake.replies += [Reply(Called("search", {"query": "soil"})), Reply(Said("Soil is [1].", cites=[Cite(0)]))]
        fake.by_default = lambda request: Reply(Said("Nothing."))

Faults are replies (`Reply(status=529)`, `Reply(hang=True)`) or steps of one: `Wait`, `Broken`, `Cut`, `ErrorEvent`,
`Garbage`. A token is a word with the white space before it.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from tests.fakes.model_checks import (
    RefusedError,
    check_completions,
    check_messages,
    search_results,
    signature_of,
)

KEY = "sk-fake-key-of-the-tests"
CLAUDE = "claude-haiku-5-5"
CLAUDES = (CLAUDE, "claude-haiku-4-5", "claude-sonnet-5-5", "claude-opus-5-5")
LOCAL = "fake-chat"
VERSIONS = ("2023-06-01", "2026-10-21")
MESSAGES, COMPLETIONS = "/v1/messages", "/v1/chat/completions"
_POLL_SECONDS = 0.01
_ARGUMENTS_PIECE = 7  # characters


# The steps of a reply.


@dataclass(frozen=True)
class Cite:
    """A citation of a search result of the request, by its number from 0: the block that is cited, or several.

    `says` replaces the cited text, `result` may be one that there is not: what a server must never send.
    """

    result: int
    start: int = 0
    end: int | None = None
    says: str | None = None


@dataclass(frozen=True)
class Thought:
    """What the model thinks, a token at a time, each after `slowly` seconds."""

    text: str | Sequence[str]
    slowly: float = 0.0


@dataclass(frozen=True)
class Said:
    """What the model says, a token at a time, or in the given pieces. Citations are sent by Anthropic's protocol alone.

    They come after the text of their block, or before it.
    """

    text: str | Sequence[str]
    cites: Sequence[Cite] = ()
    slowly: float = 0.0
    cites_first: bool = False


@dataclass(frozen=True)
class Called:
    """A call of a tool; arguments that are a string are sent as they are, even if they are no JSON."""

    name: str
    arguments: Mapping[str, object] | str = field(default_factory=dict)
    id: str = ""
    slowly: float = 0.0


@dataclass(frozen=True)
class Wait:
    """Nothing comes until an event is set, or for this number of seconds."""

    until: threading.Event | float


@dataclass(frozen=True)
class Ping:
    """A sign of life between the events."""


@dataclass(frozen=True)
class Broken:
    """The connection drops in the middle of the stream."""


@dataclass(frozen=True)
class Cut:
    """The stream ends in good order, but without the events that end an answer."""


@dataclass(frozen=True)
class ErrorEvent:
    """An error in the middle of the stream."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True)
class Garbage:
    """Bytes as they are, which need not be an event; the end of the answer follows them."""

    body: bytes = b"<html>\xff\x00 502 Bad Gateway</html>\n\ndata: {not json\n\n"


Step = Thought | Said | Called | Wait | Ping | Broken | Cut | ErrorEvent | Garbage
Stop = Literal["end", "tokens", "refusal"]


@dataclass(frozen=True, init=False)
class Reply:
    """What one request gets: its steps, and why it ends; a request's limit of tokens ends it, too.

    With another status than 200 it is an error. `hang` says nothing at all until the client leaves or the fake ends.
    `usage` replaces the counts, in the fields of the protocol.
    """

    steps: tuple[Step, ...]
    stop: Stop
    status: int
    headers: Mapping[str, str]
    message: str
    hang: bool
    usage: Mapping[str, object]

    def __init__(
        self,
        *steps: Step,
        stop: Stop = "end",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        message: str = "",
        hang: bool = False,
        usage: Mapping[str, object] | None = None,
    ) -> None:
        given = {"steps": steps, "stop": stop, "status": status, "message": message, "hang": hang}
        for name, value in {**given, "headers": headers or {}, "usage": usage or {}}.items():
            object.__setattr__(self, name, value)


@dataclass
class FakeModel:
    """A running fake: where it listens, what it saw, what it answers.

    `replies` are given one a request, in order; after them `by_default` answers, which may look at the request.
    OpenAI's clients take `url` with `/v1`. An empty `key` asks for none. `refuses_tools` answers a request with tools
    as llama.cpp does without a template for them; without `counts` answers have no usage, like those of some servers
    of OpenAI's shape. `hung_up` is set when a client leaves before the end of its answer, and `left` holds these
    requests.
    """

    url: str = ""
    key: str = KEY
    models: tuple[str, ...] = (*CLAUDES, LOCAL)
    refuses_tools: bool = False
    counts: bool = True
    replies: deque[Reply] = field(default_factory=deque)
    by_default: Callable[[dict[str, Any]], Reply] = lambda _: Reply(Said("Nothing to say."))
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    left: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    answering: int = 0
    thoughts: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def wire(self) -> str:
        """All requests that were seen, as text: what a test greps for what must not leave."""
        return "\n".join(json.dumps(request, ensure_ascii=False) for request in self.requests)

    def next_reply(self, request: dict[str, Any], objection: Reply | None) -> Reply:
        """Keep why a request is refused, or choose what it gets."""
        with self.lock:
            if objection:
                self.refused.append(objection.message)
                return objection
            return self.replies.popleft() if self.replies else self.by_default(request)


@contextmanager
def fake_model(port: int = 0, **given: Any) -> Iterator[FakeModel]:
    """Run a fake on a loopback port, a free one unless it is named."""
    fake = FakeModel(**given)
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"fake": fake}))
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        fake.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that hang up."""


class _GoneError(Exception):
    """The client is no longer there, or the stream is to break."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeModel

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        known = self.path == "/v1/models"
        models = [{"id": name, "object": "model"} for name in self.fake.models]
        self._send(200 if known else 404, json.dumps({"object": "list", "data": models if known else []}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        shape = _Anthropic if self.path == MESSAGES else _OpenAI
        try:
            request = json.loads(body)
        except ValueError:
            self._send(400, shape.error(400, "the body is no JSON"))
            return
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ") or None
        key = self.headers.get("x-api-key") or bearer
        with self.fake.lock:
            self.fake.requests.append(request)
            self.fake.keys.append(key)
            self.fake.answering += 1
        try:
            self._answer(shape, request, self.fake.next_reply(request, self._objection(request, key)))
        except _GoneError:
            self.close_connection = True
        except OSError:
            self._leave(request)
        finally:
            with self.fake.lock:
                self.fake.answering -= 1

    def _objection(self, request: Any, key: str | None) -> Reply | None:
        """Return the error that a real server would answer, if the request has one."""
        version = self.headers.get("anthropic-version") in VERSIONS or self.path != MESSAGES
        tools = not (self.fake.refuses_tools and request.get("tools"))
        for is_well, status, message in (
            (self.path in (MESSAGES, COMPLETIONS), 404, f"no such path: {self.path}"),
            (key == self.fake.key or not self.fake.key, 401, "invalid x-api-key"),
            (version, 400, "anthropic-version: header is required"),
            (request.get("model") in self.fake.models, 404, f"model: {request.get('model')}"),
            (tools, 400, "tools param requires --jinja flag"),
        ):
            if not is_well:
                return Reply(status=status, message=message)
        try:
            json.dumps(request, ensure_ascii=False).encode()
            (check_messages if self.path == MESSAGES else check_completions)(request, self.fake.thoughts)
        except UnicodeEncodeError:
            return Reply(status=400, message="the body is no valid JSON: no low surrogate in string")
        except RefusedError as error:
            return Reply(status=400, message=str(error))
        return None

    def _answer(self, shape: type[_Anthropic | _OpenAI], request: dict[str, Any], reply: Reply) -> None:
        if reply.hang:
            self._wait(self.fake.released, request)
            raise _GoneError
        if reply.status != 200:
            self._send(reply.status, shape.error(reply.status, reply.message), reply.headers)
            return
        steps, stop, tokens = _within(reply, request)
        writer = shape(request, stop, (len(json.dumps(request).split()), tokens), reply.usage)
        if not self.fake.counts:
            writer.usage = {}
        if self.path == MESSAGES:
            _remember(steps, self.fake.thoughts)
        if request.get("stream"):
            self._stream(writer, request, reply, steps)
        else:
            self._whole(writer, request, reply, steps)

    def _whole(self, writer: Any, request: dict[str, Any], reply: Reply, steps: Sequence[Step]) -> None:
        """Answer without a stream: faults in the middle of it become those of the whole."""
        for step in steps:
            if isinstance(step, Wait):
                self._wait(step.until, request)
            elif isinstance(step, (Broken, Cut)):
                self.send_response(200)
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b'{"id": "')
                raise _GoneError
            elif isinstance(step, ErrorEvent):
                self._send(529, writer.error(529, step.message), reply.headers)
                return
            elif isinstance(step, Garbage):
                self._send(200, step.body, reply.headers)
                return
            elif not isinstance(step, Ping):
                self._wait(step.slowly * len(_pieces(step)), request)
        self._send(200, json.dumps(writer.whole(steps)), reply.headers)

    def _stream(self, writer: Any, request: dict[str, Any], reply: Reply, steps: Sequence[Step]) -> None:
        self.send_response(200)
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **reply.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for event in writer.first():
            self._chunk(event, request)
        for step in steps:
            if isinstance(step, Wait):
                self._wait(step.until, request)
            elif isinstance(step, Broken):
                raise _GoneError
            elif isinstance(step, Cut):
                self.wfile.write(b"0\r\n\r\n")
                return
            elif isinstance(step, ErrorEvent):
                self._end(writer.events(step))
                return
            elif isinstance(step, Garbage):
                self._end([step.body, *writer.last()])
                return
            else:
                for event in writer.events(step):
                    self._wait(getattr(step, "slowly", 0.0), request)
                    self._chunk(event, request)
        self._end(writer.last())

    def _end(self, events: Iterable[bytes]) -> None:
        """Send the end in one piece, so that a client that leaves at its first event is not taken for hanging up."""
        last = b"".join(events)
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))

    def _chunk(self, payload: bytes, request: dict[str, Any]) -> None:
        self._wait(0.0, request)
        self.wfile.write(b"%x\r\n%s\r\n" % (len(payload), payload))

    def _wait(self, until: threading.Event | float, request: dict[str, Any]) -> None:
        """Wait, and notice meanwhile when the client hangs up. Raises _GoneError."""
        event = until if isinstance(until, threading.Event) else threading.Event()
        end = None if event is until else time.monotonic() + until
        while True:
            if self._has_left():
                self._leave(request)
                raise _GoneError
            if event.is_set():
                return
            left = _POLL_SECONDS if end is None else min(_POLL_SECONDS, end - time.monotonic())
            if left <= 0:
                return
            if self.fake.released.wait(left):
                raise _GoneError

    def _has_left(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _leave(self, request: dict[str, Any]) -> None:
        with self.fake.lock:
            self.fake.left.append(request)
        self.close_connection = True
        self.fake.hung_up.set()

    def _send(self, status: int, text: str | bytes, headers: Mapping[str, str] | None = None) -> None:
        payload = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        given = {"content-type": "application/json", "request-id": "req_fake", **(headers or {})}
        for name, value in {**given, "content-length": str(len(payload))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)


# What of a reply is sent.


def _pieces(step: Thought | Said | Called) -> list[str]:
    if isinstance(step, Called):
        text = _arguments(step)
        return [text[at : at + _ARGUMENTS_PIECE] for at in range(0, len(text), _ARGUMENTS_PIECE)]
    return re.findall(r"\s*\S+|\s+$", step.text) if isinstance(step.text, str) else list(step.text)


def _text(step: Thought | Said) -> str:
    return "".join(_pieces(step))


def _arguments(step: Called) -> str:
    return (
        step.arguments if isinstance(step.arguments, str) else json.dumps(step.arguments, ensure_ascii=False)
    )


def _within(reply: Reply, request: dict[str, Any]) -> tuple[list[Step], str, int]:
    """Return the steps that the request's limit of tokens leaves, why they end, and how many tokens they are."""
    most = request.get("max_tokens") or request.get("max_completion_tokens") or 10**9
    steps: list[Step] = []
    used = 0
    for number, step in enumerate(reply.steps):
        if not isinstance(step, (Thought, Said, Called)):
            steps.append(step)
            continue
        given = replace(step, id=step.id or _call_id(request, number)) if isinstance(step, Called) else step
        pieces = _pieces(given)
        if used + len(pieces) > most:
            kept = pieces[: most - used]
            # As from the real ones, the arguments of a call may end in the middle.
            cut = {"arguments": "".join(kept)} if isinstance(given, Called) else {"text": kept}
            return [*steps, *([replace(given, **cut)] if kept else [])], "tokens", most
        used += len(pieces)
        steps.append(given)
    calls = any(isinstance(step, Called) for step in steps)
    return steps, "tools" if calls and reply.stop == "end" else reply.stop, max(1, used)


def _call_id(request: dict[str, Any], number: int) -> str:
    """Return an id that no other call of the conversation has."""
    text = json.dumps([request["messages"], number])
    return "toolu_" + hashlib.sha256(text.encode()).hexdigest()[:20]


def _remember(steps: Sequence[Step], thoughts: dict[str, str]) -> None:
    """Keep what was thought before a call: it has to come back with the call."""
    thought = "".join(_text(step) for step in steps if isinstance(step, Thought))
    if thought:
        thoughts |= {step.id: thought for step in steps if isinstance(step, Called)}


def _whole_arguments(step: Called) -> Any:
    try:
        return json.loads(_arguments(step))
    except ValueError:
        return {}


class _Anthropic:
    """The shapes of Anthropic's answers (errors: https://platform.claude.com/docs/en/api/errors)."""

    kinds: Mapping[int, str] = {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    stops: Mapping[str, str] = {
        "end": "end_turn",
        "tools": "tool_use",
        "tokens": "max_tokens",
        "refusal": "refusal",
    }

    def __init__(
        self, request: dict[str, Any], stop: str, counted: tuple[int, int], usage: Mapping[str, object]
    ) -> None:
        self.request, self.stop = request, self.stops[stop]
        none = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        self.usage = {"input_tokens": counted[0], **none, "output_tokens": counted[1], **usage}
        self.index = 0

    @classmethod
    def error(cls, status: int, message: str) -> str:
        """Return the body of an error."""
        kind = cls.kinds.get(status, "api_error")
        error = {"type": kind, "message": message or kind.replace("_", " ")}
        return json.dumps({"type": "error", "error": error, "request_id": "req_fake"})

    def first(self) -> Iterator[bytes]:
        """Yield the events before the content."""
        message = self._message([]) | {"stop_reason": None, "usage": self.usage | {"output_tokens": 1}}
        yield self._event("message_start", message=message)
        yield self._event("ping")

    def events(self, step: Step) -> Iterator[bytes]:
        """Yield the events of a step."""
        if isinstance(step, Ping):
            yield self._event("ping")
        elif isinstance(step, ErrorEvent):
            yield self._event("error", error={"type": step.kind, "message": step.message})
        elif isinstance(step, (Thought, Said, Called)):
            block, field_name, kind = self._opened(step)
            yield self._event("content_block_start", index=self.index, content_block=block)
            for delta in self._deltas(step, field_name, kind):
                yield self._event("content_block_delta", index=self.index, delta=delta)
            yield self._event("content_block_stop", index=self.index)
            self.index += 1

    def last(self) -> Iterator[bytes]:
        """Yield the events after the content."""
        stop = {"stop_reason": self.stop, "stop_sequence": None}
        if self.stop == "refusal":
            stop["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
        yield self._event("message_delta", delta=stop, usage=self.usage)
        yield self._event("message_stop")

    def whole(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Return the answer without a stream."""
        content = []
        for step in steps:
            if isinstance(step, Thought):
                content.append(
                    {"type": "thinking", "thinking": _text(step), "signature": signature_of(_text(step))}
                )
            elif isinstance(step, Said):
                text = {"type": "text", "text": _text(step)}
                content.append(text | ({"citations": self._citations(step)} if step.cites else {}))
            elif isinstance(step, Called):
                content.append(
                    {"type": "tool_use", "id": step.id, "name": step.name, "input": _whole_arguments(step)}
                )
        return self._message(content) | {"stop_reason": self.stop, "usage": self.usage}

    def _message(self, content: list[Any]) -> dict[str, Any]:
        fixed = {"id": "msg_fake", "type": "message", "role": "assistant", "model": self.request["model"]}
        return {**fixed, "content": content, "stop_sequence": None}

    def _opened(self, step: Thought | Said | Called) -> tuple[dict[str, Any], str, str]:
        if isinstance(step, Thought):
            return {"type": "thinking", "thinking": "", "signature": ""}, "thinking", "thinking_delta"
        if isinstance(step, Called):
            block = {"type": "tool_use", "id": step.id, "name": step.name, "input": {}}
            return block, "partial_json", "input_json_delta"
        return {"type": "text", "text": ""} | ({"citations": []} if step.cites else {}), "text", "text_delta"

    def _deltas(self, step: Thought | Said | Called, field_name: str, kind: str) -> Iterator[dict[str, Any]]:
        said = [{"type": kind, field_name: piece} for piece in _pieces(step)]
        if isinstance(step, Said):
            cites = [{"type": "citations_delta", "citation": cite} for cite in self._citations(step)]
            yield from (*cites, *said) if step.cites_first else (*said, *cites)
            return
        if isinstance(step, Called):
            yield {"type": kind, field_name: ""}
        yield from said
        if isinstance(step, Thought):
            yield {"type": "signature_delta", "signature": signature_of(_text(step))}

    def _citations(self, step: Said) -> list[dict[str, Any]]:
        """Return the citations of a text, with the cited blocks as the request has them."""
        results = search_results(self.request)
        made = []
        for cite in step.cites:
            end = cite.start + 1 if cite.end is None else cite.end
            cited = (
                results[cite.result]
                if cite.result < len(results)
                else {"source": "", "title": "", "content": []}
            )
            text = "".join(block["text"] for block in cited["content"][cite.start : end])
            made.append(
                {
                    "type": "search_result_location",
                    "cited_text": text if cite.says is None else cite.says,
                    "search_result_index": cite.result,
                    "source": cited["source"],
                    "title": cited["title"],
                    "start_block_index": cite.start,
                    "end_block_index": end,
                }
            )
        return made

    def _event(self, kind: str, **fields: object) -> bytes:
        data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
        return f"event: {kind}\ndata: {data}\n\n".encode()


class _OpenAI:
    """The shapes of OpenAI's answers, with `reasoning_content` as llama.cpp, vLLM and DeepSeek send it."""

    kinds: Mapping[int, str] = {429: "rate_limit_exceeded", 401: "invalid_api_key", 404: "model_not_found"}
    stops: Mapping[str, str] = {
        "end": "stop",
        "tools": "tool_calls",
        "tokens": "length",
        "refusal": "content_filter",
    }

    def __init__(
        self, request: dict[str, Any], stop: str, counted: tuple[int, int], usage: Mapping[str, object]
    ) -> None:
        self.request, self.stop = request, self.stops[stop]
        asked, said = counted
        self.usage = {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
            **usage,
        }
        self.calls = 0

    @classmethod
    def error(cls, status: int, message: str) -> str:
        """Return the body of an error."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"message": message or "an error", "type": kind, "param": None, "code": cls.kinds.get(status)}
        return json.dumps({"error": error})

    def first(self) -> Iterator[bytes]:
        """Yield the chunks before the content."""
        yield self._chunk({"role": "assistant", "content": ""})

    def events(self, step: Step) -> Iterator[bytes]:
        """Yield the chunks of a step."""
        if isinstance(step, Ping):
            yield b": still here\n\n"
        elif isinstance(step, ErrorEvent):
            error = {"message": step.message, "type": step.kind, "code": step.kind}
            yield _data({"error": error})
        elif isinstance(step, Called):
            call = {"index": self.calls, "id": step.id, "type": "function"}
            yield self._chunk({"tool_calls": [call | {"function": {"name": step.name, "arguments": ""}}]})
            for piece in _pieces(step):
                yield self._chunk({"tool_calls": [{"index": self.calls, "function": {"arguments": piece}}]})
            self.calls += 1
        elif isinstance(step, (Thought, Said)):
            name = "reasoning_content" if isinstance(step, Thought) else "content"
            yield from (self._chunk({name: piece}) for piece in _pieces(step))

    def last(self) -> Iterator[bytes]:
        """Yield the chunks after the content."""
        yield self._chunk({}, self.stop)
        if self.usage and (self.request.get("stream_options") or {}).get("include_usage"):
            yield _data(self._head("chat.completion.chunk") | {"choices": [], "usage": self.usage})
        yield b"data: [DONE]\n\n"

    def whole(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Return the answer without a stream."""
        message: dict[str, Any] = {"role": "assistant"}
        texts = [_text(step) for step in steps if isinstance(step, Said)]
        message["content"] = "".join(texts) if texts else None
        thoughts = [_text(step) for step in steps if isinstance(step, Thought)]
        calls = [
            {
                "id": step.id,
                "type": "function",
                "function": {"name": step.name, "arguments": _arguments(step)},
            }
            for step in steps
            if isinstance(step, Called)
        ]
        message |= {"reasoning_content": "".join(thoughts)} if thoughts else {}
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": self.stop, "logprobs": None}
        usage = {"usage": self.usage} if self.usage else {}
        return self._head("chat.completion") | {"choices": [choice]} | usage

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": "chatcmpl-fake",
            "object": kind,
            "created": 1_700_000_000,
            "model": self.request["model"],
        }

    def _chunk(self, delta: dict[str, Any], stop: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": stop, "logprobs": None}
        return _data(self._head("chat.completion.chunk") | {"choices": [choice]})


def _data(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
