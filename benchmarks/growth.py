"""How the cost of everything grows with the vault: 1,000, 10,000 and 100,000 notes.

    python -m benchmarks.growth [--sizes N ...] [--against FILE] [--record FILE]

The vaults are made up (words by Zipf's law, scale-free links), the model is the tests' tiny one with random
weights, so that what is measured is everything but the model; the service is the real one.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, p95, parser
from benchmarks.made_up import WORDS, word, write_vault
from benchmarks.running import Service, save_to_searchable, wait
from pipelines.cache.cache import SqliteCache
from pipelines.indexing.ingest import index_saved
from pipelines.indexing.reconcile import check_paths
from pipelines.notes.chunk import chunk_note
from pipelines.notes.markdown import read_note
from pipelines.sqlite import one
from queue_config.settings import Settings
from tests.tiny import build_tiny_model
from workers.models import chosen_chunking
from workers.resources import Resources

CHART = Path(__file__).parents[1] / "docs" / "growth.svg"
SIZES = (1_000, 10_000, 100_000)
WORSE = 1.25
_SAMPLE = 1_000
_ROUNDS = 5
_A_ROUND = 10
# Measured minutes apart, on a machine whose speed drifts: shown, but their ratios mean nothing.
_ONCE = " of 1,000 notes, s"
_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 360" font-family="sans-serif" font-size="12">
<title>Growth with the number of notes, by the smallest vault's figures</title>
<rect width="760" height="360" fill="#fff"/>
{marks}
</svg>
"""
Figures = dict[str, float]
"""What was measured at one size, by what it is; each so that no growth means the same number at every size."""
Measured = TypeVar("Measured")
Subject = TypeVar("Subject")
_Saver = Callable[[str, int], tuple[float, float]]


