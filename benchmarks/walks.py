"""What a walk finds and costs from the notes with most links, and what MiniLM's bars should be.

    python -m benchmarks.walks [--walks] [--bars] [--data FOLDER] [--keep FOLDER]

Each vault is indexed by the real pipeline; with `--keep` the indexes stay for the next run.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.judged import DATA
from pipelines.cache.cache import Cache, Vector
from pipelines.cache.graph import read_graph, text_hashes
from pipelines.model import Domain
from pipelines.search.thresholds import thresholds_of
from pipelines.search.walk import Effort, Found, deep, explore, explore_from, fast
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers.resources import Resources

LINKED = ("vault-tasks-docs", "vault-foam-docs", "vault-kepano")
HUBS = (*LINKED, "vault-knowledge-garden")
EXAMPLE = Path(__file__).parents[1] / "examples" / "vault"
WITHOUT_END = 10**9
QUANTILES = {"1/20": 1 / 20, "2/7": 2 / 7, "9/14": 9 / 14}
PAIRS = 1_200


def prepare(name: str, vault: Path, kept: Path) -> Resources:
    """Index a copy of a vault below `kept`, or bring the one that is there up to date."""
    copy = kept / name / "vault"
    if not copy.exists():
        shutil.copytree(vault, copy)
    resources = Resources(Settings(vault=copy, state=kept / name / "state"))
    index_once(resources, lambda *_: None)
    return resources


def opened(names: tuple[str, ...], data: Path, kept: Path) -> Iterator[tuple[str, Resources, Domain, Cache]]:
    """Yield each domain of the vaults that are there, with its cache; the example vault is the last."""
    for name in (*names, "examples"):
        vault = EXAMPLE if name == "examples" else data / name / "vault"
        if vault.exists():
            resources = prepare(name, vault, kept)
            for domain in resources.domains():
                yield name, resources, domain, resources.reader(domain)


def hubs(cache: Cache, count: int) -> list[str]:
    """Return the notes that most others are linked with."""
    near: dict[str, set[str]] = {}
    for edge in read_graph(cache).edges:
        near.setdefault(edge.source, set()).add(edge.target)
        near.setdefault(edge.target, set()).add(edge.source)
    return sorted(near, key=lambda path: (-len(near[path]), path))[:count]


def walks(console: Console, data: Path, kept: Path) -> None:
    """Walk from the 30 notes with most links of each vault: by themselves, and with their titles as questions."""
    table = Table(
        *("vault", "walk", "kept", "of those without a budget", "unread", "no_more_links, unread"),
        *("embeddings: median", "most", "ms: median", "p95", "stopped"),
    )
    for name, resources, domain, cache in opened(HUBS, data, kept):
        if name == "examples":
            continue
        embedder, titles = resources.embedders.get(cache.meta.model), read_graph(cache).titles
        bars = thresholds_of(cache.meta.model)

        found = hubs(cache, 30)
        asked = {path: embedder.encode_query(titles[path]) for path in found}
        by_note = partial(_from_note, domain, cache)
        by_title = partial(_with_title, domain, cache, asked)
        for what, walk, effort in (
            ("from a note", by_note, fast(bars, by_note=True)),
            ("with a question", by_title, fast(bars)),
            ("deep", by_title, deep(bars)),
        ):
            table.add_row(name, what, *_walked(found, walk, effort))
    console.print(table)


def _from_note(domain: Domain, cache: Cache, path: str, effort: Effort) -> Found | None:
    return explore_from(domain, cache, path, effort, depth=4, root=None)


def _with_title(
    domain: Domain, cache: Cache, asked: Mapping[str, Vector], path: str, effort: Effort
) -> Found | None:
    return explore(domain, cache, [path], asked[path], effort, root=None)


def _walked(paths: list[str], walk: Callable[[str, Effort], Found | None], effort: Effort) -> Iterator[str]:
    runs: list[tuple[Found, float, set[str]]] = []
    for path in paths:
        started = time.perf_counter()
        found = walk(path, effort)
        took = time.perf_counter() - started
        whole = walk(path, replace(effort, budget=WITHOUT_END))
        if found is not None and whole is not None:
            runs.append((found, took, {note.path for note in whole.kept}))
    seconds = [took for _, took, _ in runs]
    read = [found.embeddings for found, _, _ in runs]
    same = sum(len(whole & {note.path for note in found.kept}) for found, _, whole in runs)
    yield str(sum(len(found.kept) for found, _, _ in runs))
    yield f"{same} of {sum(len(whole) for _, _, whole in runs)}"
    yield str(sum(found.unread for found, _, _ in runs))
    yield str(sum(found.unread > 0 and found.stopped == "no_more_links" for found, _, _ in runs))
    yield f"{np.median(read):,.0f}"
    yield f"{max(read):,}"
    yield f"{np.median(seconds) * 1e3:.1f}"
    yield f"{np.quantile(seconds, 0.95) * 1e3:.1f}"
    yield ", ".join(f"{why} {count}" for why, count in Counter(found.stopped for found, _, _ in runs).items())


def bars(console: Console, data: Path, kept: Path) -> None:
    """Print quantiles of the similarity of linked notes, and how many unlinked pairs are above each."""
    linked: dict[str, list[float]] = {"title": [], "mean": []}
    random_pairs: dict[str, list[float]] = {"title": [], "mean": []}
    for _, resources, _, cache in opened(LINKED, data, kept):
        for pairs, into in zip(_pairs(cache), (linked, random_pairs), strict=True):
            for kind, values in _similarities(resources, cache, pairs).items():
                into[kind] += values
    table = Table("by", "quantile of the linked pairs", "similarity", "random pairs above it")
    for kind, values in linked.items():
        for label, quantile in QUANTILES.items():
            bar = float(np.quantile(values, quantile))
            above = float(np.mean(np.array(random_pairs[kind]) >= bar))
            table.add_row(kind, label, f"{bar:.3f}", f"{above:.0%}")
    console.print(table, f"{len(linked['title']):,} linked pairs, {len(random_pairs['title']):,} unlinked")


def _pairs(cache: Cache) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return linked pairs of a cache, and three times as many that are not linked."""
    pick, graph = random.Random(1), read_graph(cache)  # noqa: S311
    ways = {(edge.source, edge.target) for edge in graph.edges}
    linked = sorted(ways | {(target, source) for source, target in ways})  # a walk goes both ways
    paths, known = sorted(graph.titles), set(linked)
    chosen = pick.sample(linked, min(PAIRS, len(linked)))
    drawn = [(pick.choice(paths), pick.choice(paths)) for _ in range(3 * len(chosen))]
    return chosen, [(a, b) for a, b in drawn if a != b and (a, b) not in known]


