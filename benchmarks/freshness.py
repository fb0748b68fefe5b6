"""How soon a saved note is findable, what is never embedded twice, what a first index and a restart cost.

    python -m benchmarks.freshness [--data FOLDER] [--vault NAME] [--notes N] [--saves N] [--queue embedded|redis]

Starts `everindex up` with the embedded model on a copy of each vault, and measures from outside, over HTTP. With
`--notes` the vault is made of that many of all the notes and documents below --data.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, p95, parser, present
from benchmarks.judged import COLLECTIONS
from benchmarks.running import Service, redis_server, sampled, save_to_searchable, wait

VAULTS = ("vault-foam-docs", "vault-knowledge-garden")
_QUESTIONS = 150
_RESTARTS = 5
_RESTART = ("the API answers", "the watcher hears", "ready, the model included", "scan")
_FEWEST_WORDS = 20
_BARE = """
import os, sys, time
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
from pipelines.cache.cache import SqliteCache
from pathlib import Path
cache = SqliteCache.open(Path(sys.argv[1]))
texts = [t for (t,) in cache.con.execute("SELECT DISTINCT text FROM vault_chunk")]
embedder = Embedder(find_model(cache.meta.model), threads=os.cpu_count(), library="torch")
started = time.perf_counter()
embedder.encode_documents(texts)
print(len(texts), time.perf_counter() - started)
"""
Row = tuple[str, str]
"""What was measured, and the result."""


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


def write_vault(root: Path, texts: Sequence[str]) -> None:
    """Write one note per text, in folders of a hundred."""
    for n, text in enumerate(texts):
        file = root / f"{n // 100:03}" / f"note {n}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def measure(service: Service, saves: int) -> Iterator[Row]:
    """Run every check on a service's vault; yield what was measured, a row at a time."""
    began = time.monotonic()
    up = service.start()
    yield "processes up", f"{up - began:.1f} s"
    try:
        yield from _first_index(service, up)
        yield "files on disk / accounted for", " / ".join(map(str, accounted(service)))
        yield "save to searchable, idle", _spread(save_to_searchable(service, saves, 1))
        yield from _edits_and_moves(service)
        yield from _restart(service)
        yield from _saves_during_a_scan(service, saves)
        yield from _questions_during_a_scan(service)
    finally:
        service.stop()


