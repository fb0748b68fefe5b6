"""Links: whether they are read and resolved as Obsidian does it, what is broken in real vaults, what a save costs.

    python -m benchmarks.links [--data FOLDER] [--notes N]

The expectations are other programs' (`benchmarks.conformance`); the vaults are real ones. The cost is that of link
rows and edges alone, in a cache of N notes that the real pipeline made, without vectors.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.conformance import agreements
from benchmarks.freshness import p95
from pipelines.cache.cache import Cache
from pipelines.cache.links import Edges
from pipelines.cache.schema import CacheMeta
from pipelines.domains import load
from pipelines.indexing.ingest import DocumentEncoder, Ingest, index_saved, index_words, pipeline_name
from pipelines.indexing.reconcile import check_paths, reconcile, rules_of
from pipelines.model import Link
from pipelines.notes.chunk import chunk_settings
from pipelines.notes.links import name_key, resolve
from pipelines.notes.markdown import read_note
from pipelines.vault import files
from pipelines.vault.scan import scan_vault

DATA = Path(__file__).parents[2] / "shared" / "data"
VAULTS = ("vault-tasks-docs", "vault-foam-docs", "vault-kepano", "vault-knowledge-garden")
LOOKED_AT = 40
SEED = 4
HUBS, BACKLINKS, TIMES = 10, 100, 50
_MAX_BYTES = 10_000_000


def show_agreements(data: Path, console: Console) -> None:
    """Print how far we agree with each set of expectations, and each difference with its rule."""
    table = Table("set", "compared", "cases", "agree", "differ by a rule", "unexplained")
    rules = Table("set", "differing cases", "rule", title="Differences", show_lines=True)
    for agreement in agreements(data):
        unexplained = len(agreement.differ.get("", ()))
        counted = (
            agreement.compared,
            agreement.compared - agreement.differing,
            agreement.differing - unexplained,
            unexplained,
        )
        table.add_row(agreement.of, agreement.what, *map(str, counted))
        for rule, cases in agreement.differ.items():
            rules.add_row(agreement.of, escape("; ".join(cases)), escape(rule or "UNEXPLAINED"))
    console.print(table, rules)


# What is broken


@dataclass
class Resolved:
    """A vault's links by what became of them."""

    name: str
    notes: int
    kinds: Counter[str] = field(default_factory=Counter)
    ambiguous: int = 0
    broken: list[tuple[str, Link]] = field(default_factory=list)


def resolve_all(folder: Path) -> Resolved:
    """Resolve every link of a vault. Attachments that are not among the data are only named; they count as files."""
    root = (folder / "vault").resolve()
    found = scan_vault(root, rules_of(root, load(root)))
    listed = folder / "attachments.txt"
    attachments = listed.read_text("utf-8").splitlines() if listed.exists() else []
    named: dict[str, list[str]] = defaultdict(list)
    for path in found.files.union(path for path in attachments if path and not files.is_hidden(path)):
        named[name_key(path)].append(path)
    result = Resolved(folder.name, len(found.notes))
    for path, file in found.notes.items():
        for link in read_note(path, files.read(root, file.raw, _MAX_BYTES).data).links:
            result.kinds[link.kind] += 1
            meant = resolve(link.target, path, lambda name: named.get(name, ()))
            if meant is None:
                result.broken.append((path, link))
            else:
                result.ambiguous += meant.ambiguous
    return result


