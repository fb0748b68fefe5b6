"""What an attacker tries, against a real server: other sites, paths out of the vault, scripts in notes, secrets."""

from __future__ import annotations

import json
import re
import socket
import stat
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx
import psutil
import pytest

import service.web
from queue_config.settings import Settings
from tests.whole.conftest import User, free_port, wait_for

SECRET = "the-recipe-nobody-may-read"  # noqa: S105 - a word in a file outside the vault
API_KEY = "sk-ant-0123456789-never-shown"
SCRIPT = "<script>alert(1)</script>"
HANDLER = "\"><img src=x onerror='alert(2)'>"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def user(tmp_path_factory, tiny_model):
    base = tmp_path_factory.mktemp("attacked")
    root = base / "notes"
    root.mkdir()
    outside = base / "outside"
    outside.mkdir()
    (outside / "recipe.md").write_text(f"# Recipe\n\n{SECRET} bread flour yeast\n")
    (root / "linked.md").symlink_to(outside / "recipe.md")
    (root / "folder").symlink_to(outside)
    (root / "Swapped.md").write_text("# Swapped\n\nriver boat sail\n")
    (root / "Garden.md").write_text("# Garden\n\nsoil compost tomato, see [[Evil]]\n")
    (root / "Evil.md").write_text(
        f"---\ntitle: 'Evil {SCRIPT}'\ntags: ['{SCRIPT}']\nauthor: '{SCRIPT}'\n---\n\n"
        f"# Evil {SCRIPT}\n\ngarden soil {SCRIPT} {HANDLER} [[Garden]] [[{HANDLER[2:]}]]\n"
    )
    user = User(
        base,
        root,
        EMBEDDING_MODEL=str(tiny_model),
        ANTHROPIC_API_KEY=API_KEY,
        ANTHROPIC_BASE_URL="http://127.0.0.1:9",
        EVERINDEX_TAG_NOTES_A_DAY="0",
    )
    user.up()
    yield user
    user.stop()


@pytest.fixture(scope="module")
def token(user):
    return (user.state / "token").read_text().strip()