def _first_index(service: Service, up: float) -> Iterator[Row]:
    with sampled(lambda: service.memory().get("worker", 0), 1.0) as seen:
        wait(service.words_done)
        words = time.monotonic() - up
        wait(service.all_done, 1.0)
        meaning = time.monotonic() - up
    domains = service.health()["domains"].values()
    notes, vectors = (sum(domain[what] for domain in domains) for what in ("notes", "vectors"))
    yield "notes searchable by word, after the processes are up", f"{notes} in {words:.1f} s"
    yield "searchable by meaning", f"{vectors} passages in {meaning:.1f} s"
    yield "texts embedded per second", f"{service.embedded() / meaning:.1f}"
    memory = [rss for rss in seen if rss]  # the worker starts last
    quarter = max(1, len(memory) // 4)
    ends = statistics.mean(memory[:quarter]), statistics.mean(memory[-quarter:]), max(memory)
    told = " / ".join(f"{rss / 1e6:.0f}" for rss in ends)
    yield "the worker's memory: first quarter / last quarter / most", f"{told} MB"
    # At once: what is compared later is compared on another machine, where others use it, too.
    service.stop()
    texts, seconds = bare_embedding(next(iter(domains))["cache"])
    yield "bare embedding of the same texts", f"{texts} in {seconds:.1f} s"
    yield "by meaning / bare", f"{meaning / seconds:.2f}"
    service.start()
    began = time.monotonic()
    service.wait_until_quiet()
    yield "what follows is done (ranks, sentences), after", f"{time.monotonic() - began:.0f} s"


def bare_embedding(cache: str) -> tuple[int, float]:
    """Embed the texts of a cache with the embedder alone, in a separate process; return how many, and the seconds."""
    answer = subprocess.run([sys.executable, "-c", _BARE, cache], capture_output=True, text=True, check=True)
    texts, seconds = answer.stdout.split()
    return int(texts), float(seconds)


def accounted(service: Service) -> tuple[int, int]:
    """Return the Markdown files on disk and those that `status` accounts for."""
    on_disk = sum(1 for p in service.root.rglob("*") if p.suffix.lower() in (".md", ".markdown"))
    domains = service.health()["domains"].values()
    return on_disk, sum(d["notes"] + d["parked"] + d["ignored"] + d["pending"] for d in domains)


def _edits_and_moves(service: Service) -> Iterator[Row]:
    root = service.root
    note = root / "twenty sections.md"
    text = "\n\n".join(f"## Section {n}\n\nThe {n}th part of a long note on gardens." for n in range(20))
    note.write_text(text)
    time.sleep(2)
    wait(service.all_done)
    edited = text.replace("The 7th part", "The seventh and edited part")
    folders = (path for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
    folder = max(folders, key=lambda path: len(list(path.rglob("*"))))
    moved = len(list(folder.rglob("*.md")))
    for what, change in (
        ("one section of twenty edited", lambda: note.write_text(edited)),
        ("a note renamed", lambda: note.rename(root / "renamed sections.md")),
        (f"a folder of {moved} notes moved", lambda: folder.rename(root / "moved folder")),
    ):
        yield f"texts embedded: {what}", str(_embeds(service, change))
    with service.client() as client:
        answer = client.get("/search", params={"q": "gardens part of a long note", "k": 50}).json()
    yield "hits whose file is gone", str(sum(not (root / hit["path"]).exists() for hit in answer["results"]))


def _embeds(service: Service, change: Callable[[], object]) -> int:
    before = service.embedded()
    change()
    time.sleep(4)
    wait(service.all_done)
    return service.embedded() - before


def _restart(service: Service) -> Iterator[Row]:
    """Start the service some times on the index of an unchanged vault; yield the medians. It runs on."""
    before, found = service.embedded(), []
    for _ in range(_RESTARTS):
        service.stop()
        found.append(_restart_seconds(service))
    for what, seconds in zip(_RESTART, zip(*found, strict=True), strict=True):
        yield f"restart: {what}", f"{statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s"
    time.sleep(5)
    wait(service.all_done)
    yield "restart: texts embedded", str(service.embedded() - before)


def _restart_seconds(service: Service) -> tuple[float, float, float, float]:
    """Return the seconds that `_RESTART` names."""
    began, wall = time.monotonic(), datetime.now(UTC)
    answers = service.start() - began
    wait(lambda: service.compared_since(began) and service.ready(), 0.05)
    ready = time.monotonic() - began
    watching = datetime.fromisoformat(service.logged("watcher", "watching")[-1]["timestamp"])
    scan = service.health()["last_reconcile"]["took_ms"] / 1000
    return answers, (watching - wall).total_seconds(), ready, scan


def _saves_during_a_scan(service: Service, saves: int) -> Iterator[Row]:
    # The vault's own notes once more, under new names and with new words.
    root = service.root
    source = sorted((root / "moved folder").rglob("*.md"))
    (root / "again").mkdir()
    for n in range(3000):
        body = source[n % len(source)].read_text(errors="replace")
        (root / "again" / f"{n}.md").write_text(f"# Again {n}\n\n{body}")
    yield "save to searchable, while 3,000 notes are indexed", _spread(save_to_searchable(service, saves, 2))


def _questions_during_a_scan(service: Service) -> Iterator[Row]:
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


def _spread(seconds: list[float]) -> str:
    middle, worst = statistics.median(seconds), max(seconds)
    return f"median {middle:.3f} s, 95th {p95(seconds):.3f} s, worst {worst:.3f} s (n = {len(seconds)})"


def main() -> None:
    """Measure, and print one table per vault and queue."""
    options = parser(__doc__, data=True)
    options.add_argument("--vault", action="append", help="a folder's name below --data; default: two")
    options.add_argument("--notes", type=int, help="make a vault of as many notes")
    options.add_argument("--saves", type=int, default=50)
    options.add_argument("--queue", choices=("embedded", "redis", "both"), default="both")
    given = options.parse_args()
    console = Console(width=120)
    queues = ("embedded", "redis") if given.queue == "both" else (given.queue,)
    names = [f"{given.notes} notes"] if given.notes else present(given.vault or VAULTS, given.data, console)
    for name in names:
        for queue in queues:
            table = Table("what", "measured", title=f"{name}, {queue} queue")
            with (
                tempfile.TemporaryDirectory() as folder,
                redis_server() if queue == "redis" else nullcontext() as url,
            ):
                root = Path(folder, "vault")
                if given.notes:
                    write_vault(root, real_texts(given.data)[: given.notes])
                else:
                    shutil.copytree(given.data / name / "vault", root)
                for what, measured in measure(Service(root, Path(folder, "state"), url), given.saves):
                    print(f"  {what}: {measured}", file=sys.stderr, flush=True)
                    table.add_row(what, measured)
            console.print(table)
    console.print(conditions())


if __name__ == "__main__":
    main()
