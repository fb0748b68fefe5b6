"""Whatever stops or starves indexing is said among the problems, with its reason, until it is over.

Faults that do not disturb each other are made together: each wait is of seconds that processes need to notice.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing, contextmanager

import httpx
import pytest
import redis
from safetensors.numpy import load, save

from pipelines.vault.ignore import DEEPEST_FOLDER, MOST_WILDCARD_CHARACTERS
from pipelines.vault.write import UNCLAIMED
from tests.faults.outages import RedisServer
from tests.faults.processes import Trio
from tests.sweeps import long
from tests.whole.conftest import User, wait_for

SAID_WITHIN = 150.0  # half a minute on a machine of its own
BEDS = 40
DOMAINS = "garden:\n  path: garden\nkitchen:\n  path: kitchen\n"
NO_MODEL = "the embedding model cannot be used"


def problems(user):
    """Return what is wrong, as `everindex status` has it; None while the service does not answer."""
    try:
        return user.get("/health").json().get("problems")
    except (OSError, ValueError, RuntimeError, httpx.HTTPError):
        return None


def says(user, *words, no_more=()):
    """Wait until the problems contain each of `words`, and none of `no_more`."""
    last = []

    def wrong():
        missing = [word for word in words if not any(word in problem for problem in last)]
        return missing, [word for word in no_more if any(word in problem for problem in last)]

    def said():
        found = problems(user)
        last[:] = found or []
        return found is not None and wrong() == ([], [])

    try:
        wait_for(said, "the problems", SAID_WITHIN)
    except AssertionError:
        missing, left = wrong()
        raise AssertionError(f"not said: {missing}; said still: {left}; of: {last}") from None


def is_well(user):
    last = []

    def well():
        found = problems(user)
        last[:] = found or []
        return found == []

    try:
        wait_for(well, "no problems", SAID_WITHIN)
    except AssertionError:
        raise AssertionError(f"still wrong: {last}") from None


def found(user, question):
    try:
        return user.found(question)
    except (KeyError, OSError, ValueError, httpx.HTTPError):
        return []


def write_notes(root):
    (root / "garden" / "beds").mkdir(parents=True)
    (root / "kitchen").mkdir()
    for n in range(BEDS):
        (root / "garden" / "beds" / f"{n}.md").write_text(f"Note {n} on the soil.")
    (root / "kitchen" / "bread.md").write_text("Flour and yeast.")
    (root / "_domains.yaml").write_text(DOMAINS)


@contextmanager
def locked(file):
    """Hold a database as a program does that began to write and went to sleep."""
    con = sqlite3.connect(file, isolation_level=None)
    con.execute("BEGIN IMMEDIATE")
    yield
    con.execute("ROLLBACK")
    con.close()


def send(trio, number, *names):
    for name in names:
        trio._running[name].send_signal(number)


@pytest.fixture
def trio(tmp_path, tiny_model):
    """A vault, and the processes that a test begins; their model is a copy that it may spoil."""
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    made = Trio(tmp_path, model)
    write_notes(made.root)
    yield made
    made.stop()


# Faults of the vault, the model and the processes

RULES = "the rules of '.gitignore' are not applied"
FILTERS = "Obsidian's excluded files: '/(/' is not applied"
DEEP = f"deeper than {DEEPEST_FOLDER} folders"


def spoil_rules(root):
    """Make rule files that are refused, and a folder too deep for the watcher."""
    patterns = ("x" * 99 + "*" for _ in range(MOST_WILDCARD_CHARACTERS // 100 + 5))
    (root / ".gitignore").write_text("\n".join(patterns))
    (root / ".obsidian").mkdir(exist_ok=True)
    (root / ".obsidian" / "app.json").write_text(json.dumps({"userIgnoreFilters": ["/(/"]}))
    folder = root / "kitchen"
    for _ in range(DEEPEST_FOLDER):
        folder /= "d"
        folder.mkdir()


def mend_rules(root):
    shutil.rmtree(root / "kitchen" / "d")
    # The watcher compares everything when one of these changes.
    (root / ".gitignore").unlink()
    (root / ".obsidian" / "app.json").write_text("{}")


TAXONOMY = "kitchen/_taxonomy.md"
QUEUE = "_review-queue.md"
LATE = "saves collided with a write of Everindex and are kept"


def spoil_tagging(trio):
    """Make a vocabulary that is invalid, a queue that is a person's own file, and a save that is merged nowhere."""
    (trio.root / TAXONOMY).write_text("# Tags\n\n- bread: flour\n- bread: yeast\n")
    (trio.root / "garden" / "_taxonomy.md").write_text("# Tags\n\n- soil: what plants grow in\n")
    (trio.root / "garden" / QUEUE).write_text("my own list\n")
    kept = trio.state / "displaced" / UNCLAIMED
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "1-bread.md").write_text("Rye.")


def mend_tagging(trio):
    (trio.root / TAXONOMY).write_text("# Tags\n\n- bread: flour\n")
    (trio.root / "garden" / QUEUE).unlink()
    (trio.state / "displaced" / UNCLAIMED / "1-bread.md").unlink()


