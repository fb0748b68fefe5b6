"""The process that reads documents: it loads the readers it needs, gives up its rights, and answers questions.

The parent (`sandbox`) starts it with the package of the readers and their names as arguments. A question comes on
standard input, its answer goes to what was standard output (`wire`). It ends when the parent closes its input.
"""

from __future__ import annotations

import ctypes
import encodings
import json
import os
import pkgutil
import platform
import resource
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.documents import wire
from pipelines.documents.document import Document
from pipelines.errors import DocumentError

# Give up the rights of this process for good, before it reads a document that may be hostile.
#
# Three layers, because no system has all of them: limits of the kernel on every system; on Linux a filter that
# refuses every system call but those for memory, clocks, and the two pipes that are open; and a hook of Python's,
# which refuses with a clear message what code in Python tries. docs/security.md says what each stops and what none
# can stop.


MOST_MEMORY = 512 * 2**20
"""Bytes that documents may take beside the 20 to 60 MB that Python and the libraries have when they are loaded."""
MOST_CPU_SECONDS = 360
"""For all documents of one process: what survives the parent ends at some point. The parent allows each
30 seconds, and ends the process after 300."""
_LIMITS = {
    "RLIMIT_CPU": MOST_CPU_SECONDS,
    "RLIMIT_FSIZE": 0,
    "RLIMIT_CORE": 0,  # it would contain the document
    "RLIMIT_NPROC": 0,  # not for root, whom the filter stops
    "RLIMIT_NOFILE": 0,  # no file, socket or pipe can be opened; those that are open stay
}

_REFUSED = frozenset({"open", "os", "socket", "subprocess", "shutil", "tempfile", "pty"})
"""The audit events (https://docs.python.org/3/library/audit_events.html) that are refused, by their first part."""

_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_EVERY_THREAD = 1
_MACHINES: dict[str, tuple[int, int, tuple[int, ...]]] = {
    # audit number, seccomp, then: read write close fstat lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
    # rt_sigreturn sched_yield mremap madvise nanosleep getpid exit getppid getrusage times gettimeofday sigaltstack
    # gettid futex sched_getaffinity restart_syscall clock_gettime clock_getres clock_nanosleep exit_group getrandom
    # membarrier rseq
    "x86_64": (0xC000003E, 317, (
        0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 35, 39, 60, 110, 98, 100, 96, 131, 186, 202, 204, 219,
        228, 229, 230, 231, 318, 324, 334,
    )),
    "aarch64": (0xC00000B7, 277, (
        63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 124, 216, 233, 101, 172, 93, 173, 165, 153, 169, 132,
        178, 98, 123, 128, 113, 114, 115, 94, 278, 283, 293,
    )),
}  # fmt: skip
# Opcodes of the classic Berkeley packet filter, offsets in `struct seccomp_data`, and what a filter returns.
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _NOT_PERMITTED, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    """`struct sock_fprog`, https://man7.org/linux/man-pages/man2/seccomp.2.html."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def give_up_rights() -> None:
    """Give up all rights of this process but to compute and to use what is open, as far as the system lets it."""
    limits = dict(_LIMITS)
    if used := _used_memory():
        limits["RLIMIT_AS"] = used + MOST_MEMORY
    for name, most in limits.items():
        with suppress(AttributeError, OSError, ValueError):  # not every system has it, or a lower one is set
            resource.setrlimit(getattr(resource, name), (most, most))
    if sys.platform == "linux":
        _filter_calls()
    sys.addaudithook(_refuse)


def _used_memory() -> int:
    """Return the size of this process's address space in bytes, or 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _filter_calls() -> None:
    """Let the kernel refuse all other system calls, in every thread. Some containers do not allow a filter."""
    machine = _MACHINES.get(platform.machine()) if sys.maxsize > 2**32 else None
    if machine is None:
        return
    audit, seccomp, allowed = machine
    code = _instructions(audit, allowed)
    program = _Filter(len(code) // _INSTRUCTION.size, code)
    zero = ctypes.c_long(0)
    _LIBC.prctl(_SET_NO_NEW_PRIVS, ctypes.c_long(1), zero, zero, zero)
    _LIBC.syscall(
        ctypes.c_long(seccomp),
        ctypes.c_long(_SET_MODE_FILTER),
        ctypes.c_long(_EVERY_THREAD),
        ctypes.byref(program),
    )


def _instructions(audit: int, allowed: tuple[int, ...]) -> bytes:
    """Return a program that allows these system calls and refuses others; a foreign architecture ends the process."""
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    # Each jumps over the comparisons that follow it and over the refusal.
    steps += [(_EQUAL, len(allowed) - at, 0, number) for at, number in enumerate(allowed)]
    steps += [(_RETURN, 0, 0, _NOT_PERMITTED), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(_INSTRUCTION.pack(*step) for step in steps)


def _refuse(event: str, _arguments: object) -> None:
    if event.partition(".")[0] in _REFUSED or event == "ctypes.dlopen":
        raise PermissionError(f"{event!r} is not allowed while a document is read")


_LOOK_SECONDS = 1.0
_NICENESS = 10

Read = Callable[[str, bytes, Mapping[str, object]], Document]


def main() -> None:
    """Answer the questions on standard input until it ends."""
    parent = os.getppid()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    package, *names = sys.argv[2:]
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no part of an answer
    os.nice(_NICENESS)
    with suppress(OSError):  # Linux only: when memory runs out, this process is killed, not the worker
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    readers = {name: _loaded(f"{package}.{name}") for name in names}
    _load_what_loads_late()
    give_up_rights()
    _write(answers, wire.frame({"ready": True}))
    while question := _next_question(sys.stdin.buffer):
        for part in _answer(readers, *question):
            _write(answers, part)
    os._exit(0)


def _end_with(parent: int) -> None:
    """End this process when its parent has died, because a document may keep it busy."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _loaded(module: str) -> Read:
    """Return the function of a reader, or one that says why there is none."""
    try:
        read: Read = import_module(module).read
    except ImportError as error:
        reason = str(error)

        def read(path: str, _data: bytes, _options: Mapping[str, object]) -> Document:
            raise DocumentError(f"{path!r} cannot be read: its reader cannot be loaded ({reason})")

    return read


def _load_what_loads_late() -> None:
    """Load what Python loads only when it is first needed: later, no file can be opened."""
    import_module("_strptime")
    import_module("charset_normalizer")
    for module in pkgutil.iter_modules(encodings.__path__):
        with suppress(ImportError):  # some belong to Windows
            import_module(f"encodings.{module.name}")


def _next_question(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Return the head and body of the next question, or None if the parent has no more."""
    prefix = stream.read(wire.PREFIX.size)
    if len(prefix) < wire.PREFIX.size:
        return None
    head_size, body_size = wire.PREFIX.unpack(prefix)
    return json.loads(stream.read(head_size)), stream.read(body_size)


def _answer(readers: Mapping[str, Read], head: dict[str, Any], data: bytes) -> tuple[bytes, ...]:
    """Return the parts of the answer to a question."""
    path = head["path"]
    try:
        return wire.packed(readers[head["reader"]](path, data, head["options"]))
    except DocumentError as error:
        return (wire.frame({"refused": str(error)[: wire.LONGEST_SENTENCE]}),)
    except MemoryError:
        return (wire.frame({"memory": True}),)
    except BaseException as error:  # noqa: BLE001 - libraries in Rust raise panics that are no Exception
        reason = f"{path!r} cannot be read: {type(error).__name__}: {error}"
    return (wire.frame({"error": reason[: wire.LONGEST_SENTENCE]}),)


def _write(answers: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(answers, rest) :]
