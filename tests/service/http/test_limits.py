"""The limits on requests, without and with a real server on real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pipelines.errors import FilterError
from queue_config.settings import Settings
from service.app import create_app
from service.http import limits, server
from service.http.limits import LARGEST_BODY, LARGEST_HEAD, Limits
from service.http.server import ImpatientProtocol
from service.runtime.client import read_token
from service.runtime.sockets import bind
from service.schemas.search import LONGEST_QUERY
from service.usecases.search import View


async def echo(request):
    return PlainTextResponse(f"{len(await request.body())} {request.url.path}")


@pytest.fixture
def client():
    routes = [Route("/{path:path}", echo, methods=["GET", "POST", "DELETE"])]
    return TestClient(Limits(Starlette(routes=routes)))


# Size


def test_a_body_of_the_limit_passes_whole_and_one_byte_more_is_refused(client):
    assert client.post("/x", content=b"a" * LARGEST_BODY).text == f"{LARGEST_BODY} /x"
    answer = client.post("/x", content=b"a" * (LARGEST_BODY + 1))
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_in_chunks_is_counted_too(client):
    assert client.post("/x", content=(b"a" * 1000 for _ in range(1000))).status_code == 200
    assert client.post("/x", content=(b"a" * 1000 for _ in range(1001))).status_code == 413


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_body_counts_whatever_the_method(client, method):
    assert client.request(method, "/x", content=b"a" * (LARGEST_BODY + 1)).status_code == 413


def test_a_head_that_is_too_large_is_refused(client):
    assert client.get("/x", headers={"X-Long": "a" * LARGEST_HEAD}).status_code == 431
    long = {"X-Long": "a" * (LARGEST_HEAD - 1000)}
    assert client.get("/x", headers=long).status_code == 200
    assert client.get("/" + "a" * 1000, headers=long).status_code == 431
    assert client.get("/x", params={"q": "a" * 1000}, headers=long).status_code == 431


def test_many_small_headers_are_as_large_as_they_are_sent(client):
    assert client.get("/x", headers=[(f"a{number}", "") for number in range(1_000)]).status_code == 200
    assert client.get("/x", headers=[("a", "")] * 15_000).status_code == 431


def test_the_longest_question_of_the_widest_characters_fits_into_a_head(client):
    assert client.get("/x", params={"q": "😀" * LONGEST_QUERY}).status_code == 200


def test_too_many_parameters_are_refused(client):
    assert client.get("/x?" + "&".join(["a=1"] * 1001)).status_code == 400


# Characters


@pytest.mark.parametrize("code", [*range(0x20), 0x7F])
def test_a_control_character_in_the_path_is_refused(client, code):
    answer = client.get(f"/node/a%{code:02x}.md")
    assert answer.status_code == 400
    assert "rename the file" in answer.text


@pytest.mark.parametrize("code", [c for c in range(0x20) if chr(c) not in "\t\n\r"])
def test_a_control_character_in_a_parameter_is_refused(client, code):
    assert client.get(f"/search?q=a%{code:02x}b").status_code == 400
    assert client.get(f"/search?a%{code:02x}b=q").status_code == 400


def test_a_question_may_have_more_than_one_line(client):
    assert client.get("/search", params={"q": "one\r\ntwo\tthree"}).status_code == 200


# Paths


@pytest.mark.parametrize(
    "path", ["../x.md", "a/../x.md", "..", "a/..", "/etc/passwd", "a//b.md", "a/%2e%2e/b"]
)
def test_a_path_that_is_none_within_a_vault_is_refused_wherever_it_stands(client, path):
    assert client.get(f"/why/{path.replace('..', '%2e%2e')}").status_code == 400
    assert client.get("/explain", params={"q": "a", "path": unquote(path)}).status_code == 400


@pytest.mark.parametrize("path", ["..x.md", "a/x...md", "a..b/x.md", "…/x.md", ".x/y.md"])
def test_dots_in_a_name_are_only_dots(client, path):
    assert client.get(f"/why/{path}").status_code == 200
    assert client.get("/explain", params={"q": "a", "path": path}).status_code == 200


def test_a_path_that_no_file_can_have_is_refused(client):
    assert client.get("/why/" + "a/" * 2000 + "b.md").status_code == 200
    assert client.get("/why/" + "a/" * 2100 + "b.md").status_code == 414
    assert client.get("/explain", params={"q": "a", "path": "é" * 2100}).status_code == 414


# How many at once


class Gate:
    """An application whose answers wait until they are released."""

    def __init__(self):
        self.open = asyncio.Event()
        self.running = 0
        self.most = 0

    async def __call__(self, scope, receive, send):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.open.wait()
            await PlainTextResponse("ok")(scope, receive, send)
        finally:
            self.running -= 1


async def ask(app, path, method="GET"):
    """Return the status and headers of an answer."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": []}
    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def test_searches_that_are_too_many_wait_and_then_are_all_answered():
    async def act():
        gate = Gate()
        app = Limits(gate)
        asked = [asyncio.create_task(ask(app, "/search")) for _ in range(40)]
        await settle()
        assert gate.running == 8
        gate.open.set()
        assert [status for status, _ in await asyncio.gather(*asked)] == [200] * 40
        assert gate.most == 8

    asyncio.run(act())


