"""A phone signs in at one more address, and nothing else gets in there; a browser signs in with the token."""

from __future__ import annotations

import re
import signal
import threading
from contextlib import contextmanager, suppress
from functools import partial

import httpx
import pytest

from pipelines.errors import ConfigurationError, EverindexError, ServiceError
from queue_config.settings import Settings
from service.cli import run as command
from service.http import auth, phone
from service.runtime.client import Service, read_token
from service.runtime.sockets import check_local, lan_address
from tests.browser.serving import serving
from tests.whole.conftest import User, wait_for

NEAR = "127.0.0.2"
"""Stands for the address in the local network: every Linux has it, and it is not the one that is served."""
PAGE = {"Accept": "text/html"}
# Each call of httpx would load the machine's certificates.
get, post = partial(httpx.get, verify=False), partial(httpx.post, verify=False)


@pytest.fixture
def service(vault, tmp_path, monkeypatch):
    """A running service, in this process."""
    monkeypatch.setattr(phone, "check_local", lambda _: None)
    monkeypatch.setattr(phone, "_LOOK_SECONDS", 0.02)
    (vault / "Garden.md").write_text("# Garden\n\nThe secret bed of lavender.\n")
    settings = Settings(vault=vault, state=tmp_path / "state")
    with serving(settings) as address:
        yield Service(vault, tmp_path / "state", int(address.rpartition(":")[2]), 1)


class Asked:
    """`everindex open --phone`, as far as the service sees it."""

    def __init__(self, service):
        self.events = service.events("/phone", host=NEAR)
        self.code = next(self.events)["code"]
        self.address = f"http://{NEAR}:{service.port}"
        self.link = f"{self.address}/open/{self.code}"

    def end(self):
        self.events.close()  # as the system does when the command ends, however it ends


@pytest.fixture
def asked(service):
    asked = Asked(service)
    yield asked
    asked.end()


def is_open(address):
    try:
        get(f"{address}/health")
    except httpx.TransportError:  # it may close while it is asked
        return False
    return True


@contextmanager
def signed_in(asked):
    with httpx.Client(base_url=asked.address) as browser:
        assert browser.get(asked.link).status_code == 200
        yield browser


# A phone


def test_a_phone_signs_in_once_with_the_code_and_can_use_every_page(asked):
    with signed_in(asked) as browser:
        assert next(asked.events) == {"signed_in": "30 minutes"}
        for path in ("/", "/graph", "/ops", "/search?q=bed"):
            assert browser.get(path).status_code == 200
        own = {"Origin": asked.address, "Content-Type": "application/json"}
        assert browser.post("/search", content='{"q": "bed"}', headers=own).status_code == 200
    again = get(asked.link, headers=PAGE)
    assert again.status_code == 401
    assert not again.cookies
    assert "<code>everindex open --phone</code>" in again.text


def test_the_code_can_be_typed(asked):
    assert re.fullmatch(r"[a-z2-9]{10}", asked.code)
    assert not set("il1o0") & set(asked.code)


def test_the_address_closes_when_the_command_ends_and_with_it_the_phone_s_session(service, asked):
    with signed_in(asked) as browser:
        ((name, value),) = browser.cookies.items()
    cookie = f"{name}={value}"
    with httpx.stream("GET", f"{asked.address}/ops/events", headers={"Cookie": cookie}) as events:
        lines = events.iter_lines()
        next(lines)
        asked.end()
        with pytest.raises(httpx.TransportError):  # also of an answer that never ends
            list(lines)
    wait_for(lambda: not is_open(asked.address), "the address is closed")
    later = Asked(service)
    assert get(f"{later.address}/", headers={"Cookie": cookie}).status_code == 401
    later.end()


def test_a_code_that_is_too_old_lets_nobody_in_and_the_address_closes(service, monkeypatch):
    monkeypatch.setattr(auth, "PHONE_CODE_SECONDS", 0.0)
    asked = Asked(service)
    with suppress(httpx.TransportError):  # it may be closed already
        assert get(asked.link).status_code == 401
    assert next(asked.events) == {"over": "no phone is signed in, and the code is no longer valid"}
    wait_for(lambda: not is_open(asked.address), "the address is closed")


def test_the_address_closes_after_a_while_without_a_signed_in_request(asked, monkeypatch):
    with signed_in(asked):
        pass
    assert "signed_in" in next(asked.events)
    monkeypatch.setattr(phone, "IDLE_SECONDS", 0.0)
    assert next(asked.events)["over"].startswith("no page was asked for")
    wait_for(lambda: not is_open(asked.address), "the address is closed")


def test_signing_out_on_the_phone_ends_it(asked):
    with signed_in(asked) as browser:
        assert "signed_in" in next(asked.events)
        own = {"Origin": asked.address, "Content-Type": "application/json"}
        assert browser.post("/sign-out", content="{}", headers=own).status_code == 200
    assert "over" in next(asked.events)


