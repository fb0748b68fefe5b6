"""Search as you type, on a real terminal: what is shown, what a key does, and how the terminal is left."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from service.cli.live import Key, KeyDecoder
from tests.terminal import Terminal

HIT = {"section": "", "lines": [7, 9], "excerpt": "soil and clay", "marks": [[0, 4]]}
# `slow` is answered after the file `go` exists; `boom` raises what no service raises; `end` ends the program by a
# signal that the thread that asks receives.
PROGRAM = """
import json, pathlib, signal, sys, threading, time
from service.cli.live import choose_note
here, odd = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
def ask(question):
    (here / f"asked {question}").touch()
    while question == "slow" and not (here / "go").exists():
        time.sleep(0.01)
    if question == "boom":
        raise ZeroDivisionError
    if question == "end":
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        time.sleep(1_000)
    hits = [{"title": f"{question} {n}{odd}", "path": f"{n}.md", **json.loads(sys.argv[3])} for n in range(1, 31)]
    for n, hit in enumerate(hits, 1):
        hit["match"] = "weak" if n <= 20 else "none"
    index = dict.fromkeys(("pending", "vectors_pending", "waits", "model_problem"), None) | {"model_ready": True}
    return {"results": hits, "answers": 20, "count": 30, "took_ms": 1, "reason": "", "match": "", "index": index}
chosen = choose_note(ask, every=len(sys.argv) > 4)
print("chosen", chosen)
"""


@pytest.fixture
def live(tmp_path):
    """Start a search with answers of a function's, on a terminal of its own."""
    started = []

    def start(*more, odd="", before="", encoding="utf-8"):
        words = [sys.executable, "-c", before + PROGRAM, tmp_path, json.dumps(odd), json.dumps(HIT), *more]
        started.append(Terminal([*map(str, words)], os.environ | {"PYTHONIOENCODING": encoding}))
        started[-1].until("Search: ")
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


def test_arrows_select_and_enter_chooses(live):
    terminal = live()
    terminal.press("soil")
    terminal.until("▸ soil 1")
    terminal.press("\x1b[B\x1bOB\x1b[A\x1b[B")
    terminal.until("▸ soil 3")
    terminal.press("\r")
    assert terminal.ended() == 0
    assert "chosen ('3.md', 7)" in terminal.said
    assert terminal.is_restored


def test_the_selection_stays_in_the_answers_and_on_the_screen(live):
    terminal = live()
    terminal.press("soil")
    terminal.until("▸ soil 1")
    terminal.press("\x1b[B" * 25)
    terminal.until("▸ soil 20")
    assert "soil 21" not in terminal.said
    terminal.press("\x1b[A" * 25)
    terminal.press("\r")
    assert terminal.ended() == 0
    assert "chosen ('1.md', 7)" in terminal.said


def test_all_hits_are_shown_if_wanted(live):
    terminal = live("every")
    terminal.press("soil")
    terminal.until("▸ soil 1")
    terminal.press("\x1b[B" * 25)
    terminal.until("▸ soil 26")


def test_an_answer_to_what_was_typed_earlier_is_dropped(live, tmp_path):
    terminal = live()
    terminal.press("slow")
    terminal.until_file(tmp_path / "asked slow")
    terminal.press("er")
    terminal.until("Search: slower")
    (tmp_path / "go").touch()
    terminal.until("▸ slower 1")
    assert "slow 1" not in terminal.said


def test_a_question_to_which_the_user_returns_is_asked_again(live, tmp_path):
    terminal = live()
    terminal.press("slow")
    terminal.until_file(tmp_path / "asked slow")
    terminal.press("er")
    terminal.until("Search: slower")
    (tmp_path / "go").touch()
    terminal.press("\x7f\x7f")
    terminal.until("▸ slow 1")


def test_deleting_everything_empties_the_list(live):
    terminal = live()
    terminal.press("soil and")
    terminal.until("▸ soil and 1")
    terminal.press("\x17")
    terminal.until("▸ soil 1")
    terminal.press("\x15\r")
    terminal.until("Search: ▏")
    terminal.press("\x1b")
    assert terminal.ended() == 0
    assert "chosen None" in terminal.said


@pytest.mark.parametrize(("key", "code"), [("\x1b", 0), ("\x04", 0), ("\x03", -signal.SIGINT)])
def test_a_key_leaves_and_the_terminal_is_restored(live, key, code):
    terminal = live()
    assert not terminal.is_restored
    terminal.press(key)
    assert terminal.ended() == code
    assert terminal.is_restored


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_restored(live, number):
    terminal = live()
    terminal.send_signal(number)
    assert terminal.ended() == 128 + number
    assert terminal.is_restored


def test_a_signal_that_another_thread_receives_ends_it(live):
    terminal = live()
    terminal.press("end")
    assert terminal.ended() == 128 + signal.SIGTERM
    assert terminal.is_restored


