"""The query worker in this process, on a real port, and a worker that works on command."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from queue_config.settings import Settings
from service.app import create_app
from service.http.auth import Sessions
from service.http.server import StreamEndingServer
from service.runtime.client import read_token
from service.runtime.sockets import bind
from workers.resources import Resources
from workers.tag_context import TaggingContext
from workers.tagging import make_tag_tasks
from workers.tasks import make_tasks


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """Serve on a free port; give the address."""
    socket = bind(0)
    port = socket.getsockname()[1]
    server = StreamEndingServer(uvicorn.Config(create_app(settings, port), log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def cookie_of(settings: Settings, port: int) -> tuple[str, str]:
    """Return the name and value of the cookie that a signed-in browser shows the service on a port."""
    place = Resources(settings).place
    sessions = Sessions(read_token(place.state), place.state, place.identity.vault_id, port)
    value = sessions.redeem(sessions.new_code())
    assert value
    return sessions.cookie, value


@contextmanager
def working(settings: Settings) -> Iterator[None]:
    """Do what waits on the queue, as it comes."""
    stopped = threading.Event()

    def work() -> None:
        resources = Resources(settings)
        queue = resources.queue()
        make_tasks(queue, resources)
        make_tag_tasks(queue, TaggingContext(resources))
        while not stopped.wait(0.02):
            task = queue.dequeue()
            if task is not None:
                queue.execute(task)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(20)
