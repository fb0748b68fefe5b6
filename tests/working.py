"""A vault with an index, and a worker in a thread of the test that takes tasks as `everindex work` does."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers.heartbeat import heartbeat
from workers.resources import Resources
from workers.tasks import make_request_task, make_tasks

SOIL = {"Soil.md": "# Soil\n\nclay\n"}
_LOOK_SECONDS = 0.01


def indexed(vault: Path, state: Path, model: Path, files: Mapping[str, str] = SOIL) -> Settings:
    """Write files into a vault, index it, and return its settings."""
    for path, text in files.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    made = Settings(vault=vault, state=state, embedding_model=str(model))
    index_once(Resources(made), lambda *_: None)
    return made


@contextmanager
def idle_worker(settings: Settings) -> Iterator[None]:
    """Live and take nothing until the end of the block."""
    resources = Resources(settings)
    with heartbeat(resources.place.state, "worker", "test"):
        until = time.monotonic() + 60
        while not any(resources.workers().values()):
            assert time.monotonic() < until
            time.sleep(_LOOK_SECONDS)
        yield


@contextmanager
def worker(settings: Settings) -> Iterator[None]:
    """Work until the end of the block."""
    stopped = threading.Event()

    def work() -> None:
        resources = Resources(settings)
        queue = resources.queue()
        make_request_task(queue, resources, make_tasks(queue, resources).index_notes)
        while not stopped.is_set():
            task = queue.dequeue()
            if task is None:
                stopped.wait(_LOOK_SECONDS)
            else:
                queue.execute(task)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with idle_worker(settings):
            yield
    finally:
        stopped.set()
        thread.join()


IDENTITY = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def commit_all(root, at):
    """Commit a folder as it is, at a time, into its own git repository."""
    environment = os.environ | IDENTITY | {"GIT_COMMITTER_DATE": at, "GIT_CONFIG_GLOBAL": os.devnull}
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
        subprocess.run(["git", *arguments], cwd=root, env=environment, check=True)
