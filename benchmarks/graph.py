"""Whether the ranks are networkx's, and how soon and in how much memory, on scale-free graphs and on real vaults.

    python -m benchmarks.graph [--ranks] [--data FOLDER]

Each library runs in a process of its own, one after the other. networkx runs with its default tolerances where time
counts, and with tight ones where the results are compared.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unicodedata import normalize

import networkx as nx
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from pipelines.graph.centrality import Edge, LinkGraph, centrality, divide, keep_ids, link_graph, pagerank
from pipelines.model import EdgeKind
from pipelines.notes.links import link_names_of, name_key, resolve
from pipelines.notes.markdown import read_note

DATA = Path(__file__).parents[2] / "shared" / "data"
VAULTS = ("vault-tasks-docs", "vault-foam-docs", "vault-kepano", "vault-knowledge-garden")
CITING = ("cites", "source", "sources", "references", "up")
SIZES = (2_000, 20_000, 100_000)
# Above it, one run instead of three, and no comparison of centrality: networkx would take minutes.
LARGE = 50_000
STEPS = ("graph", "PageRank", "centrality", "communities")
Progress = Callable[[str], None]


@dataclass
class Figures:
    """What one library found of a graph, in how many seconds per step, with how many more bytes at the peak."""

    pagerank: dict[str, float] = field(default_factory=dict)
    centrality: dict[str, float] = field(default_factory=dict)
    centrality_by: str = "eigenvector"
    divisions: list[list[tuple[str, ...]]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    peak: int = 0
    loose_pagerank: dict[str, float] = field(default_factory=dict)

    def timed(self, step: str, work: Callable[..., Any], *given: object, **named: object) -> Any:
        """Call it, and record the best time of all runs."""
        gc.collect()
        started = time.perf_counter()
        result = work(*given, **named)
        self.seconds[step] = min(time.perf_counter() - started, self.seconds.get(step, float("inf")))
        return result


@dataclass(frozen=True)
class Sample:
    """A graph to measure: its name, its notes, its edges."""

    name: str
    paths: list[str]
    edges: list[Edge]


def scale_free(count: int, *, clustered: bool) -> Sample:
    """Make a graph of mean degree 6: preferential attachment, with as many triangles as a vault has, or without."""
    if clustered:
        graph = nx.powerlaw_cluster_graph(count, 3, 0.5, seed=1)
    else:
        graph = nx.barabasi_albert_graph(count, 3, seed=1)
    pick = random.Random(1)  # noqa: S311
    paths = [f"notes/{at:06}.md" for at in range(count)]
    edges: list[Edge] = []
    kinds: tuple[EdgeKind, ...] = ("citation", "wikilink", "embed")
    for older, newer in graph.edges:
        ends = (older, newer) if pick.random() < 0.3 else (newer, older)
        kind = pick.choices(kinds, (2, 7, 1))[0]
        edges.append((paths[ends[0]], paths[ends[1]], kind, 1))
    return Sample(f"{'clustered' if clustered else 'Barabási-Albert'} {count:,}", paths, edges)


def vault(name: str, root: Path) -> Sample:
    """Read a vault's notes and resolve their links."""
    files = {
        normalize("NFC", path.relative_to(root).as_posix()): path
        for path in sorted(root.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    }
    named: dict[str, list[str]] = {}
    for path in files:
        named.setdefault(name_key(path), []).append(path)
    notes = [path for path in files if len(link_names_of(path)) > 1]
    edges: list[Edge] = []
    for path in notes:
        for link in read_note(path, files[path].read_bytes()).links:
            found = resolve(link.target, path, lambda key: named.get(key, ()))
            if found:
                kind: EdgeKind = "citation" if link.property in CITING else "wikilink"
                edges.append((path, found.path, "embed" if link.kind == "embed" else kind, 1))
    return Sample(name, notes, edges)


def measure_ours(sample: Sample, runs: int) -> Figures:
    """Rank with pipelines.graph.centrality, from scratch, then once more from what was found."""
    found = Figures()
    for _ in range(runs):
        graph = found.timed("graph", link_graph, sample.paths, sample.edges, over="links")
        ranks = found.timed("PageRank", pagerank, graph)
        values, by = found.timed("centrality", centrality, graph)
        groups = found.timed("communities", _divided, graph, {})
    found.pagerank = dict(zip(graph.paths, ranks.tolist(), strict=True))
    found.centrality, found.centrality_by = dict(zip(graph.paths, values.tolist(), strict=True)), by
    found.peak = _peak()
    known = {path: number for number, group in groups.items() for path in group}
    again = found.timed("communities again", _divided, graph, known)
    found.divisions = [list(groups.values()), list(again.values())]
    return found


def _divided(graph: LinkGraph, previous: dict[str, int]) -> dict[int, tuple[str, ...]]:
    return keep_ids(divide(graph, previous), previous)


def measure_networkx(sample: Sample, runs: int) -> Figures:
    """Rank with networkx: first with its defaults, then to a tight tolerance for the comparison."""
    found = Figures()
    for seed in range(runs):
        directed, graph = found.timed("graph", _graphs, sample)
        found.loose_pagerank = found.timed("PageRank", nx.pagerank, directed)
        found.timed("centrality", nx.eigenvector_centrality, graph, max_iter=10_000)
        groups = found.timed("communities", nx.community.louvain_communities, graph, seed=seed)
        found.divisions.append([tuple(group) for group in groups])
    found.peak = _peak()
    found.pagerank = nx.pagerank(directed, tol=1e-12 / len(directed), max_iter=1_000)
    if len(graph) < LARGE:
        found.centrality = nx.eigenvector_centrality(graph, max_iter=100_000, tol=1e-15)
    return found


def _graphs(sample: Sample) -> tuple[nx.DiGraph, nx.Graph]:
    """Make the graphs that pipelines.graph.centrality ranks: no loops, nothing outside, no isolated notes."""
    paths = set(sample.paths)
    directed, graph = nx.DiGraph(), nx.Graph()
    for source, target, kind, _ in sample.edges:
        if source != target and source in paths and target in paths:
            graph.add_edge(source, target)
            if kind != "embed":
                directed.add_edge(source, target)
    directed.add_nodes_from(graph)
    return directed, graph


def _peak() -> int:
    """Return the most memory that this process had so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _measure_here(library: str, source: Path, target: Path) -> None:
    """Measure in this process, which has nothing else to do; the sample and the figures travel as files."""
    sample = Sample(**pickle.loads(source.read_bytes()))  # noqa: S301
    measure = measure_ours if library == "ours" else measure_networkx
    measure(scale_free(50, clustered=True), 1)  # loads what is loaded on first use
    gc.collect()
    before = psutil.Process().memory_info().rss
    found = measure(sample, 1 if len(sample.paths) >= LARGE else 3)
    found.peak = max(0, found.peak - before)
    target.write_bytes(pickle.dumps(vars(found)))


def _measure_apart(library: str, sample: Sample) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "sample"), Path(folder, "figures")
        source.write_bytes(pickle.dumps(vars(sample)))
        subprocess.run(
            [sys.executable, "-m", "benchmarks.graph", "--measure", library, source, target], check=True
        )
        return Figures(**pickle.loads(target.read_bytes()))  # noqa: S301


def _exact_pagerank(sample: Sample) -> dict[str, float]:
    """Follow the definition 400 times, which leaves 0.85^400 of any error, unlike pipelines.graph.centrality."""
    directed, _ = _graphs(sample)
    order = {path: at for at, path in enumerate(directed)}
    pairs = np.array([(order[source], order[target]) for source, target in directed.edges]).reshape(-1, 2)
    out = np.bincount(pairs[:, 0], minlength=len(order))
    ranks = np.full(len(order), 1 / len(order))
    for _ in range(400):
        shares = np.divide(ranks, out, out=np.zeros_like(ranks), where=out > 0)
        came = np.bincount(pairs[:, 1], shares[pairs[:, 0]], len(order))
        ranks = 0.85 * (came + ranks[out == 0].sum() / len(order)) + 0.15 / len(order)
    return dict(zip(order, ranks.tolist(), strict=True))


def _difference(
    one: dict[str, float], other: dict[str, float], total: Callable[[Iterator[float]], float]
) -> str:
    if not other:
        return "not compared"
    return f"{total(abs(value - other[path]) for path, value in one.items()):.0e}"


def ranks(console: Console, data: Path, progress: Progress) -> None:
    """Compare pipelines.graph.centrality with networkx: results, time, memory."""
    agreement = Table(
        *(
            "graph",
            "notes",
            "edges",
            "PageRank:\nlargest diff.",
            "sum of diff. from exact:\nours",
            "networkx",
        ),
        *(
            "centrality:\nlargest diff.",
            "by",
            "modularity:\nours",
            "ours again",
            "networkx, best",
            "our groups",
        ),
        title="agreement with networkx",
    )
    speed = Table(
        *(
            "graph",
            *STEPS,
            "communities\nagain",
            "three,\ntimes faster",
            "with graph",
            "with graph\nand again",
        ),
        "memory",
        title="milliseconds, ours / networkx; memory: MiB above what the process had with the edges loaded",
    )
    for sample in _samples(console, data):
        progress(f"{sample.name}: ours")
        ours = _measure_apart("ours", sample)
        progress(f"{sample.name}: networkx")
        theirs = _measure_apart("networkx", sample)
        agreement.add_row(*_agreement(sample, ours, theirs))
        speed.add_row(sample.name, *_speed(ours, theirs))
    console.print(agreement, speed)


def _samples(console: Console, data: Path) -> Iterator[Sample]:
    for name in VAULTS:
        root = data / name / "vault"
        if root.is_dir():
            yield vault(name, root)
        else:
            console.print(f"{name}: missing below {data}; not measured")
    for count in SIZES:
        yield scale_free(count, clustered=True)
    yield scale_free(20_000, clustered=False)


def _agreement(sample: Sample, ours: Figures, theirs: Figures) -> Iterator[str]:
    _, graph = _graphs(sample)
    exact = _exact_pagerank(sample)
    yield from (sample.name, f"{len(graph):,}", f"{graph.number_of_edges():,}")
    yield _difference(ours.pagerank, theirs.pagerank, max)
    yield _difference(ours.pagerank, exact, sum)
    yield _difference(theirs.loose_pagerank, exact, sum)
    yield _difference(ours.centrality, theirs.centrality, max)
    yield ours.centrality_by
    for division in ours.divisions:
        yield f"{nx.community.modularity(graph, division):.4f}"
    yield f"{max(nx.community.modularity(graph, division) for division in theirs.divisions):.4f}"
    yield str(len(ours.divisions[0]))


def _speed(ours: Figures, theirs: Figures) -> Iterator[str]:
    for step in STEPS:
        yield f"{ours.seconds[step] * 1e3:,.1f} / {theirs.seconds[step] * 1e3:,.0f}"
    again = ours.seconds["communities again"]
    yield f"{again * 1e3:,.1f}"
    three = [sum(figures.seconds[step] for step in STEPS[1:]) for figures in (ours, theirs)]
    whole = [sum(figures.seconds[step] for step in STEPS) for figures in (ours, theirs)]
    yield f"{three[1] / three[0]:.1f}"
    yield f"{whole[1] / whole[0]:.1f}"
    yield f"{whole[1] / (whole[0] - ours.seconds['communities'] + again):.1f}"
    yield f"{ours.peak / 2**20:,.0f} / {theirs.peak / 2**20:,.0f}"


SECTIONS = {"ranks": ranks}


def main() -> None:
    """Measure the sections asked for, all of them by default."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, section in SECTIONS.items():
        parser.add_argument(f"--{name}", action="store_true", help=section.__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        library, source, target = given.measure
        _measure_here(library, Path(source), Path(target))
        return
    console = Console(width=200)
    asked = [name for name in SECTIONS if getattr(given, name)] or list(SECTIONS)
    for name in asked:
        SECTIONS[name](console, given.data, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    console.print(
        f"{when}, {platform.machine()}, {os.cpu_count()} cores (load {os.getloadavg()[0]:.1f}), "
        f"Python {platform.python_version()}, networkx {nx.__version__}"
    )


if __name__ == "__main__":
    main()
