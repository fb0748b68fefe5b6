"""The real thing: `everindex` as a user runs it, in processes of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from pipelines.cache.cache import SqliteCache
from tests.once import made_once

EXAMPLES = Path(__file__).parents[2] / "examples" / "vault"
PATIENCE = 60.0


def wait_for(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Return the first true value of a condition."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {patience} s: {what}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class User:
    """A user at a terminal, with a vault and a state folder."""

    def __init__(self, base: Path, root: Path, **environment: str) -> None:
        self.root = root
        self.state = base / "state"
        self.port = free_port()
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("EVERINDEX_")},
            "XDG_STATE_HOME": str(base / "xdg-state"),
            "XDG_CONFIG_HOME": str(base / "xdg-config"),
            "HF_HUB_OFFLINE": "1",
            **environment,
        }
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json", *self.place))

    @property
    def place(self) -> tuple[str, ...]:
        return ("--vault", str(self.root), "--state", str(self.state))

    def start(self, *arguments: str, output: int | IO[bytes] = subprocess.PIPE) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", *arguments],
            env=self.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def up(self) -> subprocess.Popen[str]:
        process = self.start("up", *self.place, "--port", str(self.port))
        self.wait_until_quiet()
        return process

    def get(self, path: str, /, **params: Any) -> httpx.Response:
        token = (self.state / "token").read_text().strip()
        return httpx.get(
            f"http://127.0.0.1:{self.port}{path}",
            params=params,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )

    def post(self, path: str, body: Any = None, /, **params: Any) -> httpx.Response:
        token = (self.state / "token").read_text().strip()
        return httpx.post(
            f"http://127.0.0.1:{self.port}{path}",
            params=params,
            json=body,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )

    def health(self) -> dict[str, Any]:
        try:
            return dict(self.get("/health").json())
        except (httpx.HTTPError, ValueError, FileNotFoundError):
            return {}

    def wait_until_quiet(self) -> None:
        def quiet() -> bool:
            h = self.health()
            return bool(
                h
                and h["last_reconcile"]
                and h["model_ready"]
                and not h["pending"]
                and not h["vectors_pending"]
            )

        wait_for(quiet, f"everything indexed; {self.logs()}")

    def wait_until_upkeep_is_done(self) -> None:
        """Wait for the links' ranks and the sentences' vectors: until then, the ranking of a question can change."""

        def done() -> bool:
            for place in self.state.rglob("cache-*.db"):
                with closing(SqliteCache.open(place)) as cache:
                    if cache.edges.ranks_behind() or cache.passages.pending_sentences(1):
                        return False
            return True

        wait_for(done, f"ranks and sentences are up to date; {self.logs()}")

    def logs(self) -> str:
        return "\n".join(
            f"{log.name}: {log.read_text()[-2000:]}" for log in sorted((self.state / "logs").glob("*.log"))
        )

    def found(self, query: str) -> list[str]:
        return [hit["path"] for hit in self.get("/search", q=query, k=10).json()["results"]]

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.communicate(timeout=30)
        self.processes.clear()


def indexed_example(tmp_path_factory: pytest.TempPathFactory, **environment: str) -> User:
    """Return the user of a copy of the example vault, indexed with the embedded model."""

    def make(folder: Path) -> None:
        shutil.copytree(EXAMPLES, folder / "vault")
        user = User(folder, folder / "vault")
        user.run("index", *user.place)

    base = tmp_path_factory.mktemp("example")
    shutil.copytree(made_once(tmp_path_factory, "examples", make), base, dirs_exist_ok=True)
    return User(base, base / "vault", **environment)


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """The example vault, served with the embedded model; tests leave its notes as they are."""

    user = indexed_example(tmp_path_factory)
    user.up()
    user.wait_until_upkeep_is_done()
    yield user
    user.stop()


@pytest.fixture
def user(tmp_path: Path, tiny_model: Path) -> Iterator[User]:
    """An empty vault and a tiny model; nothing runs yet."""
    root = tmp_path / "notes"
    root.mkdir()
    user = User(tmp_path, root, EMBEDDING_MODEL=str(tiny_model))
    yield user
    user.stop()
