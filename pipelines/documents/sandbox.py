"""Read documents in a process without rights, so that whatever a document does to its reader stays there.

A document may come from a stranger, and the libraries that read it are large. So the reader runs in a child process
that can only compute (`confinement`). It gets the bytes of the file, never its place on the disk, and returns text.
"""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

import psutil

from pipelines.child import unheard
from pipelines.documents import wire
from pipelines.documents.document import Document
from pipelines.errors import ApartStoppedError, DocumentError, EverindexError, NoteError, ParserDiedError
from pipelines.formats import SCANNED, format_of

# The process in which readers run, as its parent sees it: started, asked, and ended.


MOST_SECONDS = 30.0
"""A document that takes longer is not read; PDFs of 2,000 pages take a few seconds."""
MOST_SECONDS_WITH_SCANS = 240.0
"""The same with pages that are read by OCR, which ends after 90 s of computing."""
MOST_FILES = 500
"""Files that a process reads before another takes its place, so that leaks of libraries stay small."""
MOST_KEPT = 128 * 2**20
"""Bytes of memory by which a process may have grown when it has read a file; beyond that another takes its place."""
_MOST_CPU_SECONDS = 300
_START_SECONDS = 60.0
_BEAT_SECONDS = 2.0
_END_SECONDS = 1.0
_PIECE = 2**16

_FOLDER = str(Path(__file__).parents[__name__.count(".")])
_START = (
    f"import sys; sys.path.insert(0, sys.argv[1]); from {__package__} import sandbox_child as p; p.main()"
)