def show_broken(data: Path, console: Console) -> None:
    """Print what became of the links of the four vaults, and the broken ones to look at by hand."""
    kinds = ("wikilink", "markdown", "embed", "property")
    table = Table("vault", "notes", "links", *kinds, "ambiguous", "broken")
    chosen = Table("vault", "note", "line", "kind", "target", title=f"{LOOKED_AT} broken links to look at")
    chance = random.Random(SEED)  # noqa: S311 - a sample, not a secret
    vaults = sorted((resolve_all(data / name) for name in VAULTS), key=lambda v: len(v.broken))
    left = LOOKED_AT
    for done, resolved in enumerate(vaults):
        counted = resolved.kinds.total(), *(resolved.kinds[kind] for kind in kinds)
        table.add_row(
            resolved.name,
            *map(str, (resolved.notes, *counted, resolved.ambiguous, len(resolved.broken))),
        )
        # A vault that has fewer than its share leaves the rest to the others.
        share = min(len(resolved.broken), left // (len(vaults) - done))
        left -= share
        for path, link in sorted(chance.sample(resolved.broken, share), key=lambda b: (b[0], b[1].line)):
            row = resolved.name, path, str(link.line), link.kind, link.target
            chosen.add_row(*map(escape, row))
    console.print(table, chosen)


# What a save costs


@dataclass
class Spent:
    """Seconds that link rows and edges took, on the clock and of the processor, and seconds of all the work."""

    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def measure(self, work: Callable[[], object]) -> None:
        """Do some work, and record how much of it link rows and edges took."""
        began = time.perf_counter()
        with _clocked() as (clock, cpu):
            work()
        self.whole.append(time.perf_counter() - began)
        self.clock.append(sum(clock))
        self.cpu.append(sum(cpu))


@contextmanager
def _clocked() -> Iterator[tuple[list[float], list[float]]]:
    """Yield the seconds of each call that writes link rows or edges, a commit of its own included."""
    clock: list[float] = []
    cpu: list[float] = []
    running: list[bool] = []

    def clocked(function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            if running:  # one calls the other
                return function(*args, **kwargs)
            running.append(True)
            began = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                clock.append(time.perf_counter() - began[0])
                cpu.append(time.thread_time() - began[1])
                running.clear()

        return measured

    with ExitStack() as patches:
        for owner, name in ((Edges, "replace_links"), (Edges, "change_paths")):
            patches.enter_context(patch.object(owner, name, clocked(getattr(owner, name))))
        yield clock, cpu


class Keeper:
    """A vault in a temporary folder and its cache; saves are handled as the watcher and the worker do."""

    def __init__(self, folder: Path) -> None:
        self.root, state = folder / "vault", folder / "state"
        self.root.mkdir()
        state.mkdir()
        chunking = chunk_settings(256, None, None)
        self.cache = Cache.create(state / "cache.db", CacheMeta("none", 4, pipeline_name(chunking)))
        self.registry = load(self.root)
        self.ingest = Ingest(
            domain="vault",
            root=self.root.resolve(),
            max_bytes=_MAX_BYTES,
            chunking=chunking,
            owner="benchmark",
            present=lambda: True,
            encoder=_no_encoder,
            encoder_ready=lambda: False,
            siblings=lambda: (),
        )

    def index(self) -> None:
        """Index whatever is in the folder, words and links only."""
        reconcile(self.root, self.registry, {"vault": self.cache}, max_bytes=_MAX_BYTES)
        while self.cache.leases.owes("words"):
            index_words(self.cache, self.ingest)

    def write(self, path: str, text: str) -> None:
        """Write a note."""
        file = self.root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def notice(self, *paths: str) -> None:
        """Bring the cache up to date with paths that changed."""
        check_paths(self.root, self.registry, {"vault": self.cache}, paths, max_bytes=_MAX_BYTES)["vault"]
        index_saved(self.cache, self.ingest)


def _no_encoder() -> DocumentEncoder:
    raise RuntimeError("nothing is embedded here")


def measure(notes: int) -> Iterator[tuple[str, Spent]]:
    """Yield each operation on a vault of `notes` notes, with what it took each time."""
    chance = random.Random(SEED)  # noqa: S311 - a sample, not a secret
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(Path(folder))
        names = [f"note {n}" for n in range(notes)]
        paths = [f"{n % 100}/{name}.md" for n, name in enumerate(names)]
        for n, path in enumerate(paths):
            # `BACKLINKS` notes link to each hub, which does not exist yet.
            hub = f"[[hub {n // BACKLINKS}]]" if n < HUBS * BACKLINKS else ""
            keeper.write(path, f"# {names[n]}\n\n{_links(names, chance, 6)} {hub}\n")
        keeper.index()
        saved = Spent()
        for path in chance.sample(paths[HUBS * BACKLINKS :], TIMES):
            keeper.write(path, f"# Saved\n\n{_links(names, chance, 18)} [[nowhere]] ![x](gone.png)\n")
            saved.measure(partial(keeper.notice, path))
        yield "a note with 20 links saved", saved
        yield from _hubs(keeper)
        many = Spent()
        keeper.write(paths[-1], _links(names, chance, 10_000))
        many.measure(partial(keeper.notice, paths[-1]))
        yield "a note with 10,000 links saved", many
        keeper.cache.close()


def _links(names: Sequence[str], chance: random.Random, count: int) -> str:
    return " ".join(f"[[{name}]]" for name in chance.choices(names, k=count))


def _hubs(keeper: Keeper) -> Iterator[tuple[str, Spent]]:
    """Create, move and delete notes that many others link to."""
    created, moved, deleted = Spent(), Spent(), Spent()
    for n in range(TIMES):
        name = f"hub {n % HUBS}.md"
        keeper.write(name, f"Here for the {n}th time.")
        created.measure(partial(keeper.notice, name))
        (keeper.root / name).rename(keeper.root / "1" / name)
        moved.measure(partial(keeper.notice, name, f"1/{name}"))
        (keeper.root / "1" / name).unlink()
        deleted.measure(partial(keeper.notice, f"1/{name}"))
    yield f"a note with {BACKLINKS} backlinks created", created
    yield f"a note with {BACKLINKS} backlinks moved", moved
    yield f"a note with {BACKLINKS} backlinks deleted", deleted


def show_cost(notes: int, console: Console) -> None:
    """Print what saves, moves and deletions cost in a large vault."""
    table = Table(
        f"in a vault of {notes:,} notes", "times", "links and edges: median", "95th", "worst", "worst, processor",
        "all of it: median",
    )  # fmt: skip
    for what, spent in measure(notes):
        shown = (
            *(statistics.median(spent.clock), p95(spent.clock), max(spent.clock)),
            *(max(spent.cpu), statistics.median(spent.whole)),
        )
        table.add_row(what, str(len(spent.clock)), *(f"{1000 * seconds:.1f} ms" for seconds in shown))
    console.print(table)


def _is_there(data: Path, names: Sequence[str], console: Console) -> bool:
    missing = [name for name in names if not (data / name).is_dir()]
    if missing:
        console.print(f"{', '.join(missing)}: missing below {data}; not measured")
    return not missing


def main() -> None:
    """Compare, resolve, measure, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--notes", type=int, default=10_000)
    given = parser.parse_args()
    console = Console(width=160)
    if _is_there(given.data, ["conformance"], console):
        show_agreements(given.data / "conformance", console)
    if _is_there(given.data, VAULTS, console):
        show_broken(given.data, console)
    show_cost(given.notes, console)
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    console.print(f"{when}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