def test_only_one_command_at_a_time_lets_a_phone_in(service, asked):
    with pytest.raises(EverindexError, match="being let in already"):
        next(service.events("/phone", host=NEAR))
    with signed_in(asked) as browser:
        assert browser.get("/search?q=bed").status_code == 200


# Attacks from the network


def test_without_a_code_nothing_of_the_vault_can_be_read(service, asked):
    token = read_token(service.state)
    listed = get(f"{service.address}/openapi.json", headers={"Authorization": f"Bearer {token}"}).json()[
        "paths"
    ]
    paths = [re.sub(r"\{\w+\}", "Garden.md", path) for path in listed] + ["/", "/notes/Garden.md", "/graph"]
    for path in paths:
        for headers in ({}, {"Authorization": f"Bearer {token}"}, {"Cookie": f"everindex-{token}=1"}):
            answer = get(f"{asked.address}{path}", headers=headers)
            assert path == "/health" or answer.status_code == 401, path
            assert "lavender" not in answer.text
    assert get(f"{asked.address}/health").json().keys() == {"status", "version"}


def test_a_session_of_one_address_counts_at_no_other(service, asked):
    code = service.call("POST", "/session")["code"]
    assert get(f"{asked.address}/open/{code}").status_code == 401
    assert get(f"{service.address}/open/{asked.code}").status_code == 401
    at_home = get(f"{service.address}/open/{code}").cookies
    with signed_in(asked) as browser:
        away = dict(browser.cookies)
    for address, cookies in ((asked.address, at_home), (service.address, away)):
        ((name, value),) = cookies.items()
        assert get(f"{address}/", headers={"Cookie": f"{name}={value}"}).status_code == 401


def test_names_that_were_rebound_and_other_origins_are_refused_there(service, asked):
    with signed_in(asked) as browser:
        for host in (
            f"evil.example:{service.port}",
            "evil.example",
            NEAR,
            f"127.0.0.1:{service.port}",
            f"localhost:{service.port}",
        ):
            assert browser.get("/search?q=bed", headers={"Host": host}).status_code == 403, host
        for origin in ("http://evil.example", "null", service.address, f"https://{NEAR}:{service.port}"):
            assert browser.get("/search?q=bed", headers={"Origin": origin}).status_code == 403, origin
        foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
        assert browser.get("/search?q=bed", headers=foreign).status_code == 403
    token = {"Authorization": f"Bearer {read_token(service.state)}"}
    asked.end()
    wait_for(lambda: not is_open(asked.address), "the address is closed")
    for host in (f"{NEAR}:{service.port}", NEAR):
        assert get(f"{service.address}/ready", headers=token | {"Host": host}).status_code == 403


def test_a_code_cannot_be_guessed_and_the_token_is_not_taken_there(service, asked):
    for guess in (
        "x",
        "",
        asked.code[:-1],
        asked.code.upper(),
        f"{asked.code}a",
        f"{asked.code}%00",
        "ä" * 10,
    ):
        assert get(f"{asked.address}/open/{guess}").status_code in (400, 401, 404), guess
    page = get(asked.address, headers=PAGE).text
    assert "<form" not in page
    form = {"token": read_token(service.state)}
    sent = post(f"{asked.address}/sign-in", data=form, headers={"Origin": asked.address})
    assert (sent.status_code, dict(sent.cookies)) == (403, {})
    assert get(asked.link).status_code == 200


def test_only_a_program_with_the_token_opens_the_address_and_only_a_private_one(service, monkeypatch):
    monkeypatch.setattr(phone, "check_local", check_local)
    code = service.call("POST", "/session")["code"]
    with httpx.Client(base_url=service.address) as browser:
        browser.get(f"/open/{code}")
        own = {"Origin": service.address, "Content-Type": "application/json"}
        assert browser.post(f"/phone?host={NEAR}", content="{}", headers=own).status_code == 403
    assert not is_open(f"http://{NEAR}:{service.port}")
    for host in ("0.0.0.0", "8.8.8.8", "127.0.0.1", "::", "169.254.1.1", "evil.example"):  # noqa: S104
        with pytest.raises(ConfigurationError):
            next(service.events("/phone", host=host))


# The command


def test_the_command_says_what_it_opens_before_it_shows_the_code(service, monkeypatch, capsys):
    monkeypatch.setattr("service.runtime.sockets.lan_address", lambda: NEAR)
    monkeypatch.setattr(auth, "PHONE_CODE_SECONDS", 0.3)
    command.open_on_phone(service)
    said = capsys.readouterr().out
    at = [
        said.index(text)
        for text in (
            f"listens at http://{NEAR}:{service.port}, too",
            f"can read and change the notes of {service.root}",
            "not encrypted",
            "█▀▀▀▀▀█",
            f"  http://{NEAR}:{service.port}/open/",
            "Closed: no phone is signed in",
        )
    ]
    assert at == sorted(at)


