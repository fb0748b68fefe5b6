"""What `everindex up` prints for a user's other terminals."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from service.commands.services import this_command


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A program in a folder with a space, of which the user stands one above."""
    program = tmp_path / "my venv" / "everindex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["my venv/everindex", "up"])
    return program


def test_a_command_that_is_printed_works_in_any_folder(installed, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert [Path(word) for word in shlex.split(this_command())] == [installed]


def test_a_command_on_the_path_is_printed_by_its_name(installed, monkeypatch):
    monkeypatch.setenv("PATH", str(installed.parent))
    assert this_command() == "everindex"
