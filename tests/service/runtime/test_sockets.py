"""What the query worker listens on."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from pipelines.errors import ConfigurationError
from service.runtime.sockets import bind


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_small_answer_is_sent_at_once(host):
    async def accepted() -> bool:
        said = asyncio.get_running_loop().create_future()

        def met(_, writer):
            taken = writer.get_extra_info("socket")
            said.set_result(bool(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        listening = bind(0, host)
        async with await asyncio.start_server(met, sock=listening):
            _, writer = await asyncio.open_connection(host, listening.getsockname()[1])
            writer.close()
            return await said

    assert asyncio.run(accepted())


def test_a_port_that_is_taken_is_named():
    with bind(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"port {port} .* process {os.getpid()}\)"):
            bind(port)


def test_a_name_is_no_address():
    with pytest.raises(ConfigurationError, match="no IP address"):
        bind(0, "localhost")
