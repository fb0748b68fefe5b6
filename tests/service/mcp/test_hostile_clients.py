"""Requests of a hostile client: none does harm, and each is refused with a message."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.service.mcp.test_transports import HANDSHAKE

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
}


@pytest.fixture
def post(served):
    token = (served.state / "token").read_text().strip()

    def send(body, headers=(), method="tools/call", name="read"):
        own = {"Authorization": f"Bearer {token}", **HEADERS, "Mcp-Method": method, "Mcp-Name": name}
        return httpx.post(
            f"http://127.0.0.1:{served.port}/mcp", content=body, headers={**own, **dict(headers)}, timeout=60
        )

    return send


def call(arguments, name="read"):
    params = {"name": name, "arguments": arguments, "_meta": MODERN}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def test_a_call_by_hand_is_answered(post):
    answer = post(call({"note": "Inbox.md"}))
    assert answer.status_code == 200
    assert "dentist" in answer.json()["result"]["structuredContent"]["text"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": ""}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain", "Origin": "http://evil.example"}, 403),
    ],
)
def test_who_may_not_ask_is_refused_before_anything_is_read(post, headers, status):
    answer = post(call({"note": "Inbox.md"}), headers)
    assert answer.status_code == status
    assert "dentist" not in answer.text


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"\xff\xfe", b"", b"null", b'{"jsonrpc": "1.0"}', b"[" * 10_000]
)
def test_what_is_no_message_is_refused(post, body):
    answer = post(body)
    assert 400 <= answer.status_code < 500
    assert post(call({"note": "Inbox.md"})).status_code == 200


def test_what_is_too_large_is_refused(post):
    assert post(call({"note": "x" * 2_000_000})).status_code == 413
    answer = post(call({"note": "x" * 500_000})).json()["result"]
    assert answer["isError"]
    assert len(answer["content"][0]["text"]) < 1_000


@pytest.mark.parametrize(
    "arguments",
    [
        {"note": "../../../etc/passwd"},
        {"note": "/etc/passwd"},
        {"note": "vault://../../etc/passwd"},
        {"note": "vault:///etc/passwd"},
        {"note": "vault://%2e%2e/%2e%2e/etc/passwd"},
        {"note": "file:///etc/passwd"},
        {"note": "Inbox.md\x00.png"},
        {"note": "\ud800"},
        {"note": ["Inbox.md"]},
        {"note": {"path": "Inbox.md"}},
    ],
)
def test_nothing_outside_the_vault_is_read(post, arguments):
    answer = post(call(arguments)).json()["result"]
    assert answer["isError"]
    assert "root:" not in json.dumps(answer)


def test_a_session_of_the_earlier_era_is_guarded_alike(post):
    begin = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE})
    old = {"MCP-Protocol-Version": "2025-11-25"}
    assert post(begin, {**old, "Authorization": ""}).status_code == 401
    begun = post(begin, old)
    assert begun.status_code == 200
    session = {**old, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
    listing = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert post(listing, {**session, "Origin": "http://evil.example"}).status_code == 403
    assert post(listing, {**old, "Mcp-Session-Id": "0" * 32}).status_code == 404
