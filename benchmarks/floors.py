"""Each figure as a multiple of a floor: the least that it could take, measured in the same minutes.

    python -m benchmarks.floors [--notes N] [--rounds N] [--record] [--strict]

The floors are short programs without Everindex: read the files and fill an FTS5 table, embed texts, run FTS5's own
query, walk the folder, hear of a save, import the web server, hold one copy of the index. So a slow hour or another
machine moves a figure and its floor alike. Multiples that are more than a tenth above those of benchmarks/floors.json
are named; `--record` writes them there. `--strict` exits with 1 if one has grown by half.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from benchmarks.command import conditions, parser
from benchmarks.freshness import bare_embedding
from benchmarks.growth import searches_ms, worse
from benchmarks.load import measure as many_clients
from benchmarks.made_up import write_vault
from benchmarks.running import Service, save_to_searchable, tree_memory, wait
from pipelines.cache.cache import SqliteCache
from pipelines.embedding.models import find_model
from queue_config.settings import Settings

RECORD = Path(__file__).parent / "floors.json"
_NOTABLE, _GRAVE = 1.1, 1.5
_CLIENTS = 8
_SETTLE_SECONDS = Settings.model_fields[
    "settle_seconds"
].default  # a file is read when it was quiet for so long
_IDLE_SECONDS = 75.0  # what is released when idle is so after a minute
_INDEX = """
import os, sqlite3, sys
root, file = sys.argv[1:]
con = sqlite3.connect(file)
con.execute("PRAGMA journal_mode = wal")
con.execute("CREATE VIRTUAL TABLE note USING fts5(path, text, tokenize='porter unicode61')")
for folder, _, names in os.walk(root):
    for name in names:
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as opened:
            con.execute("INSERT INTO note VALUES (?, ?)", (path, opened.read()))
con.commit()
"""
_IMPORT = "import numpy, starlette.applications, uvicorn"
Figure = tuple[str, float, float]
"""What was measured, in seconds or bytes, and its floor."""


def measure(service: Service, notes: int, rounds: int) -> Iterator[Figure]:
    """Index a made-up vault and use it; yield each figure with its floor."""
    folder = service.root.parent
    write_vault(service.root, notes)
    began = time.monotonic()
    service.start()
    wait(service.words_done, 0.02)
    words = time.monotonic() - began
    wait(service.all_done, 0.5)
    meaning = time.monotonic() - began
    service.wait_until_quiet()
    service.stop()
    plain = [folder / f"plain-{number}.db" for number in range(rounds)]
    yield "first index, by words", words, median(_run(_INDEX, str(service.root), str(one)) for one in plain)
    yield "first index, by meaning", meaning, bare_embedding(_cache(service.state))[1]
    yield "start to the first answer", *_in_turns(rounds, lambda _: _start(service), lambda _: _run(_IMPORT))
    service.wait_until_quiet()
    yield (
        "a comparison of the vault",
        *_in_turns(rounds, lambda _: _scan(service), lambda _: _walk(service.root)),
    )
    yield (
        "a question",
        *_in_turns(rounds, lambda n: _question(service, n), lambda n: _bare_question(plain[0], n)),
    )
    yield (
        "a save until it is found",
        *_in_turns(rounds, lambda n: _save(service, n), lambda n: _SETTLE_SECONDS + _bare_save(folder, n)),
    )
    yield (
        f"an answer among {_CLIENTS} clients",
        *_in_turns(rounds, lambda _: _answer(service, _CLIENTS), lambda _: _answer(service, 1)),
    )
    time.sleep(_IDLE_SECONDS)
    assert service.process  # noqa: S101 - it was started
    yield "all memory, idle", tree_memory(service.process), _index_bytes(service)


def _in_turns(
    rounds: int, figure: Callable[[int], float], floor: Callable[[int], float]
) -> tuple[float, float]:
    """Measure a figure and its floor in turns; return the medians."""
    pairs = [(figure(number), floor(number)) for number in range(rounds)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def _run(program: str, *given: str) -> float:
    """Return the seconds that a program in Python takes, its start included."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, *given], check=True)
    return time.perf_counter() - began


def _start(service: Service) -> float:
    service.stop()
    began = time.monotonic()
    return service.start() - began


def _scan(service: Service) -> float:
    with service.client() as client:
        client.post("/reload").raise_for_status()
    return float(service.health()["last_reconcile"]["took_ms"]) / 1000


def _walk(root: Path) -> float:
    """Return the seconds in which the files of a folder are listed with their sizes and times."""
    began = time.perf_counter()
    for folder, _, names in os.walk(root):
        for name in names:
            os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - Path is slower, and this is the floor
    return time.perf_counter() - began


