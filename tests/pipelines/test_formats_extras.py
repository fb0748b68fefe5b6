"""The command that adds an extra works in the environment, and from the place, that Everindex was installed in."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from pipelines import formats

FOLDER = "file:///home/ana/my%20notes/everindex"
WHEEL = "file:///tmp/everindex-0.2.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("recorded", "what"),
    [
        ({}, ["everindex[ocr]"]),
        ({"url": FOLDER, "dir_info": {}}, [f"everindex[ocr] @ {FOLDER}"]),
        ({"url": WHEEL, "archive_info": {}}, [f"everindex[ocr] @ {WHEEL}"]),
        (
            {"url": FOLDER, "dir_info": {"editable": True}},
            ["--editable", "/home/ana/my notes/everindex[ocr]"],
        ),
    ],
)
def test_an_extra_comes_from_where_everindex_came_from(recorded, what):
    command = formats.install_command("ocr", json.dumps(recorded))
    assert shlex.split(command) == [sys.executable, "-m", "pip", "install", *what]


def test_an_environment_without_pip_is_one_of_uv(monkeypatch):
    monkeypatch.setattr(formats, "find_spec", lambda _package: None)
    assert shlex.split(formats.install_command("ocr", "{}")) == [
        "uv",
        "tool",
        "install",
        "--force",
        "everindex[ocr]",
    ]