# As a shell does: the program is a job in the foreground; when it stops, its shell gets the terminal back.
SHELL = """
import fcntl, os, pathlib, signal, subprocess, sys, termios, time
here = pathlib.Path(sys.argv[1])
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen(sys.argv[2:], process_group=0, restore_signals=True)
os.tcsetpgrp(0, job.pid)
(here / "job").write_text(str(job.pid))
while os.WIFSTOPPED(status := os.waitpid(job.pid, os.WUNTRACED)[1]):
    os.tcsetpgrp(0, os.getpgrp())
    (here / "stopped").touch()
    while not (here / "continue").exists():
        time.sleep(0.01)
    (here / "stopped").unlink()
    (here / "continue").unlink()
    os.tcsetpgrp(0, job.pid)
    os.killpg(job.pid, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("by", ["key", "signal"])
def test_it_is_suspended_with_the_terminal_restored_and_taken_up_again(tmp_path, by):
    job = [sys.executable, "-c", PROGRAM, tmp_path, json.dumps(""), json.dumps(HIT)]
    terminal = Terminal([sys.executable, "-c", SHELL, *map(str, [tmp_path, *job])])

    def suspend():
        if by == "key":
            terminal.press("\x1a")
        else:
            os.kill(int((tmp_path / "job").read_text()), signal.SIGTSTP)
        terminal.until_file(tmp_path / "stopped")

    try:
        terminal.until("Search: ")
        terminal.press("soil")
        terminal.until("▸ soil 1")
        for _ in range(2):
            suspend()
            assert terminal.is_restored
            (tmp_path / "continue").touch()
            terminal.until_taken()
        terminal.press("\x1b[B\r")
        assert terminal.ended() == 0
        assert "chosen ('2.md', 7)" in terminal.said
        assert terminal.is_restored
    finally:
        terminal.close()


def test_an_exception_ends_it_and_the_terminal_is_restored(live):
    terminal = live()
    terminal.press("boom")
    assert terminal.ended() == 1
    assert "ZeroDivisionError" in terminal.said
    assert terminal.is_restored


def test_the_terminal_is_restored_where_the_library_that_draws_fails_to(live):
    terminal = live(before="import rich.live\nrich.live.Live.stop = None\n")
    terminal.press("\x1b")
    assert terminal.ended() == 1
    assert "TypeError" in terminal.said
    assert terminal.is_restored


def test_characters_that_the_encoding_lacks_are_replaced(live):
    terminal = live(odd=" \u03a9", encoding="latin-1")
    terminal.press("soil")
    terminal.until("? soil 1 ?")
    terminal.press("\r")
    assert terminal.ended() == 0, terminal.said
    assert "chosen ('1.md', 7)" in terminal.said
    assert terminal.is_restored


def test_a_terminal_that_cannot_show_the_marks_is_refused():
    terminal = Terminal(
        [sys.executable, "-m", "service.cli", "search"], os.environ | {"PYTHONIOENCODING": "latin-1"}
    )
    try:
        assert terminal.ended() == 2
        assert "give words; `everindex list` takes filters alone" in terminal.said
        assert "\x1b[?1049h" not in terminal.raw
        assert terminal.is_restored
    finally:
        terminal.close()


def test_the_key_that_stops_a_terminals_output_does_not_stop_the_search(live):
    terminal = live()
    terminal.press("\x13")
    terminal.press("soil")
    terminal.until("▸ soil 1")
    terminal.send_signal(signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM
    assert terminal.is_restored


def test_nothing_that_a_note_is_called_is_obeyed_or_breaks_the_lines(live):
    terminal = live(odd="\x1b[2J\n\u202e" + "x" * 200)
    terminal.press("soil")
    terminal.until("▸ soil 1\\x1b[2J \\u202ex")
    assert "\u202e" not in terminal.raw
    assert "x" * 80 not in terminal.said


@pytest.mark.parametrize(
    ("parts", "keys"),
    [
        ([b"a\xc3", b"\xa4"], ["a", "ä"]),
        ([b"\x1b", b"[", b"A"], [Key.UP]),
        ([b"\x1b[1;5A", b"x"], ["x"]),
        ([b"\x1b"], []),
        ([b"\x1b\x1b"], [Key.ESCAPE]),
        ([b"\xff\x00\x01"], ["\ufffd"]),
        ([b"a\rb"], ["a", Key.ENTER, "b"]),
    ],
)
def test_bytes_are_keys_however_they_arrive(parts, keys):
    decoder = KeyDecoder()
    assert [key for part in parts for key in decoder.feed(part)] == keys


def test_an_escape_byte_alone_is_the_escape_key_once_nothing_follows():
    decoder = KeyDecoder()
    assert list(decoder.feed(b"\x1b")) == []
    assert decoder.waiting
    assert list(decoder.give_up()) == [Key.ESCAPE]
    assert not decoder.waiting
    assert list(decoder.feed(b"[")) == ["["]
