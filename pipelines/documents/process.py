"""The process in which readers run, as its parent sees it: started, asked, and ended."""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import psutil

from pipelines.documents import wire
from pipelines.documents.document import Document
from pipelines.errors import DocumentError, ParserDiedError

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

_FOLDER = str(Path(__file__).parent.parent.parent)
_START = "import sys; sys.path.insert(0, sys.argv[1]); from pipelines.documents import reader_process as p; p.main()"


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