class ReaderProcess:
    """A process that has given up its rights after it loaded these readers."""

    def __init__(self, package: str, readers: Iterable[str]) -> None:
        self.readers = frozenset(readers)
        self.has_refused = False
        """Whether its last answer was a reader's refusal."""
        self._files = 0
        self._memory_at_start = 0.0
        self._popen = subprocess.Popen(  # noqa: S603 - our own module, in the Python that runs this
            [sys.executable, "-I", "-c", _START, _FOLDER, package, *sorted(self.readers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={"MALLOC_ARENA_MAX": "1"},  # each arena of glibc's would count 64 MB of address space
            cwd="/",
            start_new_session=True,  # Ctrl-C in a terminal is for the worker, which ends this process itself
        )
        self._streams = cast("IO[bytes]", self._popen.stdin), cast("IO[bytes]", self._popen.stdout)
        self._to, self._from = (stream.fileno() for stream in self._streams)
        os.set_blocking(self._to, False)
        # It also ends with the one that uses it, which may be forgotten rather than closed.
        self._end = weakref.finalize(self, _end, self._popen, self._streams)

    def wait_until_ready(self, path: str, beat: Callable[[float], None]) -> None:
        """Wait until it has loaded its readers. Raises ParserDiedError, and whatever `beat` raises."""
        try:
            self._exchange(path, (), _START_SECONDS, beat)
        except TimeoutError:
            raise ParserDiedError(
                f"{path!r} could not be read: its process did not start within {_START_SECONDS:g} s"
            ) from None
        self._memory_at_start = self._spent()[0]

    def read(
        self,
        reader: str,
        path: str,
        data: bytes,
        options: Mapping[str, object],
        beat: Callable[[float], None],
        seconds: float | None = None,
    ) -> Document:
        """Let it read a document, in `MOST_SECONDS` unless told otherwise. Raises what `Sandbox.read` raises."""
        seconds = seconds or MOST_SECONDS
        head = {"path": path, "reader": reader, "options": dict(options)}
        self._files += 1
        self.has_refused = False
        try:
            answer = self._exchange(path, (wire.frame(head, len(data)), data), seconds, beat)
        except TimeoutError:
            raise DocumentError(f"{path!r} took longer to read than {seconds:g} s; split it") from None
        self.has_refused = wire.is_refusal(answer[0])
        return wire.document_of(path, *answer)

    def is_alive(self) -> bool:
        """Say whether the process still runs; the system may have ended it while it was idle."""
        return self._popen.poll() is None

    def is_worn(self) -> bool:
        """Say whether another process should take its place."""
        memory, seconds = self._spent()
        return (
            self._files >= MOST_FILES
            or memory - self._memory_at_start > MOST_KEPT
            or seconds > _MOST_CPU_SECONDS
        )

    def _spent(self) -> tuple[float, float]:
        """Return its resident memory in bytes and the seconds that it has computed; infinite if it has ended."""
        try:
            process = psutil.Process(self._popen.pid)
            times = process.cpu_times()
            return process.memory_info().rss, times.user + times.system
        except psutil.Error:
            return math.inf, math.inf

    def kill(self) -> None:
        """End the process at once, from any thread."""
        self._popen.kill()

    def end(self) -> None:
        """End the process and remove what is left of it."""
        self._end()

    def _exchange(
        self, path: str, question: Iterable[bytes], seconds: float, beat: Callable[[float], None]
    ) -> tuple[memoryview, memoryview]:
        """Send a question; return the head and body of the answer.

        Raises TimeoutError, ParserDiedError if the process ends or says too much, DocumentError if the answer is too
        large, and whatever `beat` raises.
        """
        started = beaten = time.monotonic()
        rest = [memoryview(part) for part in question if part]
        got, wanted, head = bytearray(), wire.PREFIX.size, 0
        while rest or len(got) < wanted:
            now = time.monotonic()
            if now - started >= seconds:
                raise TimeoutError
            if now - beaten >= _BEAT_SECONDS:
                beaten = now
                beat(now - started)
            able = self._wait(min(started + seconds, beaten + _BEAT_SECONDS) - now, sending=bool(rest))
            if self._to in able:
                self._send(rest)
            if self._from in able:
                got += self._received(path)
            if wanted == wire.PREFIX.size and len(got) >= wanted:
                head, body = wire.sizes(path, got)
                wanted += head + body
        if len(got) > wanted:
            raise ParserDiedError(f"{path!r} could not be read: its process gave more than an answer")
        answer = memoryview(got)[wire.PREFIX.size :]
        return answer[:head], answer[head:]

    def _wait(self, seconds: float, *, sending: bool) -> set[int]:
        """Wait at most that long; return the descriptors that can be read or written."""
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        if sending:
            poll.register(self._to, select.POLLOUT)
        return {descriptor for descriptor, _ in poll.poll(max(seconds, 0) * 1000)}

    def _send(self, rest: list[memoryview]) -> None:
        """Send some of what is left of a question."""
        try:
            sent = os.write(self._to, rest[0][:_PIECE])
        except BrokenPipeError:
            rest.clear()  # it has ended, or closed its input; its answer, if any, is still read
            return
        rest[0] = rest[0][sent:]
        if not rest[0]:
            del rest[0]

    def _received(self, path: str) -> bytes:
        """Return some of an answer. Raises ParserDiedError if the process has ended."""
        data = os.read(self._from, _PIECE)
        if not data:
            with suppress(subprocess.TimeoutExpired):  # it may have closed its output only
                self._popen.wait(_END_SECONDS)
            code = self._popen.returncode
            raise ParserDiedError(
                f"{path!r} could not be read: its process ended ({code}: out of memory, or a fault in a library)"
            )
        return data


def _end(process: subprocess.Popen[bytes], streams: Iterable[IO[bytes]]) -> None:
    process.kill()
    process.wait()
    for stream in streams:
        stream.close()


_READERS = f"{__package__}.readers"


class Sandbox:
    """Reads one document at a time in a child process. Any thread may stop it permanently.

    The process is kept for the next document, also when its reader refused one. Another takes its place after any
    other failure, after many documents, before and after a private one, before and after one whose scanned pages are
    read by OCR, and when a format needs a reader that it did not load before it gave up its rights.
    """

    def __init__(self, readers: str = _READERS) -> None:
        self._package = readers
        self._reading = threading.Lock()
        """Held while a document is read."""
        self._changing = threading.Lock()
        """Held while a process is started or stopped, so that none is started after `stop`."""
        self._stopped = False
        self._process: ReaderProcess | None = None
        self._used: set[str] = set()

    def read(
        self,
        path: str,
        data: bytes,
        options: Mapping[str, object],
        *,
        private: bool = False,
        beat: Callable[[float], None] = unheard,
    ) -> Document:
        """Read a document; every two seconds call `beat` with the seconds spent so far.

        Raises DocumentError for a document that is damaged, encrypted, over a limit, takes too long, or has no
        reader; ParserMemoryError if it needs too much memory, ParserDiedError if the process ends or its answer is
        not valid, ApartStoppedError after `stop`, and whatever `beat` raises.
        """
        form = format_of(path)
        if form is None or not form.reader:
            raise DocumentError(f"{path!r} is not of a format that has a reader")
        if form.lacks is not None:
            raise DocumentError(
                f"{path!r} cannot be read before its reader, everindex[{form.lacks}], is installed"
            )
        with self._reading:
            document = self._answer(form.reader, path, data, options, beat, alone=private)
            if document.has_pictures and SCANNED.lacks is None:
                document = self._with_scans(path, data, document, beat)
        return document

    def stop(self) -> None:
        """End the process, abandon the document that is being read, and read no other."""
        with self._changing:
            self._stopped = True
            process = self._process
            if process is not None:
                process.kill()
        if self._reading.acquire(blocking=False):  # otherwise the thread that reads does this
            try:
                self._end()
            finally:
                self._reading.release()

    def close(self) -> None:
        """End the process that is kept; the next document starts another."""
        with self._reading:
            self._end()

    def _with_scans(
        self, path: str, data: bytes, document: Document, beat: Callable[[float], None]
    ) -> Document:
        """Return a document with its scanned pages; as it is, with a warning, if they cannot be read."""
        try:
            return self._answer(SCANNED.reader, path, data, {}, beat, MOST_SECONDS_WITH_SCANS, alone=True)
        except NoteError as error:
            return replace(document, warnings=(*document.warnings, f"scanned pages were not read: {error}"))

    def _answer(
        self,
        reader: str,
        path: str,
        data: bytes,
        options: Mapping[str, object],
        beat: Callable[[float], None],
        seconds: float | None = None,
        *,
        alone: bool,
    ) -> Document:
        """Return what a reader makes of a document; `alone`: in a process that reads nothing else."""
        if alone:
            self._end()
        process, failed = None, True
        try:
            process = self._ready(reader, path, beat, alone=alone)
            document = process.read(reader, path, data, options, beat, seconds)
            failed = False
        except EverindexError:
            self._check_running()  # it may have failed because it was stopped
            failed = process is None or not process.has_refused
            raise
        finally:
            if failed or alone or process is None or process.is_worn():
                self._end()
        return document

    def _ready(self, reader: str, path: str, beat: Callable[[float], None], *, alone: bool) -> ReaderProcess:
        """Return a process that has loaded a reader."""
        process = self._process
        if process is not None and reader in process.readers and process.is_alive():
            return process
        self._end()
        if not alone:
            self._used.add(reader)
        with self._changing:
            self._check_running()
            process = self._process = ReaderProcess(self._package, {reader} if alone else self._used)
        try:
            process.wait_until_ready(path, beat)
        except EverindexError:
            self._used.clear()  # one reader that cannot be loaded must not keep the others from it
            raise
        return process

    def _check_running(self) -> None:
        if self._stopped:
            raise ApartStoppedError("the worker is stopping; unfinished work is done when it runs again")

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