@pytest.fixture(scope="module")
def program(user, token):
    with httpx.Client(
        base_url=f"http://127.0.0.1:{user.port}", headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as client:
        yield client


@pytest.fixture(scope="module")
def cookie(user, program):
    """The name and value of a signed-in browser's cookie."""
    code = program.post("/session").json()["code"]
    answer = httpx.get(f"http://127.0.0.1:{user.port}/open/{code}")
    ((name, value),) = answer.cookies.items()
    return name, value


@pytest.fixture(scope="module")
def routes(program):
    """Every route of the OpenAPI, and the pages, as (method, path)."""
    listed = [
        (method.upper(), re.sub(r"\{\w+\}", "Garden.md", path))
        for path, methods in program.get("/openapi.json").json()["paths"].items()
        for method in methods
    ]
    pages = [
        "/",
        "/graph",
        "/notes/Garden.md",
        "/files/Garden.md",
        "/static/style.css",
        "/openapi.json",
        "/open/x",
        "/nothing",
    ]
    return [*listed, *(("GET", path) for path in pages)]


def raw(user, request):
    """Send bytes as they are; return the answer's bytes."""
    with socket.create_connection(("127.0.0.1", user.port), timeout=30) as client:
        client.sendall(request)
        received = b""
        while part := client.recv(65_536):
            received += part
        return received


def get(user, token, target, *headers, host=None):
    lines = [f"GET {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{user.port}'}"]
    lines += [f"Authorization: Bearer {token}", "Connection: close", *headers]
    return raw(user, ("\r\n".join(lines) + "\r\n\r\n").encode())


def status(answer):
    return int(answer.split(b" ", 2)[1])


# Other sites


def test_a_name_that_was_rebound_to_this_machine_reaches_no_route(user, program, routes):
    for host in (
        f"evil.example:{user.port}",
        "evil.example",
        f"127.0.0.1.nip.io:{user.port}",
        f"[::1]:{user.port}",
    ):
        for method, path in routes:
            assert program.request(method, path, headers={"Host": host}).status_code == 403, (host, path)


def test_a_foreign_origin_reaches_no_route_and_gets_no_cors_headers(user, program, routes):
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{user.port + 1}", "http://localhost"):
        for method, path in routes:
            answer = program.request(method, path, headers={"Origin": origin})
            assert answer.status_code == 403, (origin, path)
            assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_preflight_is_not_granted(user, program, routes):
    for origin in ("https://evil.example", f"http://127.0.0.1:{user.port}"):
        for _, path in routes:
            answer = program.options(
                path, headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
            )
            assert answer.status_code >= 400, path
            assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_form_on_another_page_can_write_nothing(user, cookie, routes):
    own = f"http://127.0.0.1:{user.port}"
    with httpx.Client(base_url=own, cookies=dict([cookie])) as browser:
        for site in ({"Origin": own}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
            for method, path in routes:
                if method == "GET":
                    continue
                for kind in (FORM, "text/plain", "multipart/form-data; boundary=x", None):
                    headers = site | ({"Content-Type": kind} if kind else {})
                    answer = browser.request(method, path, headers=headers, content="a=1")
                    assert answer.status_code == 415, (path, kind)
        for site in ("cross-site", "same-site"):
            headers = {"Sec-Fetch-Site": site, "Content-Type": "application/json"}
            assert browser.post("/reload", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "head",
    [
        "GET /search?q=a HTTP/1.1\r\n",
        "GET /search?q=a HTTP/1.0\r\n",
        "GET /search?q=a HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\n",
        "GET /search?q=a HTTP/1.1\r\nHost: evil.example\r\nHost: {own}\r\n",
        "GET /search?q=a HTTP/1.1\r\nHost: {own}, evil.example\r\n",
        "GET /search?q=a HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: {own}\r\n",
        "GET http://{own}/search?q=a HTTP/1.1\r\nHost: evil.example\r\n",
        "GET http://evil.example/search?q=a HTTP/1.1\r\nHost: {own}\r\n",
        "CONNECT {own} HTTP/1.1\r\nHost: {own}\r\n",
        "GET  /search HTTP/1.1\r\nHost: {own}\r\n",
        "GET /search?q=a HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nOrigin: https://evil.example\r\n",
    ],
)
def test_a_head_that_says_two_things_is_refused(user, token, head):
    own = f"127.0.0.1:{user.port}"
    request = head.format(own=own) + f"Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    assert status(raw(user, request.encode())) in (400, 403, 404, 405)


def within(user, token, headers, before, *, kept="keep-alive"):
    """A request whose body is `before` and, where its end is read otherwise than by us, a second request."""
    own = f"Host: 127.0.0.1:{user.port}\r\nAuthorization: Bearer {token}\r\n"
    inner = f"GET /openapi.json HTTP/1.1\r\n{own}Connection: close\r\n\r\n"
    outer = f"POST /verify HTTP/1.1\r\n{own}Connection: {kept}\r\nContent-Type: application/json\r\n"
    lines = "".join(f"{line}\r\n" for line in headers(len(before) + len(inner)))
    return f"{outer}{lines}\r\n{before}{inner}".encode()


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize("end", ["0\r\n\r\n", "2\r\n{}\r\n0\r\n\r\n", ""])
@pytest.mark.parametrize(
    "headers",
    [
        lambda length: [f"Content-Length: {length}", CHUNKED],
        lambda length: [CHUNKED, f"Content-Length: {length}"],
        lambda _: ["Content-Length: 0", CHUNKED],
        lambda length: [f"Content-Length: {length}", "Transfer-Encoding: CHUNKED"],
        lambda length: ["Content-Length: 5", f"Content-Length: {length}"],
        lambda _: ["Content-Length: 5,5"],
        lambda _: ["Content-Length: 5, 5"],
        lambda _: ["Content-Length: 5", "Content-Length: 5"],
        lambda _: ["Content-Length: 5", "content-length: 5"],
        lambda _: ["Content-Length: 5", " ,5"],
        lambda _: ["Content-Length: +5"],
        lambda _: ["Content-Length: 0x5"],
        lambda _: ["Content-Length: 5;"],
        lambda _: ["Content-Length : 5"],
        lambda _: [CHUNKED, CHUNKED],
        lambda _: ["Transfer-Encoding: xchunked"],
        lambda _: ["Transfer-Encoding: chunked, identity"],
        lambda _: ["Transfer-Encoding: identity", CHUNKED],
        lambda _: ["X: y", " folded: 1", "Content-Length: 0"],
    ],
)
def test_a_request_whose_end_can_be_read_in_two_ways_is_refused_and_nothing_after_it_answered(
    user, token, headers, end
):
    answer = raw(user, within(user, token, headers, end))
    assert status(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()
    assert b'"openapi"' not in answer


def test_without_the_token_too_such_a_request_ends_the_connection(user):
    answer = raw(user, within(user, "x", lambda length: [f"Content-Length: {length}", CHUNKED], "0\r\n\r\n"))
    assert status(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_request_within_a_body_is_not_answered(user, token):
    whole = raw(user, within(user, token, lambda length: [f"Content-Length: {length}"], "", kept="close"))
    assert whole.count(b"HTTP/1.1 ") == 1
    assert b'"openapi"' not in whole
    after = raw(user, within(user, token, lambda _: ["Content-Length: 2"], "{}"))
    assert after.count(b"HTTP/1.1 ") == 2
    assert b'"openapi"' in after  # so an answer to it would be noticed
    chunked = raw(user, within(user, token, lambda _: [CHUNKED], "2\r\n{}\r\n0\r\n\r\n"))
    assert chunked.count(b"HTTP/1.1 ") == 2


# Paths


ESCAPES = [
    "../outside/recipe.md",
    "..%2foutside%2frecipe.md",
    "%2e%2e%2foutside%2frecipe.md",
    "%252e%252e%252foutside%252frecipe.md",
    "%25252e%25252e/outside/recipe.md",
    "..%5coutside%5crecipe.md",
    "....//outside/recipe.md",
    "x/../../outside/recipe.md",
    "%c0%ae%c0%ae/outside/recipe.md",
    "../outside/recipe.md%00.md",
    "../outside/recipe.md;.md",
    "folder/recipe.md",
    "folder/../folder/recipe.md",
    "linked.md",
    "./linked.md",
    "/linked.md",
    "../state/token",
    "..%2fstate%2ftoken",
]


@pytest.mark.parametrize(
    "where", ["notes", "files", "node", "why", "traverse", "similar", "static", "v1/rx", "open"]
)
def test_no_path_leads_out_of_the_vault(user, token, where):
    absolute = [str(user.root.parent / "outside" / "recipe.md"), str(user.state / "token"), "/etc/passwd"]
    for path in [*ESCAPES, *absolute, *(one.replace("/", "%2F") for one in absolute)]:
        answer = get(user, token, f"/{where}/{path}")
        assert status(answer) < 500, path
        assert SECRET.encode() not in answer, path
        assert token.encode() not in answer, path
        assert b"root:" not in answer, path


def test_a_path_in_a_parameter_or_body_leads_nowhere_either(user, program):
    for path in [
        "../outside/recipe.md",
        str(user.root.parent / "outside" / "recipe.md"),
        "folder/recipe.md",
        "linked.md",
    ]:
        cited = {"quotes": [{"path": path, "quote": SECRET}]}
        (quote,) = program.post("/verify", json=cited).json()["quotes"]
        assert not quote["citation_verified"]
        for address in ("/explain", "/search"):
            answer = program.get(address, params={"q": "recipe", "path": path, "folder": path})
            assert answer.status_code < 500
            assert SECRET not in answer.text
        assert program.post("/retry", params={"path": path}).status_code in (400, 404)


def test_what_a_link_leads_to_is_not_found_and_not_shown(program):
    found = program.get("/search", params={"q": "recipe bread flour yeast", "k": 200}).text
    assert SECRET not in found
    assert "recipe.md" not in found
    for path in ("linked.md", "folder/recipe.md"):
        assert program.get(f"/notes/{path}").status_code == 404
        assert program.get(f"/node/{path}").status_code == 404


def test_a_note_that_became_a_link_is_not_followed(user, program):
    assert "river boat" in program.get("/notes/Swapped.md").text
    (user.root / "Swapped.md").unlink()
    (user.root / "Swapped.md").symlink_to(user.root.parent / "outside" / "recipe.md")
    answer = program.get("/notes/Swapped.md")
    assert answer.status_code == 404
    assert SECRET not in answer.text
    wait_for(lambda: program.get("/node/Swapped.md").status_code == 404, "the note that is gone is forgotten")
    assert SECRET not in program.get("/search", params={"q": "recipe bread flour yeast", "k": 200}).text


def test_a_rule_file_outside_the_vault_is_not_read(user, program):
    outside = user.root.parent / "outside"
    (outside / ".gitignore").write_text("ruled-*\n")
    for path in (f"{outside}/ruled-x.md", "../outside/ruled-x.md", f"/{outside}/ruled-x.md"):
        for answer in (
            program.get(f"/why/{quote(path, safe='')}"),
            program.get("/explain", params={"q": "a", "path": path}),
        ):
            assert answer.status_code == 400
            assert "gitignore" not in answer.text


# Characters and sizes


def test_nul_and_control_characters_are_the_clients_fault(program, routes):
    for method, path in routes:
        for code in ("00", "01", "0a", "1b", "7f"):
            answer = program.request(method, f"{path}%{code}")
            assert 400 <= answer.status_code < 500, path
        assert 400 <= program.request(method, path, params={"q": "a\0", "path": "a\0"}).status_code < 500


@pytest.mark.parametrize(
    "word",
    ["\0", "a\0b.md", "\ud83d", "\uffff", "\u202e", "x" * 5000, "../" * 500, "'\";--", "*", "AND", 'a"b*'],
)
def test_no_word_in_a_body_or_parameter_is_our_fault(program, word):
    bodies = {
        "/verify": {"quotes": [{"path": word, "quote": word, "text_hash": word}]},
        "/v1/rx": {"question": word, "domain": word},
        "/v1/rx/deep": {"id": word, "notes": word, "citations": [{"path": word, "quote": word}]},
    }
    for path, body in bodies.items():
        answer = program.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert answer.status_code < 500, (path, answer.text[:300])
    if "\ud83d" in word:
        return  # an address is UTF-8
    for path in ("/search", "/explain", "/deep", "/titles", "/links", "/graph", "/communities", "/proposals"):
        params = {
            "q": word,
            "path": word,
            "domain": word,
            "tag": word,
            "folder": word,
            "since": word,
            "has": word,
        }
        assert program.get(path, params=params).status_code < 500, path


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"quotes":' * 50_000,
        "1" * 10_000,
        '{"quotes": [{"path": "a", "position": ' + "9" * 5_000 + "}]}",
        '{"quotes": [{"path": "a", "position": 99999999999999999999999}]}',
        '{"quotes": NaN}',
        '{"quotes": [{"path": "a", "position": 1e999}]}',
        "\ufeff{}",
        "{",
        "null",
        '"' + "a" * 900_000 + '"',
    ],
    ids=lambda body: body[:20],
)
def test_a_strange_body_is_the_clients_fault(program, body):
    for path in ("/verify", "/v1/rx", "/v1/rx/deep", "/proposals/decide"):
        answer = program.post(path, content=body.encode(), headers={"Content-Type": "application/json"})
        assert answer.status_code < 500, answer.text[:300]
    assert (
        program.post("/verify", content=b"\xff\xfe", headers={"Content-Type": "application/json"}).status_code
        < 500
    )


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30, -1, 0, 2**31])
def test_no_number_is_our_fault(program, number):
    for path in ("/graph", "/search", "/links", "/changes", "/proposals", "/v1/rx", "/titles"):
        params = {"q": "a", "community": number, "limit": number, "k": number, "since": number}
        for name, value in params.items():
            answer = program.get(path, params={"q": "a", name: value}, headers={"Accept": "application/json"})
            assert answer.status_code < 500, (path, name)
    assert program.post("/changes/undo", params={"id": number}).status_code in (404, 422)
    for name in ("accept", "reject"):
        assert program.post("/proposals/decide", json={name: [number]}).status_code < 500
    cited = {"quotes": [{"path": "Garden.md", "quote": "soil", "position": number}]}
    assert program.post("/verify", json=cited).status_code < 500


