import asyncio
import re
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from pipelines.errors import StateError
from queue_config.secrets import TOKEN as TOKEN_SECRET
from queue_config.secrets import write_secret
from queue_config.settings import Settings
from service.app import create_app
from service.http import auth as sessions_module
from service.http.auth import SESSION_SECONDS, Guard, Sessions
from service.runtime.client import read_token
from tests.whole.conftest import wait_for

PORT = 8741
TOKEN = "the-token-of-this-vault"  # noqa: S105 - a test's
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
HEADERS = ("content-security-policy", "x-content-type-options", "referrer-policy", "cache-control")


async def answer(request):
    return PlainTextResponse(request.url.path)


async def stream(_):
    return StreamingResponse(iter(["a", "b"]), headers={"Cache-Control": "max-age=5"})


async def speak(websocket):
    await websocket.accept()
    await websocket.send_text("secret")
    await websocket.close()


VAULT = "0123456789ab"
NOWHERE = Path("/nowhere")
COOKIE = f"everindex-{VAULT}-{PORT}"


@pytest.fixture
def sessions(tmp_path):
    return Sessions(TOKEN, tmp_path, VAULT, PORT)


@pytest.fixture
def client(sessions):
    app = Starlette(
        routes=[
            Route("/stream", stream),
            WebSocketRoute("/ws", speak),
            Route("/only-get/x", answer, methods=["GET"]),
            Route("/writes", answer, methods=["POST", "PUT", "PATCH", "DELETE"]),
            *(Route(path, answer) for path in ("/", "/health", "/healthy", "/open/x", "/open", "/search")),
        ]
    )
    return TestClient(
        Guard(app, sessions=sessions, port=PORT),
        base_url=f"http://127.0.0.1:{PORT}",
        raise_server_exceptions=False,
    )


@pytest.fixture
def cookie(sessions):
    return {"Cookie": f"{COOKIE}={sessions.redeem(sessions.new_code())}"}


