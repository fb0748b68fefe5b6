"""The server as agents reach it: over HTTP at the query worker, and over the standard streams of `everindex mcp`."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ResourceTemplateReference

from service.runtime.client import running
from tests.service.mcp.conftest import ERAS, serve


@asynccontextmanager
async def over_http(user, era):
    token = (user.state / "token").read_text().strip()
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(
            streamable_http_client(f"http://127.0.0.1:{user.port}/mcp", http_client=http), mode=era
        ) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(user, era):
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "service.cli", "mcp", *user.place], env=user.environment
    )
    async with Client(stdio_client(program), mode=era) as client:
        yield client


TRANSPORTS = {"http": over_http, "stdio": over_stdio}


async def a_session(client):
    """Ask as an agent does: find, read, check."""
    assert {"search", "read", "verify_quotes"} <= {tool.name for tool in (await client.list_tools()).tools}
    found = (await client.call_tool("search", {"query": "what is a moat", "limit": 2})).structured_content
    assert found["hits"][0]["path"] == "Concepts/Moats.md"
    assert found["match"] == "strong"
    read = await client.call_tool("read", {"note": found["hits"][0]["path"], "section": "History"})
    quote = read.structured_content["text"].splitlines()[-1]
    quotes = [{"note": "Concepts/Moats.md", "quote": quote}]
    checked = (await client.call_tool("verify_quotes", {"quotes": quotes})).structured_content
    assert checked["status"] == "all_verified"
    wrong = await client.call_tool("read", {"note": "Nothing like this"})
    assert wrong.is_error


EVERY_TOOL = {
    "search": {"query": "what is a moat"},
    "read": {"note": "Moats"},
    "context": {"question": "what is a moat", "budget": 500},
    "browse": {"by": "recent"},
    "traverse": {"note": "Moats"},
    "verify_quotes": {"quotes": [{"note": "Moats", "quote": "A moat is pricing power that lasts."}]},
    "status": {},
    "propose": {"note": "Inbox", "tags": ["nonsense"]},
}


async def everything(client):
    """Use all that the server offers."""
    assert {tool.name for tool in (await client.list_tools()).tools} == set(EVERY_TOOL)
    for name, arguments in EVERY_TOOL.items():
        result = await client.call_tool(name, arguments)
        assert not result.is_error, (name, result.content)
        assert result.structured_content["freshness"]["generation"]
    listed = {str(one.uri) for one in (await client.list_resources()).resources}
    assert {"vault://status", "vault://Inbox.md"} <= listed
    for uri in listed:
        assert (await client.read_resource(uri)).contents[0].text
    (template, _) = (await client.list_resource_templates()).resource_templates
    ref = ResourceTemplateReference(uri=template.uri_template)
    completed = await client.complete(ref, {"name": "path", "value": "mo"})
    assert completed.completion.values == ["Concepts/Moats.md"]
    for prompt in (await client.list_prompts()).prompts:
        given = {one.name: "2026-01-31" for one in prompt.arguments if one.required}
        assert (await client.get_prompt(prompt.name, given)).messages


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_all_that_the_server_offers_is_there_over_each_transport(served, transport, era):
    async def ask():
        async with TRANSPORTS[transport](served, era) as client:
            await everything(client)

    anyio.run(ask)


@pytest.mark.parametrize("junk", [b"{", b"[]", b"null", b"\xff\xfe", b"[" * 10_000, b'{"jsonrpc": "1.0"}'])
def test_lines_that_are_no_messages_do_not_end_a_session_over_standard_streams(served, junk):
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "mcp", *served.place],
        env=served.environment,
        input=junk + b"\n" + json.dumps(begin).encode() + b"\n",
        capture_output=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["result"]["serverInfo"]["name"] for one in answers if one.get("id") == 1] == ["everindex"]
    assert all("error" in one for one in answers if one.get("id") != 1)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_agent_asks_a_running_service(served, transport, era):
    async def ask():
        async with TRANSPORTS[transport](served, era) as client:
            assert (client.protocol_version == era) == (era != "legacy")
            await a_session(client)

    anyio.run(ask)


@pytest.mark.parametrize("era", ERAS)
def test_an_agent_asks_where_no_service_runs(user, era):
    async def ask():
        async with over_stdio(user, era) as client:
            await a_session(client)

    anyio.run(ask)
    assert running(user.state) is None


def test_twenty_clients_are_answered_at_once(served):
    async def one(number):
        era = ERAS[number % 2]
        async with over_http(served, era) as client:
            for _ in range(3):
                await a_session(client)

    async def all_of_them():
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)

    anyio.run(all_of_them)


def test_nothing_but_the_protocol_is_printed(user):
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "status", "arguments": {}}},
    ]
    for runs in (False, True):
        if runs:
            serve(user)
        with subprocess.Popen(
            [sys.executable, "-m", "service.cli", "mcp", *user.place],
            env=user.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            for line in lines:
                process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            answers = [json.loads(process.stdout.readline()) for _ in range(2)]
            answers += [json.loads(line) for line in process.communicate(timeout=60)[0].splitlines()]
        assert [answer["id"] for answer in answers if "id" in answer] == [1, 2]
        assert all(answer["jsonrpc"] == "2.0" for answer in answers)


HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}


def test_a_session_goes_on_when_the_service_is_restarted(user):
    async def ask():
        serve(user)
        async with over_stdio(user, "legacy") as client:
            await a_session(client)
            user.stop()
            await anyio.to_thread.run_sync(serve, user)
            await a_session(client)

    anyio.run(ask)


def test_a_service_that_is_asked_to_stop_ends_the_streams(user):
    async def ask():
        serve(user)
        async with over_http(user, "legacy") as client:
            await client.list_tools()
            (process,) = user.processes
            process.terminate()
            await anyio.to_thread.run_sync(lambda: process.wait(60))

    anyio.run(ask)