def test_whatever_is_over_long_is_refused(user, token, program):
    assert program.get("/search", params={"q": "a" * 4001}).status_code == 422
    assert program.get("/search", params={"q": "a b " * 1000}).status_code == 200
    assert program.get("/search", params={"q": "a", "k": 201}).status_code == 422
    assert program.get("/search", params={"q": "a", "k": "9" * 5000}).status_code == 422
    assert program.get("/traverse/Garden.md", params={"depth": 5}).status_code == 422
    for path in ("a/" * 10_000 + "b.md", "a" * 10_000 + ".md", "a" * 300 + "/b.md", "a/" * 2000 + "b.md"):
        for route in ("node", "notes", "why", "traverse", "similar"):
            answer = program.get(f"/{route}/{path}")
            assert answer.status_code in (404, 414) or (route == "why" and answer.status_code == 200), path
    assert (
        program.post(
            "/verify", content=b"a" * 1_000_001, headers={"Content-Type": "application/json"}
        ).status_code
        == 413
    )
    assert program.get("/search?" + "&".join(f"p{n}=1" for n in range(1001))).status_code == 400
    for header in ("X-Long: " + "a" * 70_000, "Cookie: everindex=" + "a" * 70_000, "X: y\r\n" * 500 + "X: y"):
        assert status(get(user, token, "/search?q=a", header)) in (200, 400, 431)
    assert program.get("/health").json()["status"] == "ok"


