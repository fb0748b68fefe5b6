"""Whatever a document does to the process that reads it, it is refused with a reason and the next one is read."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import psutil
import pytest

from pipelines.documents import sandbox as process
from pipelines.documents.document import Builder
from pipelines.documents.sandbox import Sandbox
from pipelines.documents.wire import packed
from pipelines.errors import ApartStoppedError, DocumentError, ParserDiedError, ParserMemoryError
from pipelines.formats import format_of
from tests.documents import DOCUMENTS, document

CANVAS = b'{"nodes": [{"id": "a", "type": "text", "text": "Late frost.", "x": 0, "y": 0, "width": 9, "height": 9}]}'
HOSTILE = "tests.pipelines.documents.hostile"
FAILURES = {
    "refuse": (DocumentError, "cannot be read: ValueError: nothing of this makes sense"),
    "panic": (DocumentError, "cannot be read: BaseException: a library in Rust gives up"),
    "eat": (ParserMemoryError, "needs too much memory to read"),
    "eat_slowly": (ParserMemoryError, "needs too much memory to read"),
    "fault": (ParserDiedError, "its process ended \\(-11"),
    "leave": (ParserDiedError, "its process ended \\(0"),
    "flood": (DocumentError, "more parts or text than can be indexed"),
    "announce_much": (DocumentError, "more parts or text than can be indexed"),
    "answer_garbage": (ParserDiedError, "an answer that is not valid"),
    "answer_without_a_head": (ParserDiedError, "an answer that is not valid"),
    "answer_too_much": (ParserDiedError, "its process gave more than an answer"),
    "say_nothing_more": (ParserDiedError, "its process ended"),
}


@pytest.fixture
def sandbox():
    one = Sandbox(HOSTILE)
    yield one
    one.close()


@pytest.fixture(scope="module")
def real():
    """A sandbox for the readers that there are."""
    one = Sandbox()
    yield one
    one.close()


def pid_of(sandbox, path="a.canvas", **given):
    """Return the process that read a document."""
    words = sandbox.read(path, b"words", {}, **given).text
    return int(words.removeprefix("Words from process ").removesuffix("."))


def true_answer():
    builder = Builder()
    builder.add("What another document says.")
    return b"".join(packed(builder.document()))


@pytest.mark.parametrize(("what", "error", "message"), [(k, *v) for k, v in FAILURES.items()], ids=FAILURES)
def test_a_failure_has_its_reason_and_the_next_document_is_read_by_another_process(
    sandbox, what, error, message
):
    before = pid_of(sandbox)
    with pytest.raises(error, match=f"^'b.canvas' .*{message}"):
        sandbox.read("b.canvas", what.encode(), {"frame": true_answer().hex()})
    assert not psutil.pid_exists(before)
    assert pid_of(sandbox) != before


@pytest.mark.parametrize("suffix", [".canvas", *(one for one in DOCUMENTS if format_of(f"a{one}").apart)])
def test_a_document_of_each_format_is_read_as_it_is_without_limits(real, suffix):
    """A library that opens a file or starts a thread when it reads, not when it is loaded, would fail."""
    path, data = f"a{suffix}", CANVAS if suffix == ".canvas" else document(suffix, "Late frost.")
    reader = import_module(f"pipelines.documents.readers.{format_of(path).reader}")
    read = real.read(path, data, {})
    assert read == reader.read(path, data, {})
    assert read.blocks


@pytest.mark.parametrize("what", ["hang", "hang_in_a_library"])
def test_a_document_that_takes_too_long_is_abandoned(sandbox, monkeypatch, what):
    pid_of(sandbox)
    monkeypatch.setattr(process, "MOST_SECONDS", 0.3)
    with pytest.raises(DocumentError, match=r"'b.canvas' took longer to read than 0\.3 s"):
        sandbox.read("b.canvas", what.encode(), {})
    monkeypatch.undo()
    pid_of(sandbox)


def test_what_python_loads_only_when_it_is_needed_is_there(sandbox):
    assert sandbox.read("a.canvas", b"decode", {}).text == "語 2026"


def test_one_process_reads_a_hundred_documents(sandbox):
    assert len({pid_of(sandbox, f"{number}.canvas") for number in range(100)}) == 1


def test_thousands_of_damaged_documents_need_no_process_each(sandbox):
    before = pid_of(sandbox)
    for _ in range(3):
        with pytest.raises(DocumentError, match=r"^'b.canvas' cannot be read: the reader says why"):
            sandbox.read("b.canvas", b"decline", {})
    assert pid_of(sandbox) == before


def test_another_process_takes_its_place_after_many_documents(sandbox, monkeypatch):
    monkeypatch.setattr(process, "MOST_FILES", 3)
    pids = [pid_of(sandbox) for _ in range(6)]
    assert pids[0] == pids[1] == pids[2] != pids[3] == pids[4] == pids[5]


def test_another_process_takes_its_place_when_it_has_grown(sandbox):
    before = pid_of(sandbox)
    sandbox.read("large.canvas", b"grow", {})
    assert pid_of(sandbox) != before


def test_a_private_document_shares_its_process_with_no_other(sandbox):
    pids = [pid_of(sandbox, private=private) for private in (False, True, True, False, False)]
    assert len(set(pids)) == 4
    assert pids[3] == pids[4]


def test_a_process_that_ended_while_it_was_idle_is_replaced(sandbox):
    before = pid_of(sandbox)
    idle = psutil.Process(before)
    idle.kill()
    psutil.wait_procs([idle])
    assert pid_of(sandbox) != before


def test_a_large_document_gets_there_and_back(sandbox):
    data = b"words" + b" " * 3_000_000
    with pytest.raises(DocumentError, match="KeyError"):
        sandbox.read("a.canvas", data, {})
    text = sandbox.read("a.canvas", b"long", {"characters": 5_000_000}).text
    assert text == "ä" * 5_000_000


def test_stop_ends_a_document_that_hangs_and_reads_no_other(sandbox):
    pid = pid_of(sandbox)
    beats = []

    def beat(seconds):
        beats.append(seconds)
        threading.Thread(target=sandbox.stop).start()

    with pytest.raises(ApartStoppedError):
        sandbox.read("b.canvas", b"hang", {}, beat=beat)
    assert len(beats) == 1
    assert not psutil.pid_exists(pid)
    with pytest.raises(ApartStoppedError):
        sandbox.read("c.canvas", b"words", {})


def test_stop_leaves_no_process_behind(sandbox):
    pid = pid_of(sandbox)
    sandbox.stop()
    assert not psutil.pid_exists(pid)


def test_a_sandbox_that_is_never_closed_leaves_no_process_behind():
    pid = pid_of(Sandbox(HOSTILE))
    gc.collect()
    assert not psutil.pid_exists(pid)


def test_an_error_of_the_beat_abandons_the_document(sandbox, monkeypatch):
    monkeypatch.setattr(process, "_BEAT_SECONDS", 0.1)
    pid = pid_of(sandbox)

    def beat(_seconds):
        raise KeyError("the lease is gone")

    with pytest.raises(KeyError):
        sandbox.read("b.canvas", b"hang", {}, beat=beat)
    assert not psutil.pid_exists(pid)
    pid_of(sandbox)


def test_the_process_ends_with_its_parent():
    """The document keeps the process busy, so that it does not notice that its parent is gone."""
    code = (
        "from pipelines.documents.sandbox import Sandbox\n"
        f"sandbox = Sandbox({HOSTILE!r})\n"
        "print(sandbox.read('a.canvas', b'words', {}).text, flush=True)\n"
        "sandbox.read('b.canvas', b'hang', {}, beat=lambda _: print('it hangs', flush=True))\n"
    )
    root = Path(process.__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root, text=True
    ) as parent:
        child = psutil.Process(int(parent.stdout.readline().split()[-1].removesuffix(".")))
        assert parent.stdout.readline() == "it hangs\n"
        os.kill(parent.pid, signal.SIGKILL)
    gone, _ = psutil.wait_procs([child], timeout=60)
    assert gone


def test_a_reader_that_is_not_installed_is_named_by_its_extra(sandbox, monkeypatch):
    monkeypatch.setattr("pipelines.formats.find_spec", lambda _package: None)
    with pytest.raises(DocumentError, match=r"'a.pdf' cannot be read before .* everindex\[documents\]"):
        sandbox.read("a.pdf", b"%PDF", {})


def test_a_reader_that_cannot_be_loaded_keeps_no_other_from_reading(sandbox):
    pid_of(sandbox)
    with pytest.raises(DocumentError, match=r"'a\.csv' cannot be read: its reader cannot be loaded"):
        sandbox.read("a.csv", b"a,b", {})
    pid_of(sandbox)


def test_a_file_of_no_format_is_refused(sandbox):
    with pytest.raises(DocumentError, match=r"'a\.exe' is not of a format"):
        sandbox.read("a.exe", b"MZ", {})
