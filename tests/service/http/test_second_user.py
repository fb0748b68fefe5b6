"""A real second user on the machine: what he can read, hear, take and plant.

The commands of the vault's owner run as root here, and the stranger's as `nobody`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.runtime.client import read_token
from tests.whole.conftest import User, wait_for

NOBODY = 65_534
PYTHON = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()), None)
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
WORD = "zwetschgenkuchen"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or PYTHON is None or shutil.which("setpriv") is None,
    reason="only root can act as a second user, with setpriv and a Python that everybody may run",
)

LISTENER = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    connection.settimeout(5)
    try:
        print(repr(connection.recv(65536)), flush=True)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 64\\r\\n\\r\\n" + b"0" * 64)
        print(repr(connection.recv(65536)), flush=True)
    except OSError:
        pass
    connection.close()
"""
SNIFFER = """
import os, sys
print("watching", flush=True)
seen = set()
while not os.path.exists(sys.argv[1]):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ", "comm"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if text not in seen:
                seen.add(text)
                print(repr(text), flush=True)
    with open(sys.argv[2], "a") as file:
        file.write("x")
"""
READER = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                sys.stdout.buffer.write(file.read())
        except OSError:
            pass
"""


def run_as_nobody(code, *arguments):
    """Run code as the second user, and return its output."""
    return subprocess.run(
        [*AS_NOBODY, PYTHON, "-c", code, *map(str, arguments)], capture_output=True, check=False, timeout=60
    ).stdout


@contextmanager
def acting(code, *arguments):
    """Let the second user go on doing something; give the lines that he has printed once he is stopped."""
    process = subprocess.Popen(
        [*AS_NOBODY, PYTHON, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    said = []
    # Read all the time: who writes into a pipe that is full does nothing else.
    reader = threading.Thread(target=lambda: said.extend(map(str.rstrip, process.stdout)))
    reader.start()
    try:
        yield said
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


@contextmanager
def everybodys_folder():
    """Make a folder that everybody may enter, as /home or /tmp is."""
    folder = Path(tempfile.mkdtemp(prefix="everindex-second-user-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place():
    with everybodys_folder() as folder:
        yield folder


def owner(folder, model):
    """A user with a note that only she may read."""
    root = folder / "notes"
    root.mkdir(mode=0o700)
    (root / "Cake.md").write_text(f"# Cake\n\n{WORD} with cinnamon\n")
    return User(folder, root, EMBEDDING_MODEL=str(model))


@pytest.fixture
def user(place, tiny_model):
    user = owner(place, tiny_model)
    yield user
    user.stop()


@pytest.fixture(scope="module")
def served(tiny_model):
    """An owner whose service runs, started with a umask that denies other users nothing."""
    with everybodys_folder() as folder:
        user = owner(folder, tiny_model)
        before = os.umask(0)
        try:
            user.up()
        finally:
            os.umask(before)
        yield user
        user.stop()


# Reading


def test_he_reads_nothing_of_the_index_of_a_service(served):
    assert_closed(served)


@pytest.mark.parametrize("bits", [0o755, 0o777])
def test_he_reads_nothing_of_the_index_whatever_the_folder_was_before(user, bits):
    user.state.mkdir()
    user.state.chmod(bits)
    before = os.umask(0)
    try:
        user.run("index", *user.place)
    finally:
        os.umask(before)
    assert_closed(user)


def assert_closed(user):
    """Check that an index is there, and that the second user can read nothing of it."""
    for path in (user.state, *user.state.rglob("*")):
        assert not path.lstat().st_mode & 0o077, path
    assert WORD.encode() in b"".join(file.read_bytes() for file in user.state.glob("cache-*"))
    assert run_as_nobody(READER, user.state) == b""


def test_he_reads_nothing_that_an_earlier_version_left_open(user):
    user.run("index", *user.place)
    user.state.chmod(0o755)
    for file in user.state.glob("*.db"):
        file.chmod(0o644)
    assert WORD.encode() in run_as_nobody(READER, user.state)
    user.run("status", *user.place)
    assert run_as_nobody(READER, user.state) == b""


# Codes


def slow_browser(user, place, monkeypatch):
    """Give an owner a browser that records each address that it should open, and starts after all have looked at it.

    Return the file in which the second user counts how often he has looked at all processes.
    """
    folder = place / "bin"
    folder.mkdir()
    (place / "his").mkdir(mode=0o777)
    (place / "his").chmod(0o777)
    looks = place / "his" / "looks"
    opener = folder / "xdg-open"
    opener.write_text(
        f'#!/bin/sh\necho "$1" >> {place}/opened\ncat "${{1#file://}}" >> {place}/shown\n'
        f"looks() {{ cat {looks} 2>/dev/null | wc -c; }}\n"
        "after=$(($(looks) + 2))\nwhile [ $(looks) -lt $after ]; do sleep .1; done\n"
        f"touch {place}/started\n"
    )
    opener.chmod(0o755)
    monkeypatch.setitem(user.environment, "PATH", f"{folder}:{user.environment['PATH']}")
    return looks


@pytest.mark.parametrize("command", [("open",), ("graph", "--open")])
def test_he_sees_no_code_in_any_list_of_processes_while_a_browser_starts(served, place, command, monkeypatch):
    looks = slow_browser(served, place, monkeypatch)
    with acting(SNIFFER, place / "stop", looks) as listed:
        printed = served.run(*command, *served.place)  # it does not wait for a browser that takes long
        wait_for((place / "started").exists, "the browser")
    codes = set(re.findall(r"/open/([\w-]{16,})", (place / "shown").read_text() + printed))
    assert len(codes) == 2
    opened = Path((place / "opened").read_text().strip().removeprefix("file://"))
    everything = "\n".join(listed)
    assert str(opened) in everything  # he looked while it was there
    for code in codes:
        assert code not in everything
        assert code not in str(opened)
    assert stat.S_IMODE(opened.stat().st_mode) == 0o600
    assert run_as_nobody("import sys; print(open(sys.argv[1]).read())", opened) == b""


def test_up_prints_no_code(user):
    process = user.up()
    said = ""
    while "everindex open" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGTERM)
    said += process.communicate(timeout=60)[0]
    user.processes.clear()
    assert "/open/" not in said


# The token


def test_he_hears_no_token_on_the_port_of_a_service_that_stopped_or_was_killed(user):
    user.up()
    token = (user.state / "token").read_text().strip()
    note = (user.state / "service.json").read_bytes()
    user.stop()
    assert not (user.state / "service.json").exists()
    (user.state / "service.json").write_bytes(note)  # as after a kill
    with acting(LISTENER, user.port) as heard:
        for command in (("search", "cake"), ("status",), ("titles", "cake"), ("why", "Cake.md")):
            user.run(*command, *user.place)
        for command in (("open",), ("reload",)):
            user.run(*command, *user.place, code=1)
    assert token not in "\n".join(heard)
    assert "Authorization" not in "\n".join(heard)


def test_he_hears_no_token_though_the_note_is_held_by_a_process_that_lives(user):
    import fcntl

    user.run("index", *user.place)
    user.run("search", "cake", *user.place)
    token = read_token(user.state)  # as a service that was here before left it
    note = user.state / "service.json"
    note.write_text(f'{{"port": {user.port}, "process": "here:{os.getpid()}/1.0"}}')
    with note.open("rb") as file, acting(LISTENER, user.port) as heard:
        fcntl.flock(file, fcntl.LOCK_EX)
        for command in (("search", "cake"), ("status",), ("open",), ("graph",)):
            said = user.run(*command, *user.place, code=1)
            assert "Traceback" not in said
            assert "is not the service of" in " ".join(said.split())
    assert "/proof/" in "\n".join(heard)
    assert token not in "\n".join(heard)
    assert "Authorization" not in "\n".join(heard)


# Planting


PLANT = """
import os, sys
folder, name, target = sys.argv[1:]
os.umask(0)
if name == "link":
    os.symlink(target, folder)
