"""The worker keeps little memory that it does not use: its threads share arenas, and what is free is returned."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ARENAS_OF_EIGHT_THREADS = """
import ctypes, sys, threading
from workers.jobs import share_arenas
if sys.argv[1] == "shared":
    share_arenas()
together = threading.Barrier(8)
def allocate():
    kept = bytearray(100_000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fclose(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
def test_threads_share_two_arenas():
    assert arenas("shared") <= 2 < arenas("as usual")


def arenas(how):
    command = [sys.executable, "-c", ARENAS_OF_EIGHT_THREADS, how]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return done.stdout.count("<heap nr=")


KEPT_AND_RETURNED = """
import psutil
from workers.jobs import return_memory
blocks = [bytearray(100_000) for _ in range(1_000)]
last = bytearray(100_000)
del blocks
kept = psutil.Process().memory_info().rss
return_memory()
print(kept - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide by themselves")
def test_what_is_free_but_kept_is_returned():
    command = [sys.executable, "-c", KEPT_AND_RETURNED]
    assert int(subprocess.run(command, capture_output=True, check=True, text=True).stdout) > 50_000_000
