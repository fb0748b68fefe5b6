"""How the cost of everything grows with the vault: 1,000, 10,000 and 100,000 notes.

    python -m benchmarks.growth [--sizes N ...] [--against FILE] [--record FILE]

The vaults are made up (words by Zipf's law, scale-free links), the model is the tests' tiny one with random
weights, so that what is measured is everything but the model; the service is the real one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bulk import compared_since, logged, processes
from benchmarks.freshness import Service, p95, save_to_searchable, wait
from benchmarks.made_up import WORDS, word, write_vault
from benchmarks.saves import SAVES
from pipelines.chunk import chunk_note
from pipelines.ingest import index_saved
from pipelines.markdown import read_note
from pipelines.reconcile import check_paths
from queue_config.settings import Settings
from tests.tiny import build_tiny_model
from workers.resources import Resources

CHART = Path(__file__).parents[1] / "docs" / "growth.svg"
SIZES = (1_000, 10_000, 100_000)
WORSE = 1.25
_SAMPLE = 1_000
_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 360" font-family="sans-serif" font-size="12">
<title>Growth with the number of notes, by the smallest vault's figures</title>
<rect width="720" height="360" fill="#fff"/>
{marks}
</svg>
"""
Figures = dict[str, float]
"""What was measured at one size, by what it is; each so that no growth means the same number at every size."""


def measure(size: int, folder: Path) -> Iterator[tuple[str, float]]:
    """Index a vault of a size and ask what each thing costs; yield it, a figure at a time."""
    root, state = folder / "vault", folder / "state"
    write_vault(root, size)
    service = Service(root, state, None)
    try:
        service.start()
        wait(service.words_done)
        words = datetime.now(UTC)
        (watching,) = logged(service, "watcher", "watching")
        began = datetime.fromisoformat(watching["timestamp"])
        yield "words of 1,000 notes, s", (words - began).total_seconds() * 1000 / size
        wait(service.all_done, 1.0)
        yield "first index of 1,000 notes, s", (datetime.now(UTC) - began).total_seconds() * 1000 / size
        # Without the loading of the model, which is most of a small vault's time.
        jobs = sum(job["ms"] for job in logged(service, "worker", "job done") if job["task"] == "drain")
        yield "index jobs of 1,000 notes, s", jobs / size
        service.wait_until_quiet()
        yield "index jobs / bare embedding", jobs / 1000 / size / _bare_seconds(root, state)
        saves = save_to_searchable(service, SAVES, 1)
        yield "save to searchable, median, ms", 1000 * statistics.median(saves)
        yield "save to searchable, 95th, ms", 1000 * p95(saves)
        yield "search, median, ms", _search_ms(service)
        for role, process in processes():
            yield f"memory of the {role}, MB", process.memory_info().rss / 1e6
        service.stop()
        yield "database, bytes a note", sum(f.stat().st_size for f in state.glob("cache-*.db*")) / size
        restarted = time.monotonic()
        service.start()
        wait(lambda: compared_since(service, restarted))
        scan = service.health()["last_reconcile"]["found"]["took_ms"]
        yield "scan of 1,000 unchanged notes, ms", 1000 * scan / size
    finally:
        service.stop()
    yield from _save_by_itself(root, state)


def _bare_seconds(root: Path, state: Path) -> float:
    """Return how long the embedder alone takes for the texts of one note."""
    resources = Resources(Settings(vault=root, state=state))
    (domain,) = resources.domains()
    embedder = resources.embedder(resources.model_of(domain).name)
    chunking = resources.chunking(embedder.info)
    paths = sorted(root.rglob("note-*.md"))[:_SAMPLE]
    texts = [c.text for p in paths for c in chunk_note(read_note(p.name, p.read_bytes()), chunking)]
    embedder.encode_documents(texts[:100])
    started = time.perf_counter()
    embedder.encode_documents(texts)
    return (time.perf_counter() - started) / len(paths)