elif not os.path.isdir(folder):
    os.mkdir(folder, 0o777)
if name not in ("link", "nothing"):
    with open(os.path.join(folder, name), "w") as file:
        file.write("0" * 64)
    os.chmod(os.path.join(folder, name), int(target, 8))
"""


@pytest.fixture
def shared(place):
    """A folder where everybody may make another, as in /tmp."""
    folder = place / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.parametrize(
    ("command", "name", "bits"),
    [
        *(("up", name, "600") for name in ("nothing", "token", "queue.key", "vault.json")),
        *(
            ("up", "token", "666"),
            ("index", "token", "600"),
            ("search", "token", "600"),
            ("status", "token", "600"),
        ),
    ],
)
def test_a_state_folder_of_his_is_refused(user, shared, command, name, bits):
    run_as_nobody(PLANT, shared / "state", name, bits)
    assert (shared / "state").stat().st_uid == NOBODY
    user.state = shared / "state"
    said = user.run(command, *(["cake"] if command == "search" else []), *user.place, code=1)
    assert "Traceback" not in said
    assert sorted(file.name for file in user.state.iterdir()) == ([] if name == "nothing" else [name])


def test_a_link_of_his_to_a_folder_of_his_is_refused(user, shared):
    run_as_nobody(PLANT, shared / "his", "nothing", "")
    run_as_nobody(PLANT, shared / "state", "link", shared / "his")
    assert (shared / "state").is_symlink()
    user.state = shared / "state"
    user.run("index", *user.place, code=1)
    assert list((shared / "his").iterdir()) == []


@pytest.mark.parametrize("name", ["token", "queue.key", "state.db"])
def test_what_he_puts_into_an_open_folder_is_refused_and_named(user, name):
    user.run("index", *user.place)
    (user.state / name).unlink(missing_ok=True)
    user.state.chmod(0o777)
    run_as_nobody(PLANT, user.state, name, "600")
    assert (user.state / name).stat().st_uid == NOBODY
    for command in ("up", "index"):
        said = user.run(command, *user.place, code=1)
        assert "Traceback" not in said
        assert name in said
    (user.state / name).unlink()
    user.run("index", *user.place)
    assert stat.S_IMODE(user.state.stat().st_mode) == 0o700


def test_health_tells_him_nothing(served):
    ask = "import sys, urllib.request as r; print(r.urlopen(f'http://127.0.0.1:{sys.argv[1]}/health').read().decode())"
    said = run_as_nobody(ask, served.port).decode()
    assert "status" in said
    assert str(served.root) not in said
    assert "/" not in said
