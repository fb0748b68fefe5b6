"""The Procfile as it stands, with a real Redis: three processes, the whole loop, and an end without a loss."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from .conftest import User, wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture
def trio(tmp_path, tiny_model, redis_url):
    root = tmp_path / "notes"
    root.mkdir()
    user = User(tmp_path, root, EMBEDDING_MODEL=str(tiny_model), REDIS_URL=redis_url)
    user.environment |= {
        "EVERINDEX_VAULT": str(root),
        "EVERINDEX_STATE": str(user.state),
        "EVERINDEX_PORT": str(user.port),
        "PATH": f"{Path(sys.executable).parent}:{user.environment['PATH']}",
    }
    start(user, tmp_path)
    yield user
    user.stop()


def start(user: User, base: Path) -> None:
    with (base / "honcho.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "honcho", "-f", str(ROOT / "Procfile"), "-d", str(base), "start"],
            env=user.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )
    user.processes.append(process)
    user.wait_until_quiet()


def metric(user: User, name: str) -> float:
    """Return the sum of a metric's samples."""
    text = user.get("/metrics").text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(rf"{name}[{{ ]", line))


def test_a_save_is_found_counted_and_shown(trio):
    before = metric(trio, "everindex_jobs_total")
    (trio.root / "river.md").write_text("A boat on the river.\n")
    wait_for(lambda: trio.found("boat") == ["river.md"], "the note")
    wait_for(lambda: metric(trio, "everindex_jobs_total") > before, "the metrics")
    jobs = wait_for(
        lambda: [
            j for j in trio.get("/ops/jobs.json", path="river.md").json()["jobs"] if j["state"] == "done"
        ],
        "the job in the history",
    )
    assert jobs[0]["task"] == "index_notes"
    page = trio.get("/ops/jobs", path="river.md").text
    assert "Index saved notes" in page
    assert "river.md" in page
    roles = {one["role"] for one in trio.get("/ops/overview.json").json()["processes"]}
    assert roles == {"watcher", "worker", "query"}


def test_a_process_that_is_ended_under_load_stops_in_time_and_loses_nothing(trio, tmp_path):
    for count, command in enumerate(("watch", "work", "serve"), 1):
        for n in range(150):
            (trio.root / f"{command} {n}.md").write_text(f"Note {n} about a garden.\n")
            if n == 75:
                (process,) = processes(trio, command)
                process.send_signal(signal.SIGTERM)
                ended = time.monotonic()
        process.wait(10)
        assert time.monotonic() - ended < 10
        trio.stop()  # honcho ends them all when one ends
        start(trio, tmp_path)
        assert sum(d["notes"] for d in trio.health()["domains"].values()) == count * 150


def processes(user: User, command: str) -> list[psutil.Process]:
    children = psutil.Process(user.processes[0].pid).children(recursive=True)
    return [one for one in children if one.cmdline()[-1:] == [command] and "python" in one.cmdline()[0]]