def test_parameters_that_are_repeated_or_unknown_do_no_harm(program):
    assert program.get("/search?q=a&q=b&k=1&k=2").status_code == 200
    assert program.get("/node/Garden.md?x=1&x=2&__proto__=1").status_code == 200
    assert program.get("/search?q=a&colour=red").status_code == 422


@pytest.mark.parametrize(
    "path", ["/?q={}", "/search?q={}", "/titles?q={}", "/notes/{}", "/open/{}", "/open/x?to={}", "/node/{}"]
)
@pytest.mark.parametrize("breaks", ["%0d%0a", "%0a", "%0d", "%E5%98%8A%E5%98%8D", "%0d%0a%0d%0a"])
def test_a_line_break_makes_no_header(program, path, breaks):
    answer = program.get(path.format(f"x{breaks}Set-Cookie:%20a=b{breaks}X-Evil:%201"))
    assert answer.status_code < 500
    assert "x-evil" not in answer.headers
    assert "set-cookie" not in answer.headers


# Scripts in notes


class Inline(HTMLParser):
    """Collects what would run or style of itself: inline scripts, handlers, styles and script addresses."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        names = {name: value or "" for name, value in attrs}
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(tag)
        self.found += [name for name in names if name == "style" or name.startswith("on")]
        self.found += [value for value in names.values() if value.lower().startswith("javascript:")]


def pages_of(program):
    for path in (
        "/",
        "/?q=garden",
        f"/?q={SCRIPT}",
        "/?q=%22%3E%3Cimg%20onerror=1%3E",
        "/notes/Evil.md",
        "/graph",
    ):
        yield path, program.get(path, headers={"Accept": "text/html"})


def test_a_script_in_a_note_or_a_question_is_text_on_every_page(program):
    shown = 0
    for path, page in pages_of(program):
        assert page.status_code == 200, path
        assert "text/html" in page.headers["content-type"]
        assert SCRIPT not in page.text, path
        assert "<img src=x" not in page.text, path
        assert Inline(page.text).found == [], path
        shown += "&lt;script&gt;" in page.text
    assert shown >= 3


def test_no_page_allows_a_script_or_style_of_its_own_or_a_frame_around_it(program):
    for path, page in pages_of(program):
        policy = dict(
            part.strip().partition(" ")[::2] for part in page.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'", path
        assert policy["frame-ancestors"] == "'none'", path
        assert policy.get("script-src", "'self'") == "'self'", path
        assert policy["style-src"] == "'self'", path
        assert page.headers["x-content-type-options"] == "nosniff"


def test_the_graph_gets_a_title_with_a_script_as_data_and_writes_it_as_text(program):
    answer = program.get("/graph", headers={"Accept": "application/json"})
    assert "application/json" in answer.headers["content-type"]
    assert any(SCRIPT in node["title"] for node in answer.json()["nodes"])
    for script in (Path(service.web.__file__).parent / "static").glob("graph*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script.read_text()
        )


def test_a_script_in_an_error_is_text(program):
    for path in (
        f"/notes/{SCRIPT}.md",
        f"/node/{SCRIPT}",
        f"/v1/rx/{SCRIPT}",
        f"/{SCRIPT}",
        f"/search?q=a&domain={SCRIPT}",
    ):
        assert program.get(path).headers["content-type"] == "application/problem+json"
        answer = program.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 404
        assert "text/html" in answer.headers["content-type"]
        assert SCRIPT not in answer.text
        assert Inline(answer.text).found == []
    assert "text/html" not in program.get(f"/open/{SCRIPT}").headers["content-type"]


# The token and other secrets


def test_guessing_gains_nothing(user, token, cookie):
    with httpx.Client(base_url=f"http://127.0.0.1:{user.port}") as guesser:
        guesses = [
            token[:-1],
            token + "a",
            token.upper(),
            token[::-1],
            cookie[1],
            "null",
            *(token[:n] for n in range(1, 40)),
        ]
        for guess in guesses:
            assert guesser.get("/search?q=a", headers={"Authorization": f"Bearer {guess}"}).status_code == 401
            assert (
                guesser.get("/search?q=a", headers={"Cookie": f"{cookie[0]}={guess[:-1]}"}).status_code == 401
            )
            assert guesser.get(f"/open/{guess[:30] or 'x'}").status_code == 401
            assert guesser.get("/search", params={"q": "a", "token": token}).status_code == 401


def test_a_browsers_link_works_once_and_its_cookie_stays_with_the_browser(user, program):
    code = program.post("/session").json()["code"]
    first = httpx.get(f"http://127.0.0.1:{user.port}/open/{code}")
    assert first.status_code == 200
    attributes = first.headers["set-cookie"].lower()
    assert "httponly" in attributes
    assert "samesite=strict" in attributes
    assert httpx.get(f"http://127.0.0.1:{user.port}/open/{code}").status_code == 401
    for target in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        again = program.post("/session").json()["code"]
        answer = httpx.get(f"http://127.0.0.1:{user.port}/open/{again}", params={"to": target})
        assert "location" not in answer.headers
        assert 'content="0; url=/"' in answer.text
        assert "evil" not in answer.text


def test_no_secret_is_in_an_answer_a_log_a_process_list_or_the_configuration(
    user, token, cookie, program, routes
):
    said = "".join(program.request(method, path).text for method, path in routes if method == "GET")
    said += program.get("/boom", headers={"Cookie": "=".join(cookie)}).text
    logs = "".join(log.read_text() for log in (user.state / "logs").glob("*"))
    family = psutil.Process(user.processes[0].pid)
    listed = "".join(" ".join(one.cmdline()) for one in [family, *family.children(recursive=True)])
    user.environment["REDIS_URL"] = "redis://:hunter2hunter2@127.0.0.1:1/0"
    try:
        configured = user.run("config", *user.place) + user.run("config", "--json", *user.place)
    finally:
        del user.environment["REDIS_URL"]
    for place, text in {"answers": said, "logs": logs, "processes": listed, "config": configured}.items():
        for secret in (token, cookie[1], API_KEY, "hunter2hunter2"):
            assert secret not in text, place
    assert configured.count("not set") < configured.count("set")


def test_only_the_owner_may_read_the_state(user):
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (user.state, *user.state.rglob("*"))}
    assert {path.name for path in modes} >= {"token", "queue.key", "service.json", "state.db", "logs"}
    for path, mode in modes.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_it_listens_on_the_loopback_interface_alone(user):
    family = psutil.Process(user.processes[0].pid)
    listening = [
        connection.laddr.ip
        for process in [family, *family.children(recursive=True)]
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert set(listening) == {"127.0.0.1"}


@pytest.mark.parametrize("host", ["example.org", "", "127.0.0.1:80", "256.0.0.1"])
def test_another_address_must_be_an_address(user, host):
    assert "IP address" in user.run("serve", "--host", host, *user.place, code=2)


def test_no_command_but_serve_and_no_setting_takes_another_address(user):
    for command in ("up", "watch", "work"):
        user.run(command, "--host", "0.0.0.0", *user.place, code=2)  # noqa: S104 - what is refused
    assert not [name for name in Settings.model_fields if "host" in name or "address" in name]


def test_on_another_address_only_the_names_that_were_allowed_are_served(user, tmp_path):
    port = free_port()
    place = ["--vault", str(user.root), "--state", str(tmp_path / "state"), "--port", str(port)]
    name = f"notes.example:{port}"
    process = user.start("serve", "--host", "0.0.0.0", "--allow-host", name, *place)  # noqa: S104

    def status_of(host):
        try:
            return httpx.get(
                f"http://127.0.0.1:{port}/health", headers={"Host": host}, timeout=20
            ).status_code
        except httpx.HTTPError:
            return None

    try:
        assert wait_for(lambda: status_of(f"127.0.0.1:{port}"), "it serves") == 200
        assert status_of(name) == 200
        assert status_of("notes.example") == 403
        assert status_of(f"0.0.0.0:{port}") == 403
        assert (
            httpx.get(f"http://127.0.0.1:{port}/ready", headers={"Host": name}, timeout=20).status_code == 401
        )
    finally:
        process.terminate()
        process.communicate(timeout=30)
        user.processes.remove(process)