def test_facts_and_writes_are_answered_while_every_search_is_busy():
    async def act():
        gate = Gate()
        app = Limits(gate)
        asked = [asyncio.create_task(ask(app, "/search")) for _ in range(40)]
        await settle()
        others = [
            asyncio.create_task(ask(app, path, method))
            for path, method in (
                ("/health", "GET"),
                ("/ready", "GET"),
                ("/metrics", "GET"),
                ("/verify", "POST"),
            )
        ]
        await settle()
        assert gate.running == 12
        gate.open.set()
        await asyncio.gather(*asked, *others)

    asyncio.run(act())


def test_writes_that_wait_for_a_worker_do_not_block_searches():
    async def act():
        gate = Gate()
        app = Limits(gate)
        waiting = [asyncio.create_task(ask(app, "/reload", "POST")) for _ in range(30)]
        await settle()
        before = gate.running
        search = asyncio.create_task(ask(app, "/search"))
        await settle()
        assert gate.running == before + 1
        gate.open.set()
        await asyncio.gather(*waiting, search)

    asyncio.run(act())


def test_a_search_beyond_the_queue_learns_when_to_retry():
    async def act():
        gate = Gate()
        app = Limits(gate)
        asked = [asyncio.create_task(ask(app, "/search")) for _ in range(8 + 64)]
        await settle()
        status, headers = await ask(app, "/search")
        assert status == 503
        assert int(headers[b"retry-after"]) > 0
        gate.open.set()
        assert {status for status, _ in await asyncio.gather(*asked)} == {200}

    asyncio.run(act())


def test_a_request_that_waited_too_long_is_refused_and_takes_no_slot():
    async def act():
        gate = Gate()
        app = Limits(gate)
        app._reads.patience = 0.01
        held = [asyncio.create_task(ask(app, "/search")) for _ in range(8)]
        await settle()
        assert (await ask(app, "/search"))[0] == 503
        assert app._reads.waiting == 0
        gate.open.set()
        await asyncio.gather(*held)
        asked = [asyncio.create_task(ask(app, "/search")) for _ in range(8)]
        assert [status for status, _ in await asyncio.gather(*asked)] == [200] * 8

    asyncio.run(act())


def test_an_application_that_fails_gives_its_place_back():
    async def fails(_scope, _receive, _send):
        raise RuntimeError

    async def act():
        app = Limits(fails)
        for _ in range(20):
            with pytest.raises(RuntimeError):
                await ask(app, "/search")
        assert not app._reads.slots.locked()

    asyncio.run(act())