# Who is let in


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer  {TOKEN}"},
        {"Cookie": f"{COOKIE}={TOKEN}"},
        {"Cookie": f"{COOKIE}="},
        {"Cookie": "other=1"},
    ],
)
def test_without_the_token_or_the_cookie_nothing_is_answered(client, headers):
    response = client.get("/search", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "token" in response.json()["detail"]
    assert TOKEN not in response.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_lets_in(client, scheme):
    response = client.get("/search", headers={"Authorization": f"{scheme} {TOKEN}"})
    assert (response.status_code, response.text) == (200, "/search")


def test_the_cookie_lets_in_among_others(client, sessions):
    cookie = sessions.redeem(sessions.new_code())
    for header in (f"{COOKIE}={cookie}", f"a=b; {COOKIE}={cookie}; c=d"):
        assert client.get("/search", headers={"Cookie": header}).status_code == 200


def test_a_cookie_is_let_in_beside_one_of_the_same_name_that_another_port_has_set(client, cookie):
    for header in (f"{COOKIE}=zzz; {cookie['Cookie']}", f"{cookie['Cookie']}; {COOKIE}=zzz"):
        assert client.get("/search", headers={"Cookie": header}).status_code == 200


def test_the_cookie_is_not_the_token_and_belongs_to_it(sessions, tmp_path, cookie):
    value = cookie["Cookie"].partition("=")[2]
    assert TOKEN not in value
    assert sessions.redeem(sessions.new_code()) != value
    assert sessions.knows(Headers(cookie))
    assert not Sessions("the-token-of-another-vault", tmp_path, VAULT, PORT).knows(Headers(cookie))


def test_no_file_of_the_state_folder_holds_a_cookie_or_the_token(cookie, tmp_path):
    value = cookie["Cookie"].partition("=")[2]
    kept = "".join(file.read_text() for file in tmp_path.iterdir())
    assert kept
    assert value not in kept
    assert TOKEN not in kept


def test_a_session_survives_a_restart(cookie, tmp_path):
    assert Sessions(TOKEN, tmp_path, VAULT, PORT).knows(Headers(cookie))


@pytest.mark.parametrize(("vault", "port"), [("ba9876543210", PORT), (VAULT, PORT + 1)])
def test_a_cookie_is_worth_nothing_to_another_vault_or_on_another_port(sessions, tmp_path, vault, port):
    value = sessions.redeem(sessions.new_code())
    (tmp_path / "other").mkdir()
    other = Sessions(TOKEN, tmp_path / "other" if vault != VAULT else tmp_path, vault, port)
    assert other.cookie != sessions.cookie
    assert not other.knows(Headers({"Cookie": f"{other.cookie}={value}; {sessions.cookie}={value}"}))


def test_a_session_ends_after_a_week(sessions, cookie, tmp_path, monkeypatch):
    later = time.time() + SESSION_SECONDS
    monkeypatch.setattr("service.http.auth.time.time", lambda: later - 10)
    assert sessions.knows(Headers(cookie))
    monkeypatch.setattr("service.http.auth.time.time", lambda: later + 10)
    assert not sessions.knows(Headers(cookie))
    assert not Sessions(TOKEN, tmp_path, VAULT, PORT).knows(Headers(cookie))


def test_a_browser_that_signs_out_is_out_for_good_and_the_others_stay(sessions, cookie, tmp_path):
    other = {"Cookie": f"{COOKIE}={sessions.redeem(sessions.new_code())}"}
    sessions.sign_out(Headers(cookie))
    for one in (sessions, Sessions(TOKEN, tmp_path, VAULT, PORT)):
        assert not one.knows(Headers(cookie))
        assert one.knows(Headers(other))


@pytest.mark.parametrize("said", ["", "{", "null", "[]", "1", '{"a": "b"}', '{"a": null}', "\0", "[" * 9999])
def test_a_damaged_file_of_sessions_signs_everybody_out_and_in_again(sessions, cookie, tmp_path, said):
    (tmp_path / f"sessions-{PORT}.json").write_text(said)
    assert not sessions.knows(Headers(cookie))
    again = {"Cookie": f"{COOKIE}={sessions.redeem(sessions.new_code())}"}
    assert sessions.knows(Headers(again))


def test_a_browser_is_told_how_to_sign_in_on_a_page_that_looks_like_ours(client):
    response = client.get("/", headers={"Accept": "text/html,*/*"})
    assert response.status_code == 401
    assert "text/html" in response.headers["content-type"]
    assert "everindex open" in response.text
    for asset in re.findall(r'(?:href|src)="(/static/[^"]+)"', response.text):
        assert client.get(asset).status_code == 404  # of this test's application: it was let through
    assert "<script" not in response.text
    assert "/ops" not in response.text


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 200), ("/open/x", 200), ("/healthy", 401), ("/open", 401)]
)
def test_only_health_and_signing_in_are_open(client, path, status):
    assert client.get(path).status_code == status


def test_a_path_that_does_not_exist_says_so_only_to_those_who_may_ask(client):
    assert client.get("/nothing").status_code == 401
    assert client.get("/nothing", headers=BEARER).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
def test_every_method_needs_the_token(client, method):
    assert client.request(method, "/search").status_code == 401


def test_a_websocket_needs_the_token_too(client):
    def connect():
        with client.websocket_connect("/ws") as socket:
            return socket.receive_text()

    with pytest.raises(WebSocketDisconnect):
        connect()


@given(
    name=st.sampled_from([b"authorization", b"cookie", b"accept", b"origin"]),
    value=st.one_of(
        st.binary(max_size=40),
        st.binary(max_size=20).map(lambda data: b"Bearer " + data),
        st.binary(max_size=20).map(lambda data: COOKIE.encode() + b"=" + data),
    ),
)
@settings(max_examples=200)
def test_no_header_lets_in_by_accident_or_breaks_the_guard(name, value):
    sent = []

    async def send(message):
        sent.append(message)

    guard = Guard(PlainTextResponse("secret"), sessions=Sessions(TOKEN, NOWHERE, VAULT, PORT), port=PORT)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/search",
        "query_string": b"",
        "headers": [(b"host", f"127.0.0.1:{PORT}".encode()), (name, value)],
    }
    asyncio.run(guard(scope, None, send))
    assert sent[0]["status"] in (401, 403)


# One-time codes


def test_a_code_works_once(sessions):
    code = sessions.new_code()
    assert sessions.redeem(code)
    assert sessions.redeem(code) is None


def test_codes_do_not_spend_each_other(sessions):
    first, second = sessions.new_code(), sessions.new_code()
    assert first != second
    assert sessions.redeem(second)
    assert sessions.redeem(first)