@pytest.mark.timeout(1200)
def test_faults_of_the_vault_its_model_and_its_processes_are_reported_for_as_long_as_they_last(
    trio, tmp_path
):
    (weights,) = (tmp_path / "model").glob("*.safetensors")
    good = weights.read_bytes()
    # Rules and a model that cannot be used, and no worker.
    weights.write_bytes(b"\0" * 100)
    spoil_rules(trio.root)
    for name in ("watcher", "query"):
        trio.begin(name)
    waiting = f"garden: {BEDS} notes waiting to be indexed"
    says(trio, waiting, "is a worker running?", RULES, FILTERS, DEEP, NO_MODEL)
    # Domains that cannot be read, a domain that is paused, tagging that waits, limits that are too low, many notes
    # that vanish; and a model that is another one by now, which gives no numbers.
    weights.write_bytes(save({k: v * float("nan") for k, v in load(good).items()}, {"format": "pt"}))
    trio.begin("worker")
    mend_rules(trio.root)
    says(trio, NO_MODEL, no_more=[waiting, RULES, FILTERS, DEEP])
    assert NO_MODEL in trio.get("/search", q="soil").json()["index"]["model_problem"]
    for command in (["search", "soil"], ["status"]):
        assert NO_MODEL in " ".join(trio.run(*command, *trio.place).split())
    assert trio.post("/ops/queue/pause", domain="kitchen").status_code < 300
    spoil_tagging(trio)
    (trio.root / "garden" / "beds").rename(tmp_path / "away")
    (trio.root / "_domains.yaml").write_text("garden: [")
    limits = {}
    for name in ("worker", "query"):
        limits[name] = resource.prlimit(trio._running[name].pid, resource.RLIMIT_NOFILE)
        resource.prlimit(trio._running[name].pid, resource.RLIMIT_NOFILE, (300, limits[name][1]))
    paused, held = "kitchen is paused", "notes vanished at once"
    few = [f"the {name} may open at most 300 files" for name in limits]
    spoiled = [paused, held, "_domains.yaml", TAXONOMY, QUEUE, LATE, *few]
    says(trio, *spoiled, "zero or not finite")
    # Processes that hang, and a state that another program holds.
    send(trio, signal.SIGSTOP, "watcher", "worker")
    hanging = ["is alive, but has sent no heartbeat", "is locked by another program"]
    with locked(trio.state / "state.db"):
        says(trio, "the watcher (", "the worker (", *hanging)
    send(trio, signal.SIGCONT, "watcher", "worker")
    for name, limit in limits.items():
        resource.prlimit(trio._running[name].pid, resource.RLIMIT_NOFILE, limit)
    weights.write_bytes(good)
    mend_tagging(trio)
    (trio.root / "_domains.yaml").write_text(DOMAINS)
    (tmp_path / "away").rename(trio.root / "garden" / "beds")
    assert trio.post("/ops/queue/resume", domain="kitchen").status_code < 300
    says(trio, no_more=[*spoiled, *hanging])
    # A vault that is not there, and processes that were killed.
    trio.root.rename(tmp_path / "unmounted")
    says(trio, "is not there")
    (tmp_path / "unmounted").rename(trio.root)
    says(trio, no_more=["is not there"])
    for name in ("watcher", "worker"):
        trio.end(name)
    says(trio, "the watcher (", "the worker (", "exited unexpectedly")
    for name in ("watcher", "worker"):
        trio.begin(name)
    (trio.root / "garden" / "new.md").write_text("New soil.")
    is_well(trio)
    trio.wait_until_quiet()
    assert trio.get("/search", q="soil").json()["index"]["model_problem"] is None
    assert "garden/new.md" in found(trio, "new soil")


# Faults of a service that `up` keeps, and of its Redis


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "server") as started:
        yield started


@pytest.fixture
def user(tmp_path, tiny_model, server):
    made = User(tmp_path, tmp_path / "vault", EMBEDDING_MODEL=str(tiny_model), REDIS_URL=server.url)
    write_notes(made.root)
    yield made
    made.stop()


@long
@pytest.mark.timeout(1200)
def test_a_worker_that_keeps_dying_and_an_unusable_redis_are_reported_until_they_recover(user, server):
    process = user.up()
    key = user.state / "queue.key"
    kept = key.read_bytes()
    key.write_bytes(b"too short")
    for one in processes_of(process.pid, "work"):
        os.kill(one, signal.SIGKILL)
    says(user, "the worker died")
    key.write_bytes(kept)
    # The worker counts as steady after a minute; until then, the problem stays.
    garden = user.root / "garden"
    with closing(redis.Redis.from_url(server.url)) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        (garden / "full.md").write_text("Saved while Redis was full.")
        says(user, "maxmemory")
        client.config_set("maxmemory", "0")

        client.replicaof("127.0.0.1", "1")
        (garden / "copy.md").write_text("Saved while Redis was a copy.")
        says(user, "read only replica", no_more=["maxmemory"])
        client.replicaof("NO", "ONE")

    server.kill()
    (garden / "gone.md").write_text("Saved while Redis was gone.")
    says(user, "the queue cannot be reached", no_more=["read only replica"])
    server.start()
    is_well(user)
    saved = {f"garden/{name}.md" for name in ("full", "copy", "gone")}
    wait_for(lambda: saved <= set(found(user, "saved while redis was")), "the saves", SAID_WITHIN)


def processes_of(pid, command):
    out = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [int(line.split()[0]) for line in out.stdout.splitlines() if f" {command} " in line]


@pytest.mark.timeout(900)
def test_a_running_service_recreates_deleted_files_and_up_starts_after_a_killed_one(
    user,
):
    process = user.up()
    for file in user.state.glob("cache-garden.*"):
        file.unlink(missing_ok=True)
    wait_for(lambda: "garden/beds/1.md" in found(user, "note 1"), "the new index", SAID_WITHIN)
    for file in user.state.iterdir():
        shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink(missing_ok=True)
    (user.root / "garden" / "late.md").write_text("Saved after the state was deleted.")
    wait_for(lambda: "garden/late.md" in found(user, "saved after the state"), "the new state", SAID_WITHIN)
    is_well(user)

    process.kill()
    process.communicate()
    user.processes.remove(process)
    again = user.start("up", *user.place, "--port", str(user.port))
    user.wait_until_quiet()
    assert again.poll() is None
    is_well(user)