def _similarities(resources: Resources, cache: Cache, pairs: list[tuple[str, str]]) -> dict[str, list[float]]:
    """Return the best cosine of each pair's second note to the first one's title, and to its mean vector."""
    titles, hashes = read_graph(cache).titles, text_hashes(cache, list(read_graph(cache).titles))
    vectors = {path: np.stack(list(cache.vectors(some).values())) for path, some in hashes.items()}
    pairs = [(one, other) for one, other in pairs if one in vectors and other in vectors]
    embedder = resources.embedders.get(cache.meta.model)
    questions = {path: embedder.encode_query(titles[path]) for path in {one for one, _ in pairs}}
    means = {path: vectors[path].mean(axis=0) for path in questions}
    found: dict[str, list[float]] = {"title": [], "mean": []}
    for one, other in pairs:
        mean = means[one] / np.linalg.norm(means[one])
        found["title"].append(float((vectors[other] @ questions[one]).max()))
        found["mean"].append(float((vectors[other] @ mean).max()))
    return found


SECTIONS = {"walks": walks, "bars": bars}


def main() -> None:
    """Measure the sections asked for, all of them by default."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, section in SECTIONS.items():
        parser.add_argument(f"--{name}", action="store_true", help=section.__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    console = Console(width=200)
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in SECTIONS if getattr(given, name)] or list(SECTIONS):
            SECTIONS[name](console, given.data, given.keep or Path(folder))
    console.print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores (load {os.getloadavg()[0]:.1f}),"
        " all-MiniLM-L6-v2"
    )


if __name__ == "__main__":
    main()
