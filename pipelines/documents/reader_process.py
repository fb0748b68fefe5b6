"""The process that reads documents: it loads the readers it needs, gives up its rights, and answers questions.

The parent (`sandbox`) starts it with the package of the readers and their names as arguments. A question comes on
standard input, its answer goes to what was standard output (`wire`). It ends when the parent closes its input.
"""

from __future__ import annotations

import encodings
import json
import os
import pkgutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.documents import wire
from pipelines.documents.confinement import give_up_rights
from pipelines.documents.document import Document
from pipelines.errors import DocumentError

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
