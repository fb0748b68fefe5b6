"""How a page is opened on a machine with a browser, without one, and with one that takes its time."""

from __future__ import annotations

import pytest

from service.cli.options import open_file
from service.runtime import programs

STRANGE_NAME = "a b%20?#ü.html"


@pytest.fixture
def opener(tmp_path, monkeypatch):
    """Put a program with a given script where commands look for the system's opener."""

    def put(script):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("xdg-open", "open"):
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return put


def test_the_browser_is_given_the_file_and_no_code(opener, tmp_path):
    opener(f'echo "$@" > {tmp_path}/given')
    assert open_file(tmp_path / STRANGE_NAME)
    assert (tmp_path / "given").read_text() == f"{(tmp_path / STRANGE_NAME).as_uri()}\n"


def test_a_machine_without_a_browser_says_so_in_our_words_alone(opener, tmp_path, capfd):
    opener("echo no method available; echo no browser found >&2; exit 3")
    assert not open_file(tmp_path / "x.html")
    assert capfd.readouterr() == ("", "")


def test_a_machine_without_an_opener_says_so(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not open_file(tmp_path / "x.html")
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # it is left running, on purpose
def test_a_browser_that_stays_is_not_waited_for(opener, tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "_PATIENCE_SECONDS", 0.1)
    # Its folder is gone after the tests, and with it the program ends, too.
    opener(f"while [ -e {tmp_path} ] && [ ! -e {tmp_path}/end ]; do sleep 0.05; done")
    assert open_file(tmp_path / "x.html")
    (tmp_path / "end").touch()


def test_a_browser_gets_no_part_of_the_terminal(opener, tmp_path, capfd):
    opener(f"cat > {tmp_path}/typed; echo out; echo err >&2")
    assert open_file(tmp_path / "x.html")
    assert (tmp_path / "typed").read_text() == ""
    assert capfd.readouterr() == ("", "")