def first_index(service: Service, size: int) -> Iterator[tuple[str, float]]:
    """Index a vault of a size for the first time, and stop; yield what that took, a figure at a time."""
    write_vault(service.root, size)
    service.start()
    wait(service.words_done)
    words = datetime.now(UTC)
    (watching,) = service.logged("watcher", "watching")
    began = datetime.fromisoformat(watching["timestamp"])
    yield f"words{_ONCE}", (words - began).total_seconds() * 1000 / size
    wait(service.all_done, 1.0)
    yield f"first index{_ONCE}", (datetime.now(UTC) - began).total_seconds() * 1000 / size
    # Without the loading of the model, which is most of a small vault's time.
    jobs = sum(job["ms"] for job in service.logged("worker", "job done") if job["task"] == "drain")
    yield f"index jobs{_ONCE}", jobs / size
    service.wait_until_quiet()
    yield "index jobs / bare embedding", jobs / 1000 / size / _bare_seconds(service.root, service.state)
    yield "memory of the worker after it, MB", service.memory()["worker"] / 1e6
    (domain,) = service.health()["domains"].values()
    service.stop()
    cache = SqliteCache.open(Path(domain["cache"]))
    # Not the file's size: some of it may still be in the journal.
    (stored,) = one(cache.con, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    cache.close()
    yield "database, bytes a note", stored / size


def _bare_seconds(root: Path, state: Path) -> float:
    """Return how long the embedder alone takes for the texts of one note."""
    resources = Resources(Settings(vault=root, state=state))
    (domain,) = resources.domains()
    embedder = resources.embedders.get(resources.model_of(domain).name)
    chunking = chosen_chunking(resources.settings, embedder.info, domain)
    paths = sorted(root.rglob("note-*.md"))[:_SAMPLE]
    texts = [c.text for p in paths for c in chunk_note(read_note(p.name, p.read_bytes()), chunking)]
    embedder.encode_documents(texts[:100])
    started = time.perf_counter()
    embedder.encode_documents(texts)
    return (time.perf_counter() - started) / len(paths)


def in_turns(services: Mapping[int, Service]) -> Iterator[tuple[str, dict[int, float]]]:
    """Ask indexed vaults of all sizes the same things, round by round, so that a machine's drift affects them alike.

    Yield what was measured, by size.
    """
    scans = _rounds(_scan_ms, services)
    per_note = {size: [1000 * scan / size for scan in scans[size]] for size in scans}
    yield "scan of 1,000 unchanged notes, ms", _medians(per_note)
    for service in services.values():
        service.start()
    for service in services.values():
        service.wait_until_quiet()
    _rounds(searches_ms, services)
    saves = _rounds(_saves_ms, services)
    yield "save to searchable, median, ms", _medians(saves)
    yield "save to searchable, 95th, ms", {size: p95(ms) for size, ms in saves.items()}
    yield "search, median, ms", _medians(_rounds(searches_ms, services))
    memory = {size: service.memory() for size, service in services.items()}
    for role in memory[min(memory)]:
        yield f"memory of the {role}, MB", {size: of_roles[role] / 1e6 for size, of_roles in memory.items()}
    for service in services.values():
        service.stop()
    savers = {size: _saver(service.root, service.state) for size, service in services.items()}
    # Everindex looks for both forms of a name that Unicode can write in two ways.
    for name, place in (("a note", "{0:03}/note-{0}{0:02}.md"), ("an accented name", "Größe {0}.md")):
        took = _rounds(partial(_by_itself, place), savers)
        for part, what in enumerate(("looked at", "committed")):
            parts = {size: [pair[part] for pair in pairs] for size, pairs in took.items()}
            yield f"{name} saved, {what}, ms", _medians(parts)


def _rounds(
    measure: Callable[[Subject, int], list[Measured]], subjects: Mapping[int, Subject]
) -> dict[int, list[Measured]]:
    found: dict[int, list[Measured]] = {size: [] for size in subjects}
    for number in range(_ROUNDS):
        for size, subject in subjects.items():
            found[size] += measure(subject, number)
    return found


def _medians(found: Mapping[int, list[float]]) -> dict[int, float]:
    return {size: statistics.median(values) for size, values in found.items()}


def _scan_ms(service: Service, _round: int) -> list[float]:
    restarted = time.monotonic()
    service.start()
    wait(lambda: service.compared_since(restarted))
    scan = service.health()["last_reconcile"]["took_ms"]
    service.stop()
    return [scan]


def _saves_ms(service: Service, number: int) -> list[float]:
    return [1000 * seconds for seconds in save_to_searchable(service, _A_ROUND, number)]


def searches_ms(service: Service, number: int, questions: int = _A_ROUND) -> list[float]:
    """Return the milliseconds of some questions of three words that many notes have; `number` seeds them."""
    chance, found = np.random.default_rng(number), []
    with service.client() as client:
        for _ in range(questions):
            q = " ".join(word(w) for w in np.minimum(chance.zipf(1.3, 3), WORDS))
            started = time.perf_counter()
            client.get("/search", params={"q": q}).raise_for_status()
            found.append(1000 * (time.perf_counter() - started))
    return found


def _saver(root: Path, state: Path) -> _Saver:
    """Return what does by hand what the watcher and the worker do for a save, and how many milliseconds each took."""
    resources = Resources(Settings(vault=root, state=state))
    (domain,) = resources.domains()
    cache = resources.cache(domain)
    resources.embedders.get(cache.meta.model)

    def save(path: str, number: int) -> tuple[float, float]:
        with (root / path).open("a", encoding="utf-8") as file:
            file.write(f"\nEdited, for the {number}th time.\n")
        started = time.perf_counter()
        check_paths(root, resources.registry(), {domain.slug: cache}, [path], max_bytes=10**6)
        looked = time.perf_counter()
        outcome = index_saved(cache, resources.ingest(domain, cache))
        if outcome.committed != 1:
            raise RuntimeError(f"{path} was saved and not indexed: {outcome}")
        return 1000 * (looked - started), 1000 * (time.perf_counter() - looked)

    return save


def _by_itself(place: str, save: _Saver, number: int) -> list[tuple[float, float]]:
    return [save(place.format(n % 9 + 1), _A_ROUND * number + n) for n in range(_A_ROUND)]


def ratios(figures: Mapping[int, Figures]) -> Figures:
    """Return how much each figure grows from a size to the next, and what it is of the bare embedding."""
    found = {}
    for (small, first), (large, second) in pairwise(sorted(figures.items())):
        for name in first.keys() & second.keys():
            if not name.endswith(_ONCE):
                found[f"{name}: {large} / {small} notes"] = second[name] / first[name]
    for size, of_size in figures.items():
        found |= {f"{name}: {size} notes": value for name, value in of_size.items() if "/ bare" in name}
    return dict(sorted(found.items()))


def worse(now: Figures, then: Figures, by: float = WORSE) -> list[str]:
    """Name the ratios that are more than `by` times those of an earlier record."""
    return [
        f"{name}: {now[name]:.2f}, was {then[name]:.2f}"
        for name in sorted(now.keys() & then.keys())
        if now[name] > by * then[name]
    ]


def chart(figures: Mapping[int, Figures]) -> str:
    """Draw each time by its value in the smallest vault, both axes logarithmic, as SVG."""
    sizes = sorted(figures)
    timed = [name for name in figures[sizes[0]] if name.endswith((", s", ", ms"))]
    lines = {name: [figures[size][name] / figures[sizes[0]][name] for size in sizes] for name in timed}
    lines["proportional to the notes"] = [size / sizes[0] for size in sizes]
    top = np.log10(sizes[-1] / sizes[0])

    def place(size: int, value: float) -> tuple[float, float]:
        return 50 + 380 * np.log10(size / sizes[0]) / top, 240 - 210 * np.log10(value) / top

    marks = [
        f'<text x="{place(size, 1)[0]:.0f}" y="340" text-anchor="middle">{size:,} notes</text>'
        for size in sizes
    ]
    for times in (size // sizes[0] for size in sizes):
        y = place(sizes[0], times)[1]
        marks.append(
            f'<path d="M50 {y:.0f}H430" stroke="#ddd"/><text x="44" y="{y + 4:.0f}" text-anchor="end">{times}x</text>'
        )
    by_end = sorted(lines, key=lambda name: -lines[name][-1])
    for at, name in enumerate(by_end):
        colour = f"hsl({137 * at % 360},70%,35%)"  # neighbours differ
        points = " ".join(
            "{:.1f},{:.1f}".format(*place(*one)) for one in zip(sizes, lines[name], strict=True)
        )
        dashes = ' stroke-dasharray="5 4"' if name.startswith("proportional") else ""
        marks.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        label = f"{lines[name][-1]:.2f}x {name}"
        marks.append(f'<text x="440" y="{34 + 24 * at}" fill="{colour}">{label}</text>')
    return _SVG.format(marks="\n".join(marks))


def report(figures: Mapping[int, Figures], console: Console) -> None:
    """Print a table of all figures, and draw them where there are several sizes."""
    sizes = sorted(figures)
    table = Table(
        "what", *(f"{size:,} notes" for size in sizes), title="the tests' tiny model, embedded queue"
    )
    for name in figures[sizes[0]]:
        table.add_row(name, *(f"{figures[size].get(name, float('nan')):,.2f}" for size in sizes))
    console.print(table)
    console.print(conditions())
    if len(sizes) > 1:
        CHART.write_text(chart(figures), encoding="utf-8")
        console.print(f"drawn in {CHART}")


def main() -> None:
    """Measure, print and compare; exit with 1 where a ratio is worse than that of the record."""
    options = parser(__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--against", type=Path, help="a record to compare the ratios with")
    options.add_argument("--record", type=Path, help="where to write the ratios, as JSON")
    given = options.parse_args()
    if min(given.sizes) < SIZES[0]:
        options.error(f"sizes begin at {SIZES[0]} notes")
    console = Console(width=120)
    figures: dict[int, Figures] = {}
    then = json.loads(given.against.read_text()) if given.against else {}
    with tempfile.TemporaryDirectory() as folders:
        os.environ["EMBEDDING_MODEL"] = str(build_tiny_model(Path(folders, "model")))
        services: dict[int, Service] = {}
        try:
            for size in sorted(set(given.sizes)):
                folder = Path(folders, str(size))
                services[size] = Service(folder / "vault", folder / "state")
                figures[size] = {}
                for name, value in first_index(services[size], size):
                    print(f"{size} notes: {name}: {value:.2f}", file=sys.stderr, flush=True)
                    figures[size][name] = value
            for name, values in in_turns(services):
                print(f"{name}: {values}", file=sys.stderr, flush=True)
                for size, value in values.items():
                    figures[size][name] = value
        finally:
            for service in services.values():
                service.stop()
    report(figures, console)
    now = ratios(figures)
    if given.record:
        given.record.write_text(json.dumps(now, indent=1) + "\n")
    grown = worse(now, then)
    for line in grown:
        console.print(f"worse: {line}", style="red")
    if grown:
        sys.exit(1)


if __name__ == "__main__":
    main()
