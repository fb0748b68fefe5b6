"""How the query worker's process answers, and how it stops."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from queue_config.settings import Settings
from service.app import create_app
from service.http.server import STOPPING, ImpatientProtocol, StreamEndingServer
from service.runtime.client import read_token
from service.runtime.sockets import bind


@contextmanager
def running(make_app):
    """A server that waits for its answers for as long as they take, and its address."""
    bound = bind(0)
    port = bound.getsockname()[1]
    config = uvicorn.Config(make_app(port), http=ImpatientProtocol, ws="none", log_config=None)
    server = StreamEndingServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def test_a_page_that_listens_does_not_keep_the_server_from_stopping(vault, tmp_path):
    settings = Settings(vault=vault, state=tmp_path / "state")
    with running(lambda port: create_app(settings, port)) as (server, address):
        headers = {"Authorization": f"Bearer {read_token(tmp_path / 'state')}"}
        with httpx.stream("GET", f"{address}/ops/events", headers=headers, timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry:")
            server.should_exit = True
            list(lines)  # a stream that is cut off raises


def test_an_answer_under_way_is_given_whole_before_the_server_stops():
    def slow(request):
        server.should_exit = True
        while not getattr(request.state, STOPPING).is_set():
            time.sleep(0.01)
        return PlainTextResponse("whole")

    with running(lambda _: Starlette(routes=[Route("/", slow)])) as (server, address):
        assert httpx.get(address, timeout=60).text == "whole"


def test_no_part_of_an_answer_waits_for_the_client_to_acknowledge_another():
    def option(_):
        (connection,) = server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        return PlainTextResponse(str(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))

    with running(lambda _: Starlette(routes=[Route("/", option)])) as (server, address):
        assert httpx.get(address, timeout=60).text == "1"
