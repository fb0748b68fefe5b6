"""A browser keeps style sheets and scripts for as long as their bytes stay the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from service.http import errors
from service.http.errors import Static, static_address

FILES = Path(errors.__file__).parents[1] / "web" / "static"


@pytest.fixture
def client():
    application = Starlette()
    application.mount("/static", Static())
    return TestClient(application)


@pytest.mark.parametrize("name", ["style.css", "search.js", "vendor/sigma.min.js"])
def test_a_file_that_is_asked_for_by_its_digest_may_be_kept(client, name):
    response = client.get(static_address(name))
    assert response.content == (FILES / name).read_bytes()
    assert response.headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize("asked", ["", "?v=", "?v=0123456789ab", "?v=%ff", "?v=1&v=2"])
def test_a_file_without_its_present_digest_may_not_be_kept(client, asked):
    response = client.get(f"/static/style.css{asked}")
    assert response.status_code == 200
    assert "cache-control" not in response.headers


def test_a_changed_file_has_another_address(tmp_path, monkeypatch):
    shutil.copytree(FILES, tmp_path / "static")
    monkeypatch.setattr(errors, "FILES", tmp_path / "static")
    before = static_address("style.css")
    assert static_address("style.css") == before
    (tmp_path / "static" / "style.css").write_text("body {}")
    assert static_address("style.css") != before
    shutil.copy(FILES / "style.css", tmp_path / "static")
    os.utime(tmp_path / "static" / "style.css", (0, 0))
    assert static_address("style.css") == before


@pytest.mark.parametrize("path", ["nothing.css", "..%2f..%2fapp.py", "vendor", ""])
def test_nothing_else_is_served(client, path):
    assert client.get(f"/static/{path}?v=0123456789ab").status_code == 404
