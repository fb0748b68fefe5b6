"""Files of the vault in a browser: pictures and PDF are shown, nothing of a file runs, and no other file is sent."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from urllib.parse import quote

import psutil
import pytest
from starlette.testclient import TestClient

from queue_config.settings import Settings
from service.app import create_app
from service.usecases import notes
from service.usecases.maintenance import index_once
from tests.browser.serving import cookie_of
from tests.service.web.test_ops_pages import BROWSER, PORT, signed_in
from workers.resources import Resources

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
PDF = b"%PDF-1.7\n" + b"x" * 5_000
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
HTML = b"<!doctype html><script>alert(3)</script>"
SECRET = b"outside-the-vault"
FILES = {
    "Note.md": b"# Note\n\n![[p.png]]\n", "p.png": PNG, "a/P Q#?.JPG": b"\xff\xd8\xff\xe0", "d.pdf": PDF, "s.svg": SVG,
    "page.html": HTML, "page.png": HTML, "page.pdf": HTML, "w.docx": b"PK\3\4", "clip.mp4": b"x", "none": b"x", "empty.png": b"",
    ".hidden.png": PNG, ".git/p.png": PNG, "ignored/p.png": PNG, ".everindexignore": b"/ignored/\n", "n\xc3\xa4me.png": PNG,
}  # fmt: skip


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    for name, data in FILES.items():
        path = vault / (name.decode() if isinstance(name, bytes) else name.encode("latin-1").decode())
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.png").write_bytes(PNG + SECRET)
    (vault / "link.png").symlink_to(tmp_path / "outside/secret.png")
    (vault / "folder").symlink_to(tmp_path / "outside")
    chosen = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(chosen), lambda *_: None)
    return chosen


@pytest.fixture
def browser(settings):
    return signed_in(settings)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("p.png", "image/png"), ("a/P Q#?.JPG", "image/jpeg"), ("s.svg", "image/svg+xml"), ("d.pdf", "application/pdf")],
)  # fmt: skip
def test_pictures_and_pdf_are_shown_and_run_nothing(browser, name, kind):
    answer = browser.get(f"/files/{quote(name)}")
    assert answer.status_code == 200
    assert answer.content == FILES[name]
    assert answer.headers["content-type"] == kind
    assert answer.headers["content-disposition"].startswith("inline; filename*=UTF-8''")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "script" not in policy
    assert ("sandbox" in policy) == (name != "d.pdf")


@pytest.mark.parametrize(
    "name", ["page.html", "page.png", "page.pdf", "w.docx", "clip.mp4", "none", "empty.png"]
)
def test_what_a_browser_could_run_or_what_is_not_what_its_name_says_is_saved(browser, name):
    answer = browser.get(f"/files/{name}")
    assert answer.content == FILES[name]
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        *("link.png", "folder/secret.png", ".hidden.png", ".git/p.png", "ignored/p.png", ".everindexignore"),
        *("", "a", "nothing.png", "a/./P Q.JPG", "p.png/", "../outside/secret.png", "%2e%2e/outside/secret.png"),
        *("..%2foutside%2fsecret.png", "/etc/passwd", "%2fetc%2fpasswd", "a//b", "p.png%00.md", "p%0a.png"),
        *(".everindex/id", "p.png%20", "\\x2e\\x2e/outside/secret.png", "a/..%5coutside", "x" * 300, "a/" * 900),
    ],
)  # fmt: skip
def test_no_other_file_is_sent(browser, path):
    answer = browser.get(f"/files/{path}")
    assert answer.status_code in (400, 404, 414)
    assert SECRET not in answer.content


def test_special_files_are_not_opened(browser, settings):
    os.mkfifo(settings.vault / "pipe.png")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(settings.vault):
        listener.bind("s.png")
    for name in ("pipe.png", "s.png"):
        assert browser.get(f"/files/{name}").status_code == 404


def test_a_file_is_sent_to_the_owner_alone(browser, settings):
    app = create_app(settings, PORT)
    stranger = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
    assert stranger.get("/files/p.png", headers=BROWSER).status_code == 401
    for site in ("cross-site", "same-site"):
        answer = browser.get("/files/p.png", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "image"})
        assert answer.status_code == 403
    assert browser.get("/files/p.png", headers={"Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [("bytes=0-", 0, 5_009), ("bytes=5-9", 5, 10), ("bytes=5000-9999", 5_000, 5_009), ("bytes=9999-", None, None),
     ("bytes=-5", None, None), ("bytes=0-1,3-4", None, None), ("lines=1-2", None, None), ("bytes=9-3", 9, 5_009)],
)  # fmt: skip
def test_a_part_of_a_pdf_is_sent_when_one_is_asked_for(browser, asked, first, end):
    answer = browser.get("/files/d.pdf", headers={"Range": asked})
    is_part = first not in (None, 0)
    assert answer.status_code == (206 if is_part else 200)
    assert answer.content == (PDF[first:end] if is_part else PDF)
    assert answer.headers.get("content-range") == (f"bytes {first}-{end - 1}/5009" if is_part else None)


def test_a_name_of_another_unicode_form_and_a_note_itself_are_found(browser, settings):
    assert browser.get("/files/Note.md").content == FILES["Note.md"]
    (settings.vault / "Mu\u0308sli.png").write_bytes(PNG)
    assert browser.get("/files/M%C3%BCsli.png").content == PNG


def test_a_file_that_is_too_large_is_refused_and_names_the_folder(browser, monkeypatch):
    monkeypatch.setattr(notes, "LARGEST_SERVED", 4_000)
    answer = browser.get("/files/d.pdf", headers={"Accept": "application/json"})
    assert answer.status_code == 413
    assert "from their folder" in answer.json()["detail"]


def test_no_descriptor_is_left_when_the_client_leaves(settings):
    app = create_app(settings, PORT)

    async def leave() -> None:
        """Ask, and be gone before the first bytes come."""
        scope = {
            "type": "http", "method": "GET", "path": "/files/d.pdf", "query_string": b"", "client": None, "state": {},
            "headers": [(b"host", b"127.0.0.1:8741"), (b"cookie", "=".join(cookie_of(settings, PORT)).encode())],
            "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", PORT), "root_path": "",
        }  # fmt: skip

        told = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive():
            return next(told, {"type": "http.disconnect"})

        async def send(message):
            assert message.get("status", 200) == 200
            assert opened()
            raise OSError

        with contextlib.suppress(RuntimeError):
            await app(scope, receive, send)

    def opened():
        return [one.path for one in psutil.Process().open_files() if one.path.endswith("d.pdf")]

    for _ in range(5):
        asyncio.run(leave())
    gc.collect()
    assert opened() == []
