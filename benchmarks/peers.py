"""Everindex and the products nearest to it, measured in turn on the same notes.

    python -m benchmarks.peers [PRODUCT ...] [--tools FOLDER] [--data FOLDER] [--sets NAME NAME] [--python 3.12]

Each product is installed from PyPI or npm into a folder of its own (`--tools` keeps them), so this benchmark needs
the network. One that cannot be installed or started is left out, with the reason. The first set is indexed, asked and
changed; the other is only indexed and asked. No model is downloaded: products that can use an endpoint for embeddings
get one with Everindex's model. qmd cannot, and is measured by word.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import psutil
from rich.console import Console

from benchmarks.command import conditions, folder_of, markdown, milliseconds, parser
from benchmarks.judged import read_questions, write_notes
from benchmarks.peer_endpoint import Endpoint, embedding_endpoint
from benchmarks.peer_install import Installed, install
from benchmarks.peer_products import PRODUCTS, Instance, Product
from benchmarks.running import sampled, tree_memory
from pipelines.search.evaluate import ndcg

_SETS = ("cranfield", "anthropic-docs")
_BATCH = 20
_SAVES = 8
_QUESTIONS = 50
_COMMANDS = 5
_PATIENCE = 90.0
_INDEX_PATIENCE = 600.0
_SETTLE = 5.0
_MEGA = 1_000_000
_EXPECTED = (OSError, RuntimeError, LookupError, ValueError, httpx.HTTPError, subprocess.CalledProcessError)
Row = tuple[str, str]
"""What was measured, and the result."""


@dataclass(frozen=True)
class OpenSet:
    """A judged set: its documents as notes, its questions by id, and the grades of notes by question and path."""

    name: str
    questions: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


def write_set(name: str, data: Path, root: Path) -> OpenSet:
    """Write the documents of a set as notes below `root`; return its questions and grades."""
    paths = write_notes(data / name / "corpus.jsonl", root)
    questions, grades = read_questions(data / name, "")
    by_path = {query: {paths[note]: grade for note, grade in of.items()} for query, of in grades.items()}
    return OpenSet(name, {query: text for query, text in questions.items() if query in by_path}, by_path)


def write_batch(root: Path) -> None:
    """Add a folder of short notes with a word of their own each, to be renamed and removed."""
    (root / "batch").mkdir()
    for number in range(_BATCH):
        text = f"# Batch {number}\n\nA line about gardens and the word {_word(number)}.\n"
        (root / "batch" / f"note-{number}.md").write_text(text)


def _word(number: int) -> str:
    return "zq" + "".join(random.Random(number).choices("abcdefghijklmnop", k=10))  # noqa: S311 - words, not secrets


@dataclass(frozen=True)
class Cost:
    """What a first index took: seconds of wall clock, of processor time (with the endpoint's), and peak bytes."""

    seconds: float
    processor: float
    memory: int


def first_index(one: Instance) -> Cost:
    """Build the first index; return what it took. Raises RuntimeError if the command fails."""
    began, used = time.perf_counter(), _processor()
    process = one.open(one.product.index, "index.log")
    with sampled(partial(tree_memory, process), 0.2) as memory:
        if _ended(process):
            raise RuntimeError(f"{one.product.name}: {(one.home / 'index.log').read_text()[-300:]}")
    return Cost(time.perf_counter() - began, _processor() - used, max(memory))


def _ended(process: psutil.Popen) -> int:
    """Wait for a command; return its exit code, of a command that takes too long that of being killed."""
    try:
        return int(process.wait(_INDEX_PATIENCE))
    except psutil.TimeoutExpired:
        for one in [*process.children(recursive=True), process]:
            one.kill()
        return int(process.wait())


def _processor() -> float:
    """Return the processor seconds of this process, in which the endpoint runs, and of those that it waited for."""
    return sum(os.times()[:4])


def qualities(one: Instance, judged: OpenSet) -> Iterator[Row]:
    """Yield how good the answers are, as the product ranks by default and by vectors alone."""
    yield f"nDCG@10, {judged.name}", f"{quality(one, judged):.3f}"
    if one.product.vectors_alone:
        one.mode = one.product.vectors_alone
        yield f"nDCG@10, {judged.name}, vectors alone", f"{quality(one, judged):.3f}"
        one.mode = ""


def quality(one: Instance, judged: OpenSet) -> float:
    """Return the mean nDCG@10 over a set's questions."""
    found = one.ask_all(list(judged.questions.values()))
    pairs = zip(judged.questions, found, strict=True)
    return statistics.fmean(ndcg(paths, judged.grades[query]) for query, paths in pairs)


def changed(one: Instance, change: Callable[[], object], found: Callable[[], bool]) -> float | None:
    """Make a change on disk; return the seconds until an answer shows it; None: not within a minute and a half."""
    change()
    began = time.perf_counter()
    one.after_change()
    asked = time.perf_counter()
    while time.perf_counter() - asked < _PATIENCE:
        if found():
            return time.perf_counter() - began
        time.sleep(0.02)
    return None


def _finds(one: Instance, word: str, path: str) -> bool:
    return path in one.ask(word)


def saves(one: Instance) -> list[float | None]:
    """Save new notes one after another; return for each the seconds until its word finds it."""
    taken, chance = [], random.Random(7)  # noqa: S311 - pauses, not secrets
    for number in range(_SAVES):
        path, word = f"saved-{number}.md", _word(1000 + number)
        text = f"# Saved {number}\n\nA line about gardens and the word {word}.\n"
        file = one.root / path
        taken.append(changed(one, partial(file.write_text, text), partial(_finds, one, word, path)))
        time.sleep(0.5 + chance.random())
    return taken


def rename(one: Instance, endpoint: Endpoint) -> tuple[float | None, int]:
    """Rename the folder of the batch; return the seconds until answers follow, and the texts embedded."""
    time.sleep(_SETTLE)
    texts, here = len(endpoint.texts), one.embedded_here()
    asked = {_word(number) for number in (0, _BATCH - 1)}

    def moved(number: int) -> bool:
        paths = one.ask(_word(number))
        return f"moved/note-{number}.md" in paths and f"batch/note-{number}.md" not in paths

    seconds = changed(
        one,
        lambda: (one.root / "batch").rename(one.root / "moved"),
        lambda: moved(0) and moved(_BATCH - 1),
    )
    time.sleep(_SETTLE)
    again = sum(text not in asked for text in endpoint.texts[texts:])
    return seconds, again + one.embedded_here() - here


def delete(one: Instance) -> float | None:
    """Delete a note; return the seconds until no answer has it."""
    gone = one.root / "moved" / "note-3.md"
    return changed(one, gone.unlink, lambda: "moved/note-3.md" not in one.ask(_word(3)))


def seconds_each(ask: Callable[[str], object], questions: Sequence[str]) -> list[float]:
    """Ask questions in turn; return the seconds of each."""
    taken = []
    for question in questions:
        began = time.perf_counter()
        ask(question)
        taken.append(time.perf_counter() - began)
    return taken


def measure(one: Instance, judged: OpenSet, endpoint: Endpoint) -> Iterator[Row]:
    """Index a set, serve it, change notes and ask; yield what was measured, a row at a time."""
    cost = first_index(one)
    yield f"first index, {judged.name}", f"{cost.seconds:.1f} s"
    yield "processor time of it", f"{cost.processor:.1f} s"
    yield "peak memory of it", f"{cost.memory / _MEGA:.0f} MB"
    questions = list(judged.questions.values())
    one.start()
    try:
        yield from qualities(one, judged)
        # The first five only warm it up.
        yield "a question", milliseconds(seconds_each(one.ask, questions[: _QUESTIONS + 5])[5:])
        assert one.process is not None  # noqa: S101 - start() has set it
        yield "memory while serving", f"{tree_memory(one.process) / _MEGA:.0f} MB"
        commands = seconds_each(partial(one.run, one.product.command), questions[:_COMMANDS])
        yield "a question as a command", f"{statistics.median(commands):.1f} s"
        # A fused ranking may place a note's only word below ten others.
        one.mode = one.product.words_alone
        yield "save to searchable", waits(saves(one))
        moved, again = rename(one, endpoint)
        yield "folder of 20 renamed", waits([moved])
        yield "texts embedded again by it", str(again) if one.product.meaning else "–"
        yield "deleted note still answers", waits([delete(one)])
    finally:
        one.stop()


def measure_quality(one: Instance, judged: OpenSet) -> Iterator[Row]:
    """Index a set, and yield how good the answers to its questions are."""
    yield f"first index, {judged.name}", f"{first_index(one).seconds:.1f} s"
    one.start()
    try:
        yield from qualities(one, judged)
    finally:
        one.stop()


def waits(seconds: Sequence[float | None]) -> str:
    """Say the median and the longest of some waits, or how many never ended."""
    ended = [one for one in seconds if one is not None]
    if len(ended) < len(seconds):
        return f"{len(seconds) - len(ended)} of {len(seconds)} not within {_PATIENCE:.0f} s"
    if len(ended) == 1:
        return f"{ended[0]:.1f} s"
    return f"{statistics.median(ended):.2f} / {max(ended):.2f} s"


def about(product: Product, installed: Installed) -> Iterator[Row]:
    """Yield what a product is and how it is asked."""
    yield "version", installed.version
    yield "released", installed.released or "–"
    yield "on disk", f"{installed.size / _MEGA:,.0f} MB"
    yield "asked by", product.asked_by
    yield "searches by", "word and meaning" if product.meaning else "word"


def compare(
    product: Product, tools: Path, data: Path, sets: Sequence[str], endpoint: Endpoint
) -> Iterator[Row]:
    """Measure a product on sets, each in a vault of its own; yield the rows."""
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(sets):
            root, home = Path(folder, f"{name}-vault"), Path(folder, f"{name}-home")
            judged = write_set(name, data, root)
            one = Instance(product, tools, root, home, endpoint.url)
            if number == 0:
                write_batch(root)
                yield from measure(one, judged, endpoint)
            else:
                yield from measure_quality(one, judged)


def table(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the rows of all products as a table in Markdown, with a dash for what a product lacks."""
    rows = dict.fromkeys(row for rows in found.values() for row in rows)
    cells = [[row, *(values.get(row, "–") for values in found.values())] for row in rows]
    return markdown(["", *found], cells)


def _reason(error: BaseException) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return " ".join(str(said).split())[-300:]


def run(
    names: Iterable[str], tools: Path, python: str, data: Path, sets: Sequence[str], console: Console
) -> dict[str, dict[str, str]]:
    """Install and measure the products of these names; return the rows by product. Says what it leaves out."""
    found: dict[str, dict[str, str]] = {}
    with embedding_endpoint() as endpoint:
        endpoint.embed(["A note about gardens."])
        console.print(f"the endpoint with its model: {tree_memory(psutil.Process()) / _MEGA:.0f} MB")
        for product in (product for product in PRODUCTS if product.name in names):
            try:
                rows = found[product.name] = dict(about(product, install(product.package, tools, python)))
                for row, value in compare(product, tools, data, sets, endpoint):
                    rows[row] = value
                    console.print(f"{product.name}: {row}: {value} (load {os.getloadavg()[0]:.1f})")
            except _EXPECTED as error:
                console.print(f"{product.name} is left out from here: {_reason(error)}")
    return found


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, data=True)
    every = [product.name for product in PRODUCTS]
    options.add_argument("products", nargs="*", default=every, metavar="PRODUCT", help=", ".join(every))
    options.add_argument("--tools", type=Path, help="where products are, or are put, to be kept")
    options.add_argument("--sets", nargs="+", default=_SETS)
    options.add_argument(
        "--python", default="3.12", help="for products that want 3.12 or newer: a version or a path"
    )
    given = options.parse_args()
    console = Console(soft_wrap=True, markup=False, highlight=False)
    with folder_of(given.tools) as tools:
        found = run(given.products, tools, given.python, given.data, given.sets, console)
    console.print(f"\n{table(found)}\n")
    console.print(conditions())


if __name__ == "__main__":
    main()
