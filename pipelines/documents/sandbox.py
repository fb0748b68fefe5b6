"""Read documents in a process without rights, so that whatever a document does to its reader stays there.

A document may come from a stranger, and the libraries that read it are large. So the reader runs in a child process
that can only compute (`confinement`). It gets the bytes of the file, never its place on the disk, and returns text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from pipelines.child import unheard
from pipelines.documents.document import Document
from pipelines.documents.formats import SCANNED, format_of
from pipelines.documents.process import MOST_SECONDS_WITH_SCANS, ReaderProcess
from pipelines.errors import ApartStoppedError, DocumentError, EverindexError, NoteError

_READERS = "pipelines.documents.readers"


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