def test_without_a_private_network_it_says_so(monkeypatch):
    for address in ("8.8.8.8", "100.64.0.1", "127.0.0.1"):
        with pytest.raises(ConfigurationError, match="not an address of a private network"):
            check_local(address)
    monkeypatch.setattr("service.runtime.sockets._ELSEWHERE", ("not an address", 9))
    with pytest.raises(ConfigurationError, match="in no network"):
        lan_address()


@pytest.fixture
def user(tmp_path, vault):
    user = User(tmp_path, vault)
    yield user
    user.stop()


def test_a_real_command_lets_a_phone_in_until_it_is_interrupted(user):
    try:
        host = lan_address()
    except ConfigurationError:
        pytest.skip("this machine is in no private network")
    user.start("serve", *user.place, "--port", str(user.port))
    wait_for(lambda: (user.state / "service.json").exists() and user.health(), "the service answers")
    # Where the tests run in the background, the signal is ignored, which the command would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = user.start("open", "--phone", *user.place)
    lines = iter(process.stdout.readline, "")
    link = next(line.strip() for line in lines if f"http://{host}:{user.port}/open/" in line)
    threading.Timer(0.2, lambda: get(link)).start()
    assert any(
        "A phone is signed in" in line and "or until it asks for no page in 30 minutes" in line
        for line in lines
    )
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    wait_for(lambda: not is_open(f"http://{host}:{user.port}"), "the address is closed")


# The token in the sign-in page


def send(service, token, **headers):
    return post(
        f"{service.address}/sign-in", data={"token": token}, headers={"Origin": service.address} | headers
    )


def test_a_browser_signs_in_with_the_token(service):
    page = get(service.address, headers=PAGE)
    assert (
        page.headers["referrer-policy"] == "same-origin"
    )  # else a browser sends the form without its Origin
    assert "<code>everindex token</code>" in page.text
    token = read_token(service.state)
    answer = send(service, f" {token}\n")  # as it is copied from a terminal
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert token not in str(answer.headers)
    assert {"HttpOnly", "SameSite=strict"} <= set(re.split("; ?", answer.headers["set-cookie"]))
    assert get(service.address, cookies=answer.cookies).status_code == 200


def test_behind_tls_the_cookie_is_sent_over_tls_alone(vault, tmp_path):
    from starlette.testclient import TestClient

    from service.app import create_app

    name = "notes.example"
    app = create_app(Settings(vault=vault, state=tmp_path / "state"), 8741, (name,))
    client = TestClient(app, base_url=f"http://{name}", follow_redirects=False)
    form = {"token": read_token(tmp_path / "state")}
    answer = client.post("/sign-in", data=form, headers={"Origin": f"https://{name}"})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_form_of_another_site_signs_nobody_in(service, headers):
    answer = send(service, read_token(service.state), **headers)
    assert (answer.status_code, dict(answer.cookies)) == (403, {})
    assert post(f"{service.address}/sign-in", data={"token": "x"}).status_code == 403  # no Origin at all


def test_after_some_wrong_tokens_even_the_right_one_waits_a_minute(service, monkeypatch):
    token = read_token(service.state)
    tried = [send(service, f"{token}{n}" if n else "", **PAGE) for n in range(auth.MOST_TRIES)]
    assert {one.status_code for one in tried[:-1]} == {401}
    assert "That is not the token" in tried[0].text
    slowed = send(service, token, **PAGE)
    assert (slowed.status_code, slowed.headers["retry-after"], dict(slowed.cookies)) == (429, "60", {})
    assert token not in slowed.text
    assert get(f"{service.address}/open/{service.call('POST', '/session')['code']}").status_code == 200
    monkeypatch.setattr(auth, "TRIES_SECONDS", 0.0)
    assert send(service, token).status_code == 303


def test_a_form_of_any_bytes_is_no_error(service):
    for content in (
        b"",
        b"token",
        b"token=%ff%00",
        b"&" * 100_000,
        b"\xff" * 3_000,
        b"token=" + b"a" * 900_000,
    ):
        monkey = post(f"{service.address}/sign-in", content=content, headers={"Origin": service.address})
        assert monkey.status_code in (401, 429)


def test_a_service_that_ends_ends_the_command(vault, tmp_path, monkeypatch):
    monkeypatch.setattr(phone, "check_local", lambda _: None)
    monkeypatch.setattr(phone, "_LOOK_SECONDS", 0.02)
    with serving(Settings(vault=vault, state=tmp_path / "state")) as address:
        asked = Asked(Service(vault, tmp_path / "state", int(address.rpartition(":")[2]), 1))
    with suppress(ServiceError, StopIteration):  # its connection may have been cut
        assert next(asked.events) == {"over": "Everindex stops"}
