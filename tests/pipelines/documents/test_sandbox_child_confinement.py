"""A process that reads documents can compute, and nothing else, whatever a document makes its reader do."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path

import psutil
import pytest

from pipelines.documents.sandbox import Sandbox
from pipelines.errors import DocumentError

HOSTILE = "tests.pipelines.documents.hostile"
FILTERED = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")

TRIED_IN_PYTHON = {
    "write": "'open' is not allowed",
    "remove": "'os.remove' is not allowed",
    "connect": "is not allowed",
    "fork": "'os.fork' is not allowed",
    "start": "'subprocess.Popen' is not allowed",
    "signal_the_parent": "'os.kill' is not allowed",
    "load": "'ctypes.dlopen' is not allowed",
}
TRIED_PAST_PYTHON = (
    *("write_natively", "read_natively", "remove_natively", "truncate_natively", "connect_natively"),
    *("fork_natively", "start_natively", "signal_natively", "limit_the_parent", "trace_the_parent"),
)


@pytest.fixture
def sandbox():
    one = Sandbox(HOSTILE)
    yield one
    one.close()


@pytest.fixture
def listening():
    """A server's socket on a free port, which reports at the end whether a client connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


def process_of(sandbox):
    """Return the process that is kept after a document was read."""
    words = sandbox.read("a.canvas", b"words", {}).text
    return psutil.Process(int(words.removeprefix("Words from process ").removesuffix(".")))


@pytest.mark.parametrize(("what", "message"), TRIED_IN_PYTHON.items(), ids=TRIED_IN_PYTHON)
def test_what_a_reader_tries_in_python_is_refused_and_named(sandbox, listening, tmp_path, what, message):
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.write_text("mine")
    given = {"file": str(kept if what == "remove" else new), "port": listening.getsockname()[1]}
    with pytest.raises(DocumentError, match=f"'a.canvas' cannot be read: PermissionError: .*{message}"):
        sandbox.read("a.canvas", what.encode(), given)
    assert (kept.read_text(), new.exists()) == ("mine", False)


@pytest.mark.skipif(not FILTERED, reason="only Linux filters system calls")
@pytest.mark.parametrize("what", TRIED_PAST_PYTHON)
def test_what_a_library_tries_is_refused_by_the_kernel(sandbox, tmp_path, what):
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.write_text("mine")
    given = {"file": str(new if what == "write_natively" else kept)}
    with pytest.raises(DocumentError, match=r"PermissionError: .* Operation not permitted"):
        sandbox.read("a.canvas", what.encode(), given)
    assert (kept.read_text(), new.exists()) == ("mine", False)


@pytest.mark.skipif(not FILTERED, reason="only Linux filters system calls")
def test_a_reader_starts_no_thread(sandbox):
    with pytest.raises(DocumentError, match="can't start new thread"):
        sandbox.read("a.canvas", b"start_a_thread", {})


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_process_has_no_secrets_no_descriptors_and_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - its signature
        sandbox = Sandbox(HOSTILE)
        try:
            process = process_of(sandbox)
            state = Path(f"/proc/{process.pid}")
            assert (state / "environ").read_bytes() == b"MALLOC_ARENA_MAX=1\0"
            opened = [str(descriptor.readlink()).partition(":")[0] for descriptor in (state / "fd").iterdir()]
            assert sorted(opened) == ["/dev/null", "/dev/null", "pipe", "pipe"]
            assert process.cwd() == "/"
            assert (state / "oom_score_adj").read_text() == "1000\n"
            assert process.nice() >= 10
        finally:
            sandbox.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_kernel_limits_what_the_process_may_use(sandbox):
    process = process_of(sandbox)
    limits = {
        name: process.rlimit(getattr(psutil, f"RLIMIT_{name}"))
        for name in ("FSIZE", "CORE", "NPROC", "NOFILE")
    }
    assert limits == dict.fromkeys(limits, (0, 0))
    assert process.rlimit(psutil.RLIMIT_CPU)[1] == 360
    assert process.rlimit(psutil.RLIMIT_AS)[1] < process.memory_info().vms + 520 * 2**20


def test_what_a_library_prints_is_no_part_of_the_answer(sandbox):
    assert sandbox.read("a.canvas", b"chat", {}).text.startswith("Words from process")
    assert sandbox.read("a.canvas", b"words", {}).text.startswith("Words from process")
