"""Logs are set up once per process, so each case is a process of its own."""

import json
import os
import pty
import subprocess
import sys

import pytest

from queue_config.logs import redact

START = """
import logging, structlog
from queue_config.logs import configure
configure("worker")
log = structlog.get_logger()
"""


def stderr_of(code):
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, check=True)
    assert done.stdout == b""
    return done.stderr.decode()


def lines_of(code):
    *lines, rest = stderr_of(code).split("\n")
    assert rest == ""
    return [json.loads(line) for line in lines]


def test_a_line_is_one_json_object_with_time_level_and_process():
    (line,) = lines_of("log.info('note indexed', path='a.md', chunks=3)")
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "note indexed",
        "path": "a.md",
        "chunks": 3,
        "level": "info",
        "process": "worker",
    }


def test_text_with_newlines_quotes_and_other_scripts_stays_on_one_line():
    (line,) = lines_of(r"log.info('a\nb\r\n\u2028\"', path='日记/🌱 \'x\'.md')")
    assert (line["event"], line["path"]) == ('a\nb\r\n\u2028"', "日记/🌱 'x'.md")


def test_a_name_that_is_not_unicode_can_be_logged():
    (line,) = lines_of(r"log.info('parked', path='a\udcff.md')")
    assert line["path"] == "a\udcff.md"


def test_what_json_does_not_know_is_written_as_text():
    (line,) = lines_of("from pathlib import Path; log.info('x', path=Path('a.md'), some={1})")
    assert "a.md" in line["path"]


def test_an_exception_is_in_the_line_of_its_message():
    (line,) = lines_of("try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('job failed')")
    assert "ZeroDivisionError" in line["exception"]


def test_libraries_log_through_the_same_lines():
    found = lines_of(
        "logging.getLogger('uvicorn.error').warning('port %s', 1, extra={'token': 'abc'})\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.getLogger('other').exception('failed')"
    )
    assert [(line["event"], line["level"], line["process"]) for line in found] == [
        ("port 1", "warning", "worker"),
        ("failed", "error", "worker"),
    ]
    assert found[0]["token"] == "***"  # noqa: S105 - the redacted form
    assert "ZeroDivisionError" in found[1]["exception"]


def test_debug_lines_and_a_line_a_request_are_left_out():
    assert (
        lines_of(
            "log.debug('x'); logging.getLogger('huey.consumer').info('x'); "
            "logging.getLogger('httpx').info('x'); logging.getLogger('uvicorn.access').info('x')"
        )
        == []
    )


def test_configuring_twice_does_not_write_twice():
    assert len(lines_of("configure('worker'); log.info('x'); logging.getLogger('y').info('y')")) == 2


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "api_key",
        "authorization",
        "cookie",
        "password",
        "redis_url",
        "secret",
        "Authorization",
        "TOKEN",
    ],
)
def test_the_value_of_a_key_that_names_a_secret_is_redacted(key):
    event = {"event": "x", key: "hunter2", "path": "a.md"}
    assert redact(None, "info", event) == {"event": "x", key: "***", "path": "a.md"}


def test_a_secret_bound_to_the_context_or_the_logger_is_redacted():
    text = stderr_of(
        "structlog.contextvars.bind_contextvars(cookie='hunter2')\n"
        "log.bind(password='hunter2').info('x', Authorization='Bearer hunter2', redis_url='redis://:hunter2@h')"
    )
    assert "hunter2" not in text
    line = json.loads(text)
    assert [line[key] for key in ("cookie", "password", "Authorization", "redis_url")] == ["***"] * 4


def test_a_secret_inside_a_logged_mapping_is_redacted():
    event = {"event": "x", "headers": {"Authorization": "Bearer hunter2"}}
    assert "hunter2" not in str(redact(None, "info", event))


def test_a_trouble_is_logged_when_it_begins_and_when_it_ends_however_often_it_occurs():
    text = stderr_of(
        "from queue_config.logs import Trouble\n"
        "trouble = Trouble('the disk is full', folder='state')\n"
        "for _ in range(2):\n"
        "    trouble.over()\n"
        "    for number in range(100):\n"
        "        trouble.met(f'reason {number}')\n"
        "    trouble.over()"
    )
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["event"], line.get("reason", line.get("trouble"))) for line in lines] == [
        ("the disk is full", "reason 0"),
        ("this is over", "the disk is full"),
    ] * 2
    assert {line["folder"] for line in lines} == {"state"}


def test_a_terminal_gets_columns_instead_of_json():
    mine, theirs = pty.openpty()
    code = START + "log.info('note indexed', path='a.md', token='hunter2')"
    try:
        subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
        text = os.read(mine, 65_536).decode()
    finally:
        os.close(theirs)
        os.close(mine)
    assert "note indexed" in text
    assert not text.lstrip().startswith("{")
    assert "hunter2" not in text


def test_what_a_terminal_obeys_is_made_visible_in_a_log():
    mine, theirs = pty.openpty()
    odd = "a\\x1b]0;x\\x07\\x9b2J\\u202eb"
    code = (
        START
        + f"log.info('{odd}', path='{odd}', notes=['{odd}']); raise_ = logging.getLogger('x').warning('{odd}')"
    )
    try:
        subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
        text = os.read(mine, 65_536).decode()
    finally:
        os.close(theirs)
        os.close(mine)
    assert text.count("\\x1b]0;x\\x07\\x9b2J\\u202e") == 4
    assert not set("\x07\x9b\u202e") & set(text)
    (line,) = lines_of(f"log.info('x', path='{odd}')")
    assert line["path"] == "a\x1b]0;x\x07\x9b2J\u202eb"
    assert not set("\x07\x9b\u202e") & set(stderr_of(f"log.info('x', path='{odd}')"))


def test_configuring_is_left_to_the_process():
    """Importing the package must not change the program's logging."""
    code = "import queue_config.logs, structlog; print(structlog.is_configured())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_a_program_that_uses_the_library_has_our_lines_in_its_own_logs_without_secrets():
    code = (
        "import queue_config.logs as l, structlog; l.hand_over(); log = structlog.get_logger()\n"
        "log.info('not shown by default'); log.warning('odd', token='hunter2', path='a\\x1b.md')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == "event='odd' token='***' path='a\\\\x1b.md'\n"


def test_a_program_that_has_set_up_its_logs_keeps_them():
    code = (
        "import queue_config.logs as l, structlog; structlog.configure(processors=[lambda *_: 'mine'])\n"
        "l.hand_over(); structlog.get_logger().warning('odd')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "mine\n"
