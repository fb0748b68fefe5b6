"""How the command line finds the running service, and what it sends to whichever program answers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import pytest

from pipelines.errors import ConfigurationError, EverindexError, NotRunningError, ServiceError
from service.cli.options import service_of
from service.runtime import client
from service.runtime.client import SERVICE_FILE, Service, announced, new_nonce, proof, read_token, running
from tests.whole.conftest import User, free_port, wait_for
from workers.heartbeat import process_name
from workers.vault_paths import VAULT_FILE, locate_vault


@pytest.fixture
def state(vault, tmp_path):
    """The state folder of a vault that was served before: it has a token."""
    folder = locate_vault(vault, tmp_path / "state").state
    read_token(folder)
    return folder


@contextmanager
def listening(answers):
    """A stranger who listens on a port and gives `answers(request)`, or leaves where it is empty: port, all he heard."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection):
            with connection, suppress(OSError):
                while data := connection.recv(65_536):
                    heard.append(data)
                    answer = answers(data)
                    if not answer:
                        return
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)


def http(body, status="200 OK", more=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n{body}".encode()


# The file that says where a service runs


def test_a_service_is_found_while_its_process_lives_and_not_after(state):
    assert running(state) is None
    with announced(state, 1234, process_name()):
        found = running(state)
        assert (found.port, found.pid, found.state) == (1234, os.getpid(), state)
    assert running(state) is None
    assert not (state / SERVICE_FILE).exists()


def test_a_note_that_was_left_behind_is_not_believed_though_its_process_id_lives(state):
    for said in (
        {"port": 1234, "pid": os.getpid()},
        {"port": 1234, "process": process_name()},
    ):
        (state / SERVICE_FILE).write_text(json.dumps(said))
        assert running(state) is None


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "null",
        "[]",
        '"x"',
        "{}",
        '{"port": "x", "process": 1}',
        '{"process": "a:b/c"}',
        "\0",
        "[" * 9999,
    ],
)
def test_a_damaged_service_file_is_ignored_even_while_it_is_locked(state, said):
    with announced(state, 1234, process_name()):
        with (state / SERVICE_FILE).open("r+") as file:
            file.truncate()
            file.write(said)
        assert running(state) is None


def test_a_service_that_stops_leaves_anothers_note_alone(state):
    first = announced(state, 1, process_name())
    second = announced(state, 2, process_name())
    first.__enter__()
    with second:
        first.__exit__(None, None, None)
        assert running(state).port == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_asked_to_stop_takes_its_note_back(vault, state, number):
    place = ["--vault", str(vault), "--state", str(state), "--port", str(free_port())]
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", *place], stderr=subprocess.DEVNULL
    ) as server:
        service = wait_for(lambda: running(state), "it serves")
        assert service.pid == server.pid
        wait_for(lambda: answers(service), "it answers")
        server.send_signal(number)
        server.wait(60)
    assert not (state / SERVICE_FILE).exists()


def answers(service):
    try:
        return service.call("GET", "/health")
    except ServiceError:
        return None


def test_a_state_folder_that_is_named_is_the_one_that_is_asked(state, tmp_path):
    with announced(state, 1234, process_name()):
        assert service_of({"state": state}).port == 1234
        for elsewhere in (tmp_path / "nowhere", tmp_path):
            with pytest.raises(NotRunningError, match=re.escape(str(elsewhere))):
                service_of({"state": elsewhere})


@pytest.mark.parametrize("said", ["", "{", "[]", "null", '{"root": 1}', "\0", "[" * 9999])
def test_a_state_folder_that_does_not_say_its_vault_is_a_sentence(vault, state, said):
    (state / VAULT_FILE).write_text(said)
    with pytest.raises(ConfigurationError, match="--vault"):
        service_of({"state": state})
    locate_vault(vault, state)
    assert service_of({"state": state}) is None


# A stranger on the port


def strange(name):
    long = "x" * 100_000
    return {
        "nothing": b"",
        "garbage": b"\x00\xff" * 100,
        "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
        "no proof": http("{}"),
        "an empty proof": http(""),
        "a wrong proof": http("0" * 64),
        "no ASCII": b"HTTP/1.1 200 OK\r\nContent-Length: 128\r\n\r\n" + b"\xff" * 128,
        "too long": http(long),
        "an error": http('{"nothing": 1}', "500 Oh"),
        "a strange status": b"HTTP/1.1 abc\r\n\r\n",
        "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "another address": http("", "302 Found", "Location: http://127.0.0.1:1/\r\n"),
        "go on": b"HTTP/1.1 100 Continue\r\n\r\n",
        "half": b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n00",
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "nothing",
            "garbage",
            "another protocol",
            "no proof",
            "an empty proof",
            "a wrong proof",
            "no ASCII",
        ),
        *(
            "too long",
            "an error",
            "a strange status",
            "many headers",
            "bad chunks",
            "another address",
            "go on",
            "half",
        ),
    ],
)
def test_a_stranger_on_the_port_hears_no_token_and_the_user_a_sentence(vault, state, monkeypatch, name):
    monkeypatch.setattr(client, "_PROOF_SECONDS", 0.5)
    with listening(lambda _: strange(name)) as (port, heard), pytest.raises(ServiceError, match=f":{port}"):
        Service(vault, state, port, 1).call("GET", "/health")
    assert read_token(state).encode() not in b"".join(heard)
    assert b"Authorization" not in b"".join(heard)
    assert len(heard) == 1