@pytest.mark.parametrize("code", ["", "unknown", TOKEN])
def test_a_code_that_was_not_given_is_worth_nothing(sessions, code):
    sessions.new_code()
    assert sessions.redeem(code) is None


def test_a_code_runs_out_after_a_minute(sessions, monkeypatch):
    early, late = sessions.new_code(), sessions.new_code()
    now = time.monotonic()
    monkeypatch.setattr("service.http.auth.time.monotonic", lambda: now + 59)
    assert sessions.redeem(early)
    monkeypatch.setattr("service.http.auth.time.monotonic", lambda: now + 61)
    assert sessions.redeem(late) is None
    monkeypatch.undo()
    assert sessions.redeem(late) is None


def test_a_page_that_opens_the_browser_is_its_owners_alone_and_works_once(sessions):
    page = sessions.new_page()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    (code,) = set(re.findall(rf"http://127\.0\.0\.1:{PORT}/open/([\w-]+)", page.read_text()))
    assert code not in page.name
    assert sessions.redeem(code)
    assert not page.exists()
    assert sessions.redeem(code) is None


def test_a_page_that_was_never_opened_is_deleted(sessions, tmp_path, monkeypatch):
    monkeypatch.setattr(sessions_module, "CODE_SECONDS", 0.05)
    page = sessions.new_page()
    wait_for(lambda: not page.exists(), "its time is over")
    monkeypatch.undo()
    pages = [sessions.new_page(), sessions.new_page()]
    Sessions(TOKEN, tmp_path, VAULT, PORT + 1)
    assert all(page.exists() for page in pages)
    sessions.close()
    assert not any(page.exists() for page in pages)
    left = sessions.new_page()
    Sessions(TOKEN, tmp_path, VAULT, PORT)
    assert not left.exists()


# Host and Origin


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"])
def test_on_the_default_port_clients_leave_it_out(sessions, host):
    guard = Guard(
        Starlette(routes=[Route("/search", answer, methods=["GET", "POST"])]), sessions=sessions, port=80
    )
    client = TestClient(guard, base_url="http://127.0.0.1")
    own = BEARER | {"Host": host, "Origin": f"http://{host}"}
    assert client.get("/search", headers=own).status_code == 200
    assert client.post("/search", headers=own | JSON).status_code == 200
    for foreign in ("127.0.0.1:8741", "127.0.0.1:443", "evil.example", "[::1]", "127.0.0.1:"):
        assert client.get("/search", headers=BEARER | {"Host": foreign}).status_code == 403
        assert client.get("/search", headers=own | {"Origin": f"http://{foreign}"}).status_code == 403


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}"])
def test_our_own_hosts_are_served(client, host):
    assert client.get("/search", headers=BEARER | {"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            f"evil.example:{PORT}",
            "127.0.0.1",
            "127.0.0.1:1",
            "localhost",
            "localhost:80",
            "",
        ),
        *(
            f"127.0.0.1:{PORT}.evil.example",
            f"127.0.0.1:{PORT}@evil.example",
            f"[::1]:{PORT}",
            f"0.0.0.0:{PORT}",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/search", "/health", "/open/x"])
def test_a_foreign_host_is_refused_even_with_the_token(client, host, path):
    assert client.get(path, headers=BEARER | {"Host": host}).status_code == 403


@pytest.mark.parametrize("origin", [f"http://127.0.0.1:{PORT}", f"http://localhost:{PORT}"])
def test_our_own_origins_may_ask(client, origin):
    assert client.post("/search", headers=BEARER | JSON | {"Origin": origin}).status_code == 405


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "https://evil.example",
            "null",
            "",
            f"https://127.0.0.1:{PORT}",
            "http://127.0.0.1",
            "http://localhost:3000",
        ),
        *(f"http://127.0.0.1:{PORT}.evil.example", f"http://127.0.0.1:{PORT}/", "file://"),
    ],
)
@pytest.mark.parametrize("path", ["/search", "/health"])
def test_a_foreign_origin_is_refused_even_with_the_token(client, origin, path):
    assert client.get(path, headers=BEARER | {"Origin": origin}).status_code == 403


