"""What a page opens: a window of the user's, never a program that needs a terminal, and nothing without a screen."""

from __future__ import annotations

import sys

import pytest

from pipelines.errors import ConfigurationError, UnsafePathError
from service.runtime.programs import open_in_window, show_in_folder, shows_folders, window_program
from tests.programs import put_programs

ODD = "-x & path=b %20 #1 $(touch y) 'ü.md"
OPENER = "open" if sys.platform == "darwin" else "xdg-open"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Real programs in place of editors and of the system's opener, which write down how they were called."""
    calls = put_programs(tmp_path / "bin", (OPENER, "code", "vim", "emacs", "gedit"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("DISPLAY", ":9")
    for name in ("VISUAL", "EDITOR", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return lambda: calls()[-1]


@pytest.mark.parametrize(
    ("visual", "used", "arguments"),
    [
        ("code --wait", "code", ["--wait", "--goto", "{}:7"]),
        ("gedit", "gedit", ["+7", "{}"]),
        ("emacs", "emacs", ["+7", "{}"]),
        *((name, OPENER, ["uri"]) for name in ("", "vim", "emacs -nw", "missing", "'open quote")),
    ],
)
def test_a_note_opens_in_the_editor_that_has_a_window_else_in_the_system_s_program(
    vault, opened, monkeypatch, visual, used, arguments
):
    (vault / ODD).write_text("clay")
    monkeypatch.setenv("VISUAL", visual)
    monkeypatch.setenv("EDITOR", "")
    assert window_program(ODD) == used
    open_in_window(vault, ODD, 7)
    file = vault / ODD
    assert opened() == [
        used,
        *([file.as_uri()] if arguments == ["uri"] else [one.format(file) for one in arguments]),
    ]


def test_a_document_that_is_not_text_opens_in_the_system_s_program_and_nothing_that_it_might_run(
    vault, opened, monkeypatch
):
    for name in ("a.pdf", "a.html", "a.py"):
        (vault / name).write_text("x")
    monkeypatch.setenv("EDITOR", "gedit")
    assert [window_program(name) for name in ("a.pdf", "a.html", "a.py")] == [OPENER, "gedit", "gedit"]
    monkeypatch.delenv("EDITOR")
    for name in ("a.html", "a.py"):
        assert window_program(name) is None
        with pytest.raises(ConfigurationError, match="open it from its folder"):
            open_in_window(vault, name, 1)
    with pytest.raises(FileNotFoundError):
        opened()


def test_a_file_is_shown_in_its_folder(vault, opened):
    (vault / "a b").mkdir()
    (vault / "a b" / ODD).write_text("clay")
    assert shows_folders()
    show_in_folder(vault, f"a b/{ODD}")
    shown = ["-R", str(vault / "a b" / ODD)] if sys.platform == "darwin" else [(vault / "a b").as_uri()]
    assert opened() == [OPENER, *shown]


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS always has a screen")
def test_without_a_screen_nothing_opens(vault, opened, monkeypatch):
    (vault / "a.md").write_text("clay")
    monkeypatch.setenv("EDITOR", "code")
    monkeypatch.delenv("DISPLAY")
    assert window_program("a.md") is None
    assert not shows_folders()
    for act in (lambda: open_in_window(vault, "a.md", 1), lambda: show_in_folder(vault, "a.md")):
        with pytest.raises(ConfigurationError):
            act()
    with pytest.raises(FileNotFoundError):
        opened()


@pytest.mark.parametrize("path", ["link.md", "../outside.md", "folder"])
def test_what_is_no_file_of_the_vault_is_not_opened(vault, tmp_path, opened, path):
    (tmp_path / "outside.md").write_text("mine")
    (vault / "link.md").symlink_to(tmp_path / "outside.md")
    (vault / "folder").mkdir()
    for act in (lambda: open_in_window(vault, path, 1), lambda: show_in_folder(vault, path)):
        with pytest.raises(UnsafePathError):
            act()
    with pytest.raises(FileNotFoundError):
        opened()