def _question(service: Service, number: int) -> float:
    return median(searches_ms(service, number, 20)) / 1000


def _bare_question(plain: Path, number: int) -> float:
    """Return the seconds of FTS5's own query for three common words."""
    with sqlite3.connect(plain) as con:
        times = []
        for at in range(20):
            began = time.perf_counter()
            words = f"qub{'abcdefghij'[at % 10]}o OR qu{'bcdefghij'[number % 9]}o OR quabo"
            con.execute(
                "SELECT path, snippet(note, 1, '', '', '', 30) FROM note WHERE note MATCH ?"
                " ORDER BY bm25(note) LIMIT 10",
                (words,),
            ).fetchall()
            times.append(time.perf_counter() - began)
    return median(times)


def _save(service: Service, number: int) -> float:
    return median(save_to_searchable(service, 5, number))


def _bare_save(folder: Path, number: int) -> float:
    """Return the seconds from a save until a program that watches the folder has committed its text to FTS5."""
    watched, committed = folder / f"watched-{number}", threading.Event()
    watched.mkdir()
    database = folder / f"watched-{number}.db"

    class Index(FileSystemEventHandler):
        def on_closed(self, event: FileSystemEvent) -> None:
            with sqlite3.connect(database) as con:
                con.execute("INSERT INTO note VALUES (?)", (Path(os.fsdecode(event.src_path)).read_text(),))
            committed.set()

    with sqlite3.connect(database) as con:
        con.execute("PRAGMA journal_mode = wal")
        con.execute("CREATE VIRTUAL TABLE note USING fts5(text)")
    observer = Observer()
    observer.schedule(Index(), str(watched))
    observer.start()
    try:
        began = time.perf_counter()
        (watched / "note.md").write_text("A line about gardens.\n")
        if not committed.wait(10):
            raise TimeoutError(f"no event came for a file that was written to {watched}")
        return time.perf_counter() - began
    finally:
        observer.stop()
        observer.join()


def _answer(service: Service, clients: int) -> float:
    """Return the seconds for each answer while clients ask without a pause."""
    seconds = 5.0
    return seconds / len(many_clients(service, clients, seconds))


def _index_bytes(service: Service) -> float:
    """Return the bytes of one copy of what answers need: the index, and the weights of its model."""
    file = Path(_cache(service.state))
    with closing(SqliteCache.open(file)) as cache:
        model = find_model(cache.meta.model)
    weights = [model.weights] if model.is_packed else model.folder.rglob("*")
    return float(sum(one.stat().st_size for one in (file, *weights) if one.is_file()))


def _cache(state: Path) -> str:
    (file,) = state.glob("cache-*.db")
    return str(file)


def report(figures: Sequence[Figure], then: dict[str, float]) -> Table:
    """Return the table of multiples, now and in the record."""
    table = Table("what", "measured", "floor", "multiple", "in the record")
    for name, value, floor in figures:
        unit, shown = ("MB", 1e-6) if "memory" in name else ("ms", 1e3)
        known = f"{then[name]:.2f}" if name in then else ""
        table.add_row(
            name,
            f"{value * shown:,.1f} {unit}",
            f"{floor * shown:,.1f} {unit}",
            f"{value / floor:.2f}",
            known,
        )
    return table


def main() -> None:
    """Measure, print and compare with the record."""
    options = parser(__doc__)
    options.add_argument("--notes", type=int, default=2_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--record", action="store_true", help=f"write the multiples to {RECORD.name}")
    options.add_argument("--strict", action="store_true", help="exit with 1 if a multiple has grown by half")
    given = options.parse_args()
    console = Console(width=120)
    then = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder, "vault"), Path(folder, "state"))
        try:
            for figure in measure(service, given.notes, given.rounds):
                print(f"  {figure[0]}: {figure[1] / figure[2]:.2f}", file=sys.stderr, flush=True)
                figures.append(figure)
        finally:
            service.stop()
    now = {name: round(value / floor, 3) for name, value, floor in figures}
    console.print(report(figures, then.get("multiples", {})))
    console.print(f"{conditions()}; the record: {then.get('measured', 'none')}")
    for line in worse(now, then.get("multiples", {}), _NOTABLE):
        console.print(f"above the record by more than a tenth: {line}", style="red")
    if given.record:
        RECORD.write_text(json.dumps({"measured": conditions(), "multiples": now}, indent=1) + "\n")
    if given.strict and worse(now, then.get("multiples", {}), _GRAVE):
        sys.exit(1)


if __name__ == "__main__":
    main()
