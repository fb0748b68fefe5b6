"""A large vault of real notes: its first index, an unchanged restart, saves in it; one worker, or two.

    python -m benchmarks.bulk [--data FOLDER] [--notes N] [--queue embedded|redis] [--workers 1|2] [--keep FOLDER]

Starts `everindex up` with the embedded model on notes made of the texts below --data, and measures from outside.
Two workers share a Redis queue; they are measured after one worker on the same notes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.freshness import Service, bare_embedding, p95, redis_server, wait
from benchmarks.judged import COLLECTIONS, DATA
from benchmarks.saves import SAVES, SETTLE_MS, one_text_ms, spread, timed_saves

SMALL = 100
_RESTARTS = 5
_RESTART_WANTED = {
    "the API answers": "1 s",
    "the watcher hears": "1 s",
    "ready, the model included": "5 s",
    "scan": "0.3 s",
}
_FEWEST_WORDS = 20
_ROLES = {"watch": "watcher", "work": "worker", "serve": "query"}
Row = tuple[str, str, str]
"""What was measured, the result, and the goal."""


def real_texts(data: Path) -> list[str]:
    """Return the texts below a data folder, shuffled by a fixed seed: no two equal, none of a few words only."""
    texts = set()
    for name in COLLECTIONS:
        if (corpus := data / name / "corpus.jsonl").exists():
            for document in map(json.loads, corpus.read_text(encoding="utf-8").splitlines()):
                texts.add(f"# {document['title'] or 'Untitled'}\n\n{document['text']}\n")
    for file in data.glob("vault-*/vault/**/*.md"):
        if file.is_file():
            texts.add(file.read_text(encoding="utf-8", errors="replace"))
    long_enough = sorted(text for text in texts if len(text.split()) >= _FEWEST_WORDS)
    random.Random(1).shuffle(long_enough)  # noqa: S311 - an order, not a secret
    return long_enough


def write_vault(root: Path, texts: list[str]) -> None:
    """Write one note per text, in folders of a hundred; notes that exist already stay."""
    for n, text in enumerate(texts):
        file = root / f"{n // 100:03}" / f"note {n}.md"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def processes() -> list[tuple[str, psutil.Process]]:
    """Return the service's processes that this one started, directly or not, with their roles."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if "service.cli" in command and (role := _ROLES.get(command[command.index("service.cli") + 1])):
            found.append((role, process))
    return sorted(found, key=lambda one: one[0])


@contextmanager
def worker_memory() -> Iterator[list[int]]:
    """Yield a list that grows by one number per second: the resident bytes of the largest worker."""
    workers = [process for role, process in processes() if role == "worker"]
    samples = [max(process.memory_info().rss for process in workers)]
    stopped = threading.Event()

    def sample() -> None:
        while not stopped.wait(1.0):
            samples.append(max(process.memory_info().rss for process in workers))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        thread.join()