def test_a_stranger_who_sends_a_byte_now_and_then_keeps_no_client_waiting(vault, state, monkeypatch):
    monkeypatch.setattr(client, "_PROOF_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(b"H")
                    time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(ServiceError, match=r"127\.0\.0\.1"):
            Service(vault, state, server.getsockname()[1], 1).call("GET", "/health")


def test_a_token_that_is_gone_is_said_to_be_gone(vault, state):
    (state / "token").unlink()
    with (
        listening(lambda _: strange("nothing")) as (port, heard),
        pytest.raises(ServiceError, match="is gone"),
    ):
        Service(vault, state, port, 1).call("GET", "/health")
    assert heard == []
    assert not (state / "token").exists()


@pytest.fixture(scope="module")
def user(tmp_path_factory, tiny_model):
    base = tmp_path_factory.mktemp("served")
    root = base / "notes"
    root.mkdir()
    user = User(base, root, EMBEDDING_MODEL=str(tiny_model))
    user.start("serve", *user.place, "--port", str(user.port))
    wait_for(user.health, "it serves")
    yield user
    user.stop()


def test_the_true_service_proves_itself_and_is_asked(user):
    service = wait_for(lambda: running(user.state), "it is found")
    assert service.call("GET", "/health")["vault"] == str(user.root)


def test_a_proof_that_a_stranger_has_the_service_make_is_of_no_use_to_him(user):
    def relayed(data):
        nonce = re.search(rb"GET /proof/(\w+)", data)
        if nonce is None:
            return http("{}")
        made = httpx.get(f"http://127.0.0.1:{user.port}/proof/{nonce[1].decode()}")
        assert made.status_code == 200
        return http(made.text)

    with listening(relayed) as (port, heard), pytest.raises(ServiceError, match="is not the service of"):
        Service(user.root, user.state, port, 1).call("GET", "/health")
    assert len(heard) == 1


@pytest.mark.parametrize(
    "nonce", ["", "x", "0" * 31, "0" * 33, "g" * 32, "0" * 32 + "/", "..%2fhealth", "%00" * 32]
)
def test_only_a_number_of_the_right_form_is_proven(user, nonce):
    assert httpx.get(f"http://127.0.0.1:{user.port}/proof/{nonce}").status_code in (401, 404)


def test_a_proof_is_not_given_to_other_sites_or_under_other_names(user):
    address = f"http://127.0.0.1:{user.port}/proof/{new_nonce()}"
    assert httpx.get(address, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 403
    assert httpx.post(address).status_code == 404


# What a service that proved itself may still answer


@pytest.mark.parametrize(
    "answer",
    [
        http("no JSON"),
        http(""),
        http("[" * 100_000),
        http("{}", "500 Oh"),
        http("[]", "404 Not Found"),
        http('{"detail": {"path": 1}}', "404 Not Found"),
        http('{"detail": null}', "409 Conflict"),
        http('"x"', "503 Busy"),
        http("<html>", "502 Bad Gateway"),
    ],
)
def test_a_strange_answer_is_a_sentence(vault, state, answer):
    token = read_token(state)

    def honest(data):
        nonce = re.search(rb"GET /proof/(\w+)", data)
        return http(proof(token, nonce[1].decode(), "127.0.0.1", port)) if nonce else answer

    with listening(honest) as (port, heard), pytest.raises(EverindexError) as raised:
        Service(vault, state, port, 1).call("GET", "/health")
    assert str(raised.value)
    assert token.encode() in heard[1]


# When a first index is complete


@pytest.mark.parametrize(
    ("last_reconcile", "pending", "vectors_pending", "complete"),
    [
        (None, 0, 0, False),
        ({"found": {"work": {}}}, 0, 0, False),
        ({"found": {"work": {}, "home": {}}}, 0, 0, True),
        ({"found": {"work": {}, "home": {}, "gone": {}}}, 0, 0, True),
        ({"found": {"work": {}, "home": {}}}, 1, 0, False),
        ({"found": {"work": {}, "home": {}}}, 0, 1, False),
    ],
)
def test_an_index_is_complete_once_every_domain_was_compared_and_nothing_is_pending(
    last_reconcile, pending, vectors_pending, complete
):
    health = {
        "domains": {"work": {}, "home": {}},
        "last_reconcile": last_reconcile,
        "pending": pending,
        "vectors_pending": vectors_pending,
    }
    assert client.is_complete(health) == complete
