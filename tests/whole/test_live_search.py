"""`everindex search` without words, as a user at a terminal meets it, with the real service."""

from __future__ import annotations

import json
import sys

import pytest

from tests.terminal import Terminal

COMMAND = (sys.executable, "-m", "service.cli", "search")


@pytest.fixture
def at_terminal(user, tmp_path):
    """Start the command on a terminal; the editor writes down its arguments."""
    editor = tmp_path / "editor"
    editor.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(tmp_path / 'opened')!r}, 'w').write(json.dumps(sys.argv))\n"
    )
    editor.chmod(0o755)
    started = []

    def start(*words):
        environment = user.environment | {"EDITOR": str(editor), "VISUAL": ""}
        started.append(Terminal([*COMMAND, *words, *user.place], environment))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


def test_hits_appear_while_typing_and_enter_opens_the_selected_one(user, at_terminal, tmp_path):
    (user.root / "Garden soil.md").write_text("# Garden soil\n\nclay and sand \x1b[2J\n")
    (user.root / "Soil.md").write_text("# Soil\n\nclay\n")
    user.up()
    terminal = at_terminal("--all", "-k", "5")
    terminal.until("Search: ")
    terminal.press("soi")
    terminal.press("l")
    terminal.until("▸ Soil")
    terminal.until("2 notes in")
    terminal.press("\x1b[B")
    terminal.until("▸ Garden soil")
    terminal.press("\r")
    assert terminal.ended() == 0, terminal.said
    assert terminal.is_restored
    assert "\x1b[2J" not in terminal.raw
    assert json.loads((tmp_path / "opened").read_text())[1:] == ["+1", str(user.root / "Garden soil.md")]
    assert "Garden soil.md:1" in terminal.said


def test_a_refusal_of_the_service_is_shown_and_typing_goes_on(user, at_terminal):
    (user.root / "Soil.md").write_text("# Soil\n\nclay\n")
    user.up()
    terminal = at_terminal("--domain", "nope")
    terminal.until("Search: ")
    terminal.press("soil")
    terminal.until("there is no domain 'nope'")
    terminal.press("\x03")
    assert terminal.ended() == 130
    assert terminal.is_restored


def test_without_a_service_a_sentence_says_how_to_start_one(user, at_terminal):
    user.run("index", *user.place)
    terminal = at_terminal()
    assert terminal.ended() == 1
    assert "is not running on this vault; start it with" in terminal.said
    assert "Traceback" not in terminal.said
    assert terminal.is_restored


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_without_a_terminal_words_are_asked_for(user, words):
    assert "give words" in user.run("search", *words, code=2)