@contextmanager
def second_worker(service: Service) -> Iterator[None]:
    """Run another worker beside the service's own; its log lies beside the others."""
    command = [sys.executable, "-m", "service.cli", "work", *service.place]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "REDIS_URL": service.redis_url or ""}
    with (service.state / "logs" / "worker-2.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def logged(service: Service, name: str, event: str) -> list[dict[str, Any]]:
    """Return the lines of an event in the logs of a process (`worker*`: of all workers)."""
    lines = []
    for log in (service.state / "logs").glob(f"{name}.log"):
        lines += [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == event]


def told_first_index(service: Service, workers: int) -> Iterator[Row]:
    """Index a vault for the first time; yield what that took. The service runs on, with one worker."""
    with ExitStack() as stack:
        up = service.start()
        if workers == 2:
            stack.enter_context(second_worker(service))
            wait(lambda: sum(role == "worker" for role, _ in processes()) == 2)
        memory = stack.enter_context(worker_memory())
        wait(service.words_done)
        yield "all notes searchable by word", f"{time.monotonic() - up:.1f} s", ""
        wait(service.all_done, 1.0)
        meaning = time.monotonic() - up
        (domain,) = service.health()["domains"].values()
        found = f"{domain['notes']} notes, {domain['vectors']} passages"
        yield "all notes searchable by meaning", f"{meaning:.1f} s, {found}", ""
        for role, process in processes():
            times, age = process.cpu_times(), time.time() - process.create_time()
            share = (times.user + times.system) / age
            yield (
                f"processor time of the {role} ({process.pid})",
                f"{share:.2f} of {os.cpu_count()} cores",
                "",
            )
    texts = sum(line.get("embedded", 0) for line in logged(service, "worker*", "job done"))
    yield "texts embedded", f"{texts}, {texts / meaning:.1f} a second", ""
    quarter = max(1, len(memory) // 4)
    ends = statistics.mean(memory[:quarter]), statistics.mean(memory[-quarter:]), max(memory)
    told = " / ".join(f"{rss / 1e6:.0f}" for rss in ends)
    yield "largest worker's memory: first quarter / last quarter / most", f"{told} MB", "flat, 1500 MB"
    if workers == 1:
        # At once: what is compared later is compared on another machine, where others use it, too.
        service.stop()
        texts_done, bare = bare_embedding(domain["cache"])
        yield f"bare embedding of the same {texts_done} texts", f"{bare:.1f} s", ""
        yield "by meaning / bare", f"{meaning / bare:.2f}", "1.15"
        service.start()
    began = time.monotonic()
    service.wait_until_quiet()
    yield "what follows is done (ranks, sentences), after", f"{time.monotonic() - began:.0f} s", ""


def compared_since(service: Service, moment: float) -> bool:
    """Say whether disk and ledger were compared after a moment of the monotonic clock."""
    h = service.health()
    return bool(h) and h["last_reconcile"]["age_s"] < time.monotonic() - moment


def told_restart(service: Service) -> Iterator[Row]:
    """Start the service some times on the index of an unchanged vault; yield the medians. It runs on."""
    before, found = service.embedded(), []
    for _ in range(_RESTARTS):
        service.stop()
        found.append(_restart_seconds(service))
    for (what, wanted), seconds in zip(_RESTART_WANTED.items(), zip(*found, strict=True), strict=True):
        yield f"restart: {what}", f"{statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s", wanted
    time.sleep(5)
    wait(service.all_done)
    yield "restart: texts embedded", str(service.embedded() - before), "0"


def _restart_seconds(service: Service) -> tuple[float, float, float, float]:
    """Return the seconds that `_RESTART_WANTED` names."""
    began, wall = time.monotonic(), datetime.now(UTC)
    answers = service.start() - began
    wait(lambda: compared_since(service, began) and service.ready(), 0.05)
    ready = time.monotonic() - began
    watching = datetime.fromisoformat(logged(service, "watcher", "watching")[-1]["timestamp"])
    scan = service.health()["last_reconcile"]["took_ms"] / 1000
    return answers, (watching - wall).total_seconds(), ready, scan


def told_saves(service: Service, saves: int) -> Iterator[Row]:
    """Save notes in a large vault and in a small one; yield how long each took, and where the time went."""
    service.wait_until_quiet()
    large = timed_saves(service, saves)
    service.stop()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "vault")
        for note in sorted(service.root.glob("000/*.md")):
            (root / note.parent.name).mkdir(parents=True, exist_ok=True)
            (root / note.parent.name / note.name).write_bytes(note.read_bytes())
        other = Service(root, Path(folder, "state"), service.redis_url)
        other.start()
        try:
            other.wait_until_quiet()
            small = timed_saves(other, saves)
        finally:
            other.stop()
    embedding = one_text_ms()
    yield "one text, by the embedder alone", f"{embedding:.1f} ms", ""
    for name, done in (("this vault", large), (f"a vault of {SMALL} notes", small)):
        yield f"save to searchable in {name}", spread([save.total for save in done]), ""
        wanted = "15 ms" if service.redis_url else "30 ms"
        own = [save.committed - SETTLE_MS - embedding for save in done]
        yield "  until committed, less settling and embedding", spread(own), wanted
        yield "    until queued, less settling", spread([save.watcher - SETTLE_MS for save in done]), ""
        yield "    on the queue", spread([save.queue for save in done]), ""
        yield "    until committed, less embedding", spread([save.job - embedding for save in done]), ""
        yield "  the question that finds it", spread([save.question for save in done]), ""
    ratios = [
        measured([s.total for s in large]) / measured([s.total for s in small])
        for measured in (statistics.median, p95)
    ]
    yield "large / small: median, 95th", ", ".join(f"{r:.2f}" for r in ratios), "1.20"


def measure(root: Path, states: Path, redis_url: str | None, workers: int) -> Iterator[Row]:
    """Run every check on a vault; yield what was measured, a row at a time."""
    service = Service(root, states / "one worker", redis_url)
    try:
        yield from told_first_index(service, 1)
        if workers == 1:
            yield from told_restart(service)
            yield from told_saves(service, SAVES)
        else:
            service.stop()
            service = Service(root, states / "two workers", redis_url)
            for what, measured, wanted in told_first_index(service, 2):
                yield f"two workers: {what}", measured, wanted
    finally:
        service.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--queue", choices=("embedded", "redis"), default="embedded")
    parser.add_argument("--workers", type=int, choices=(1, 2), default=1)
    parser.add_argument(
        "--keep", type=Path, help="the notes stay here for the next run, and so do the indexes"
    )
    given = parser.parse_args()
    console = Console(width=120)
    if given.notes < SMALL:
        parser.error(f"a large vault has {SMALL} notes at least")
    if given.workers == 2 and given.queue != "redis":
        parser.error("two workers share a Redis queue: add --queue redis")
    texts = real_texts(given.data)
    if len(texts) < given.notes:
        console.print(f"not measured: {given.data} has {len(texts)} different texts, not {given.notes}")
        return
    texts = texts[: given.notes]
    words = statistics.mean(len(text.split()) for text in texts)
    table = Table(
        "what", "measured", "wanted", title=f"{len(texts)} notes of {words:.0f} words, {given.queue} queue"
    )
    with ExitStack() as stack:
        base = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root = base / f"vault-{given.notes}"
        write_vault(root, texts)
        states = Path(tempfile.mkdtemp(prefix="state-", dir=base))
        url = stack.enter_context(redis_server()) if given.queue == "redis" else None
        for row in measure(root, states, url, given.workers):
            print(f"  {row[0]}: {row[1]}", file=sys.stderr, flush=True)
            table.add_row(*row)
    console.print(table)
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    console.print(f"{when}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