def test_a_name_that_was_allowed_is_served_exactly_and_nothing_like_it(sessions):
    app = Starlette(routes=[Route("/search", answer)])
    guard = Guard(app, sessions=sessions, port=PORT, names=["notes.example:8741"])
    client = TestClient(guard, base_url=f"http://127.0.0.1:{PORT}")
    for host, status in [
        ("notes.example:8741", 200),
        (f"127.0.0.1:{PORT}", 200),
        ("notes.example", 403),
        ("x.notes.example:8741", 403),
    ]:
        assert client.get("/search", headers=BEARER | {"Host": host}).status_code == status
    for origin, status in [("https://notes.example:8741", 200), ("https://notes.example", 403)]:
        assert client.get("/search", headers=BEARER | {"Origin": origin}).status_code == status


def test_a_foreign_origin_behind_our_own_is_refused_too(client):
    headers = [*BEARER.items(), ("Origin", f"http://127.0.0.1:{PORT}"), ("Origin", "https://evil.example")]
    assert client.get("/search", headers=headers).status_code == 403


# Other sites


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "SAME-ORIGIN"])
@pytest.mark.parametrize(("method", "path"), [("POST", "/writes"), ("DELETE", "/writes"), ("GET", "/search")])
def test_a_page_of_another_site_gets_nothing_even_with_the_cookie(client, cookie, method, path, site):
    headers = JSON | cookie | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert client.request(method, path, headers=headers).status_code == 403


def test_a_link_on_another_site_opens_our_page_but_no_frame_shows_it(client, cookie):
    headers = cookie | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=headers | {"Sec-Fetch-Dest": "document"}).status_code == 200
    assert client.get("/", headers=headers | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert client.post("/writes", headers=headers | JSON | {"Sec-Fetch-Dest": "document"}).status_code == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_page_writes_json(client, cookie, site):
    headers = cookie | {"Sec-Fetch-Site": site}
    for kind in ("application/json", "Application/JSON; charset=utf-8"):
        assert (
            client.post("/writes", headers=headers | {"Content-Type": kind}, content="{}").status_code == 200
        )


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/plain; application/json",
        "application/jsonp",
        "",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_a_form_can_send_is_refused(client, cookie, method, kind):
    for who in (cookie | {"Sec-Fetch-Site": "same-origin"}, BEARER):
        answer = client.request(method, "/writes", headers=who | {"Content-Type": kind}, content="{}")
        assert answer.status_code == 415


def test_a_write_with_the_cookie_that_hides_where_it_comes_from_is_refused(client, cookie):
    assert client.post("/writes", headers=cookie | JSON).status_code == 403
    own = {"Origin": f"http://127.0.0.1:{PORT}"}
    assert client.post("/writes", headers=cookie | JSON | own).status_code == 200


def test_a_program_writes_with_the_token_and_needs_no_body(client):
    assert client.post("/writes", headers=BEARER).status_code == 200
    assert client.delete("/writes", headers=BEARER).status_code == 200
    assert client.post("/writes", headers=BEARER | JSON, content="{}").status_code == 200
    assert client.post("/writes", headers=BEARER | {"Sec-Fetch-Site": "same-origin"}).status_code == 415


# Headers


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/search", BEARER, 200),
        ("GET", "/stream", BEARER, 200),
        ("GET", "/health", {}, 200),
        ("GET", "/search", {}, 401),
        ("GET", "/", {"Accept": "text/html"}, 401),
        ("GET", "/search", BEARER | {"Host": "evil.example"}, 403),
        ("GET", "/search", BEARER | {"Origin": "null"}, 403),
        ("GET", "/nothing", BEARER, 404),
        ("POST", "/only-get/x", BEARER, 405),
    ],
)
def test_every_answer_has_the_security_headers(client, method, path, headers, status):
    response = client.request(method, path, headers=headers)
    assert response.status_code == status
    assert [name for name in HEADERS if name not in response.headers] == []
    assert "script-src" not in response.headers["content-security-policy"]
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "access-control-allow-origin" not in response.headers


def test_an_answers_own_header_is_kept_and_not_doubled(client):
    response = client.get("/stream", headers=BEARER)
    assert response.headers.get_list("cache-control") == ["max-age=5"]
    assert response.text == "ab"