def _search_ms(service: Service) -> float:
    """Return the median time of a question of three words that many notes have."""
    chance, seconds = np.random.default_rng(2), []
    with service.client() as client:
        for _ in range(SAVES):
            q = " ".join(word(w) for w in np.minimum(chance.zipf(1.3, 3), WORDS))
            started = time.perf_counter()
            client.get("/search", params={"q": q}).raise_for_status()
            seconds.append(time.perf_counter() - started)
    return 1000 * statistics.median(seconds[5:])


def _save_by_itself(root: Path, state: Path) -> Iterator[tuple[str, float]]:
    """Do by hand what the watcher and the worker do for a save; yield the median milliseconds of each."""
    resources = Resources(Settings(vault=root, state=state))
    (domain,) = resources.domains()
    cache = resources.cache(domain)
    resources.embedder(cache.meta.model)
    # A name that Unicode can write in two ways is looked for in both.
    for name, place in (("a note", "{0:03}/note-{0}{0:02}.md"), ("an accented name", "Größe {0}.md")):
        looks, commits = [], []
        for n in range(SAVES):
            path = place.format(n % 9 + 1)
            with (root / path).open("a", encoding="utf-8") as file:
                file.write(f"\nEdited, for the {n}th time.\n")
            started = time.perf_counter()
            check_paths(root, resources.registry(), {domain.slug: cache}, [path], max_bytes=10**6)
            looked = time.perf_counter()
            outcome = index_saved(cache, resources.ingest(domain, cache), [path])
            commits.append(time.perf_counter() - looked)
            looks.append(looked - started)
            if outcome.committed != 1:
                raise RuntimeError(f"{path} was saved and not indexed: {outcome}")
        yield f"{name} saved, looked at, ms", 1000 * statistics.median(looks)
        yield f"{name} saved, committed, ms", 1000 * statistics.median(commits)


def ratios(figures: Mapping[int, Figures]) -> Figures:
    """Return how much each figure grows from a size to the next, and what it is of the bare embedding."""
    found = {}
    for (small, first), (large, second) in pairwise(sorted(figures.items())):
        for name in first.keys() & second.keys():
            found[f"{name}: {large} / {small} notes"] = second[name] / first[name]
    for size, of_size in figures.items():
        found |= {f"{name}: {size} notes": value for name, value in of_size.items() if "/ bare" in name}
    return dict(sorted(found.items()))


def worse(now: Figures, then: Figures) -> list[str]:
    """Name the ratios that are more than a quarter above those of an earlier record."""
    return [
        f"{name}: {now[name]:.2f}, was {then[name]:.2f}"
        for name in sorted(now.keys() & then.keys())
        if now[name] > WORSE * then[name]
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
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    console.print(f"{when}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    if len(sizes) > 1:
        CHART.write_text(chart(figures), encoding="utf-8")
        console.print(f"drawn in {CHART}")


def main() -> None:
    """Measure, print and compare; exit with 1 where a ratio is worse than that of the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--against", type=Path, help="a record to compare the ratios with")
    parser.add_argument("--record", type=Path, help="where to write the ratios, as JSON")
    given = parser.parse_args()
    if min(given.sizes) < SIZES[0]:
        parser.error(f"sizes begin at {SIZES[0]} notes")
    console = Console(width=120)
    figures: dict[int, Figures] = {}
    then = json.loads(given.against.read_text()) if given.against else {}
    with tempfile.TemporaryDirectory() as models:
        os.environ["EMBEDDING_MODEL"] = str(build_tiny_model(Path(models)))
        for size in sorted(set(given.sizes)):
            print(f"{size} notes", file=sys.stderr, flush=True)
            figures[size] = {}
            with tempfile.TemporaryDirectory() as folder:
                for name, value in measure(size, Path(folder)):
                    print(f"  {name}: {value:.2f}", file=sys.stderr, flush=True)
                    figures[size][name] = value
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