def test_an_event_stream_holds_no_place():
    async def act():
        forever = asyncio.Event()

        async def stream(_scope, _receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await forever.wait()

        app = Limits(stream)
        open_streams = [asyncio.create_task(ask(app, "/ops/events")) for _ in range(20)]
        await settle()
        assert not app._reads.slots.locked()
        forever.set()
        await asyncio.gather(*open_streams)

    asyncio.run(act())


# Time: real sockets


async def endless(_):
    return StreamingResponse(b"a" * 65_536 for _ in range(400))


@pytest.fixture
def address(monkeypatch):
    """A real server whose patience is a second."""
    monkeypatch.setattr(limits, "BODY_SECONDS", 1.0)
    monkeypatch.setattr(server, "HEAD_SECONDS", 1.0)
    app = Limits(
        Starlette(routes=[Route("/endless", endless), Route("/{path:path}", echo, methods=["GET", "POST"])])
    )
    bound = bind(0)
    config = uvicorn.Config(
        app, http=ImpatientProtocol, ws="none", log_config=None, h11_max_incomplete_event_size=LARGEST_HEAD
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not running.started:
            time.sleep(0.01)
        yield bound.getsockname()
    finally:
        running.should_exit = True
        thread.join()
        bound.close()


def connect(address):
    return socket.create_connection(address, timeout=20)


def rest(client):
    """Return what a server still sends before it closes."""
    received = b""
    try:
        while part := client.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


def dribble(client, text):
    """Send a little at a time until the server has closed; say whether it did."""
    try:
        for _ in range(400):
            client.sendall(text)
            time.sleep(0.05)
    except OSError:
        return True
    return False


def test_a_client_that_says_nothing_is_let_go(address):
    with connect(address) as client:
        assert rest(client) == b""


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(address):
    with connect(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert dribble(client, b"a")


def test_a_body_that_comes_byte_by_byte_is_answered_408(address):
    with connect(address) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        client.sendall(b"a")
        assert rest(client).startswith(b"HTTP/1.1 408 ")


def test_a_second_request_that_never_ends_is_not_waited_for_either(address):
    with connect(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(65_536)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert dribble(client, b"a")


def test_requests_one_after_another_on_a_connection_have_all_the_time_they_need(address):
    with connect(address) as client:
        for _ in range(5):
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"0 /"):
                answer += client.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.4)


def test_a_body_that_is_too_large_is_answered_although_it_is_still_being_sent(address):
    with connect(address) as client:
        size = 8 * LARGEST_BODY
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        client.sendall(b"a" * size)
        assert rest(client).startswith(b"HTTP/1.1 413 ")


def test_an_endless_body_ends(address):
    with connect(address) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert dribble(client, b"10000\r\n" + b"a" * 65_536 + b"\r\n")


def test_a_head_without_end_is_refused(address):
    with connect(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 4 * LARGEST_HEAD)
        assert rest(client)[:12] in (b"HTTP/1.1 400", b"")


def test_an_answer_that_is_taken_slowly_is_given_whole(address):
    with connect(address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = 0
        while part := client.recv(1_000_000):
            received += len(part)
            time.sleep(0.01)
        assert received > 400 * 65_536


# The query worker


@pytest.fixture
def worker(vault, tmp_path, monkeypatch):
    """The real query worker, whose searches wait until they are released: its address, token and release function."""
    let_go = threading.Event()
    asked = []

    def search(*_, **__):
        asked.append(1)
        let_go.wait(60)
        raise FilterError("let go")

    monkeypatch.setattr(View, "search", search)
    bound = bind(0)
    state = tmp_path / "state"
    app = create_app(Settings(vault=vault, state=state), bound.getsockname()[1])
    running = uvicorn.Server(uvicorn.Config(app, http=ImpatientProtocol, ws="none", log_config=None))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not running.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}", read_token(state), let_go, asked
    finally:
        let_go.set()
        running.should_exit = True
        thread.join()
        bound.close()


def test_the_worker_says_how_it_is_while_every_search_is_busy(worker):
    address, token, let_go, asked = worker
    headers = {"Authorization": f"Bearer {token}"}

    def search(_):
        return httpx.get(f"{address}/search", params={"q": "a"}, headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(40) as pool:
        answers = [pool.submit(search, n) for n in range(40)]
        while len(asked) < 8:
            time.sleep(0.01)
        assert httpx.get(f"{address}/health", timeout=10).status_code == 200
        assert httpx.get(f"{address}/ready", headers=headers, timeout=10).status_code == 503
        assert len(asked) == 8
        let_go.set()
        assert {answer.result() for answer in answers} == {422}
    assert len(asked) == 40
