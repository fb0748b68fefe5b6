"""A reader that obeys its document: whatever a hostile document might make a library do.

`NATIVE` calls the C library as code in a library would, past every hook of Python's.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pipelines.documents.document import Builder, Document
from pipelines.errors import DocumentError

NATIVE = ctypes.CDLL(None, use_errno=True)
HOLDING = ctypes.PyDLL(None)
KEPT = []
STREAMS = range(3, 16)


def words(_given):
    return f"Words from process {os.getpid()}."


def long(given):
    return "ä" * given["characters"]


def decode(_given):
    year = datetime.strptime("24.11.2026", "%d.%m.%Y").astimezone().year
    return f"{'語'.encode('big5').decode('big5')} {year}"


def decline(_given):
    raise DocumentError("the reader says why")


def refuse(_given):
    raise ValueError("nothing of this makes sense")


def panic(_given):
    raise BaseException("a library in Rust gives up")  # noqa: TRY002 - as pyo3 does


def hang(_given):
    while True:
        pass


def hang_in_a_library(_given):
    HOLDING.sleep(600)  # holds Python's lock, so that no other thread runs


def eat(_given):
    KEPT.append("x" * 2**30)


def eat_slowly(_given):
    while True:
        KEPT.append(bytearray(2**20))


def grow(_given):
    KEPT.append(b"x" * 160 * 2**20)
    return words(_given)


def fault(_given):
    ctypes.string_at(0)


def leave(_given):
    os._exit(0)


def write(given):
    Path(given["file"]).write_text("written")


def write_natively(given):
    called("open", given["file"].encode(), os.O_WRONLY | os.O_CREAT, 0o600)


def read_natively(given):
    called("open", given["file"].encode(), os.O_RDONLY)


def remove(given):
    Path(given["file"]).unlink()


def remove_natively(given):
    called("unlink", given["file"].encode())


def truncate_natively(given):
    called("truncate", given["file"].encode(), 0)


def connect(given):
    socket.create_connection(("127.0.0.1", given["port"]))


def connect_natively(_given):
    called("socket", socket.AF_INET, socket.SOCK_STREAM, 0)


def fork(_given):
    if os.fork() == 0:
        os._exit(0)


def fork_natively(_given):
    if called("fork") == 0:
        os._exit(0)


def start(_given):
    subprocess.Popen(["/bin/true"])


def start_natively(_given):
    called("execv", b"/bin/true", (ctypes.c_char_p * 2)(b"true", None))


def start_a_thread(_given):
    threading.Thread(target=words, args=({},)).start()


def signal_the_parent(_given):
    os.kill(os.getppid(), signal.SIGTERM)


def signal_natively(_given):
    called("kill", os.getppid(), int(signal.SIGTERM))


def limit_the_parent(_given):
    called("prlimit", os.getppid(), 0, (ctypes.c_uint64 * 2)(1, 1), None)


def trace_the_parent(_given):
    called("ptrace", 16, os.getppid(), None, None)


def load(_given):
    ctypes.CDLL("libm.so.6")


def chat(given):
    print("words of a library")  # noqa: T201 - as some do
    print("and its complaints", file=sys.stderr)  # noqa: T201
    sys.stdout.flush()
    os.write(1, b"more words" * 1000)
    return words(given)


def flood(_given):
    while True:
        say(b"x" * 2**16)


def answer_garbage(_given):
    say(b"\0\0\0\x02" + b"\0" * 8 + b"xx")
    hang(_given)


def answer_without_a_head(_given):
    say(b"\0\0\0\0" + b"\0" * 7 + b"\x05" + b"words")
    hang(_given)


def answer_too_much(given):
    say(bytes.fromhex(given["frame"]) * 2)
    hang(given)


def announce_much(_given):
    say(b"\xff" * 12)
    hang(_given)


def say_nothing_more(_given):
    for stream in STREAMS:
        with suppress(OSError):
            os.close(stream)
    hang(_given)


def say(data):
    for stream in STREAMS:
        with suppress(OSError):
            os.write(stream, data)


def called(name, *given):
    """Call a function of the C library; raise its error."""
    done = getattr(NATIVE, name)(*given)
    if done == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


# Look up what the functions above need while that is allowed, as libraries do.
for _name in ("open", "unlink", "truncate", "socket", "fork", "execv", "kill", "prlimit", "ptrace"):
    with suppress(AttributeError):  # some are Linux's
        getattr(NATIVE, _name)
HOLDING.sleep  # noqa: B018


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:
    text = globals()[data.decode()](options)
    builder = Builder()
    builder.add(text or "", label=path)
    return builder.document()