@pytest.fixture
def real(vault, tmp_path):
    """The query worker's own application, with a route that fails."""
    app = create_app(Settings(vault=vault, state=tmp_path / "state"), PORT)

    @app._app.get("/boom")  # type: ignore[attr-defined]  # within its guards: FastAPI's application
    def boom():
        raise RuntimeError("broken")

    client = TestClient(app, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False)
    client.headers["Authorization"] = f"Bearer {read_token(tmp_path / 'state')}"
    return client


def test_the_query_worker_is_behind_the_guard(real):
    assert real.get("/openapi.json").status_code == 200
    for headers, status in [({"Authorization": ""}, 401), ({"Host": "evil"}, 403), ({"Origin": "null"}, 403)]:
        response = real.get("/openapi.json", headers=headers)
        assert response.status_code == status
        assert [name for name in HEADERS if name not in response.headers] == []


def test_health_names_no_path_and_counts_no_note_without_the_token(real, vault):
    stranger = real.get("/health", headers={"Authorization": ""})
    assert stranger.status_code == 200
    assert stranger.json().keys() == {"status", "version"}
    assert str(vault) not in stranger.text
    assert real.get("/health").json()["vault"] == str(vault)


def test_a_code_is_given_to_the_token_alone(real):
    code = real.post("/session").json()["code"]
    cookie = real.get(f"/open/{code}").headers["set-cookie"].partition(";")[0]
    browser = {"Authorization": "", "Cookie": cookie, "Sec-Fetch-Site": "same-origin"} | JSON
    assert real.get("/search?q=a", headers=browser).status_code == 200
    for more in ("", "?page=true"):
        assert real.post(f"/session{more}", headers=browser, content="{}").status_code == 403


def test_a_link_that_was_used_says_so_and_how_to_get_another(real):
    code = real.post("/session").json()["code"]
    assert real.get(f"/open/{code}").status_code == 200
    page = real.get(f"/open/{code}", headers={"Accept": "text/html"})
    assert page.status_code == 401
    assert "This link was used, or is too old" in page.text
    assert "<code>everindex open</code>" in page.text
    assert "was used, or is too old" in real.get(f"/open/{code}").json()["detail"]


def test_a_browser_signs_out_and_its_cookie_goes(real):
    code = real.post("/session").json()["code"]
    cookie = real.get(f"/open/{code}").headers["set-cookie"].partition(";")[0]
    real.cookies.clear()
    browser = {"Authorization": "", "Cookie": cookie, "Sec-Fetch-Site": "same-origin"} | JSON
    assert real.post("/sign-out", headers=browser | {"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert real.post("/sign-out", headers=browser | {"Content-Type": "text/plain"}).status_code == 415
    assert real.get("/search?q=a", headers=browser).status_code == 200
    out = real.post("/sign-out", headers=browser, content="{}")
    assert out.status_code == 200
    assert out.headers["set-cookie"].startswith(f'{cookie.partition("=")[0]}="";')
    assert real.get("/search?q=a", headers=browser).status_code == 401


@pytest.mark.parametrize(("path", "status"), [("/notes/nope.md", 404), ("/whatever", 404), ("/search", 422)])
def test_an_error_is_a_page_for_a_browser_and_a_problem_document_for_a_program(real, path, status):
    page = real.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.status_code == status
    assert "text/html" in page.headers["content-type"]
    assert 'name="viewport"' in page.text
    assert 'href="/"' in page.text
    assert "<script" not in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    program = real.get(path)
    assert (program.status_code, program.headers["content-type"]) == (status, "application/problem+json")


def test_an_unexpected_error_has_the_security_headers_too(real):
    response = real.get("/boom")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["title"] == "Internal Server Error"
    assert "broken" not in response.text
    assert "Traceback" not in response.text
    assert [name for name in HEADERS if name not in response.headers] == []


# The token


def test_the_token_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    token = read_token(tmp_path)
    assert len(token) >= 32
    assert read_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / TOKEN_SECRET.name).stat().st_mode) == 0o600


@pytest.mark.parametrize("token", ["", "short", "a token with spaces in it, and long", "\0" * 40, "é" * 40])
def test_a_token_that_can_be_guessed_or_is_damaged_is_refused(tmp_path, token):
    write_secret(tmp_path / TOKEN_SECRET.name, token)
    with pytest.raises(StateError, match="delete it"):
        read_token(tmp_path)
