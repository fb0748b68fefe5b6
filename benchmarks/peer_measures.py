"""What is measured of a product: the same steps for each, from outside, on a copy of the same notes."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from benchmarks.freshness import p95
from benchmarks.judged import read_questions, write_notes
from benchmarks.peer_endpoint import Endpoint
from benchmarks.peer_product import Product
from pipelines.search.evaluate import ndcg

_BATCH = 20
_SAVES = 8
_QUESTIONS = 50
_COMMANDS = 5
_PATIENCE = 90.0
_INDEX_PATIENCE = 600.0
_SETTLE = 5.0
_MEGA = 1_000_000

Grades = dict[str, dict[str, int]]


@dataclass(frozen=True)
class OpenSet:
    """A judged set: its documents as notes, its questions by id, and the grades of notes by question and path."""

    name: str
    folder: Path
    questions: Mapping[str, str]
    grades: Grades


def write_set(name: str, data: Path, root: Path) -> OpenSet:
    """Write the documents of a set as notes below `root`; return its questions and grades."""
    paths = write_notes(data / name / "corpus.jsonl", root)
    questions, grades = read_questions(data / name, "")
    by_path = {query: {paths[note]: grade for note, grade in of.items()} for query, of in grades.items()}
    return OpenSet(
        name, root, {query: text for query, text in questions.items() if query in by_path}, by_path
    )


def write_batch(root: Path) -> None:
    """Add a folder of short notes with a word of their own each, to be renamed and removed."""
    (root / "batch").mkdir()
    for number in range(_BATCH):
        text = f"# Batch {number}\n\nA line about gardens and the word {_word(number)}.\n"
        (root / "batch" / f"note-{number}.md").write_text(text)


def _word(number: int) -> str:
    return "zq" + "".join(random.Random(number).choices("abcdefghijklmnop", k=10))  # noqa: S311 - words, not secrets


def tree_memory(process: psutil.Process) -> int:
    """Return the bytes that a process and its descendants have, each shared page counted once."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += one.memory_full_info().pss
    return total


@contextmanager
def peak_memory(process: psutil.Process) -> Iterator[list[int]]:
    """Watch the memory of a process and its descendants; yield a list whose only item is the peak so far."""
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            peak[0] = max(peak[0], tree_memory(process))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True)
class Cost:
    """What a first index took: seconds of wall clock, of processor time (with the endpoint's), and peak bytes."""

    seconds: float
    processor: float
    memory: int


def first_index(product: Product) -> Cost:
    """Build the first index; return what it took. Raises RuntimeError if a command fails."""
    began, used, most = time.perf_counter(), _processor(), 0
    with (product.home / "index.log").open("w") as log:
        for command in product.index_commands():
            process = psutil.Popen(
                command, env=product.environment, cwd=product.home, stdout=log, stderr=subprocess.STDOUT
            )
            with peak_memory(process) as peak:
                if _ended(process):
                    raise RuntimeError(f"{product.name}: {(product.home / 'index.log').read_text()[-300:]}")
            most = max(most, peak[0])
    return Cost(time.perf_counter() - began, _processor() - used, most)


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


def qualities(product: Product, judged: OpenSet) -> Iterator[tuple[str, str]]:
    """Yield how good the answers are, as the product ranks by default and by vectors alone."""
    yield f"nDCG@10, {judged.name}", f"{quality(product, judged):.3f}"
    if product.vectors_alone:
        product.mode = product.vectors_alone
        yield f"nDCG@10, {judged.name}, vectors alone", f"{quality(product, judged):.3f}"
        product.mode = ""


def quality(product: Product, judged: OpenSet) -> float:
    """Return the mean nDCG@10 over a set's questions."""
    found = product.ask_all(list(judged.questions.values()))
    pairs = zip(judged.questions, found, strict=True)
    return statistics.fmean(ndcg(paths, judged.grades[query]) for query, paths in pairs)


def until(found: Callable[[], bool]) -> float | None:
    """Return the seconds until a condition holds; None: not within a minute and a half."""
    began = time.perf_counter()
    while time.perf_counter() - began < _PATIENCE:
        if found():
            return time.perf_counter() - began
        time.sleep(0.02)
    return None


def changed(product: Product, change: Callable[[], object], found: Callable[[], bool]) -> float | None:
    """Make a change on disk; return the seconds until an answer shows it; None: it never did."""
    change()
    began = time.perf_counter()
    product.after_change()
    waited = until(found)
    return None if waited is None else time.perf_counter() - began


def _finds(product: Product, word: str, path: str) -> bool:
    return path in product.ask(word)


def saves(product: Product) -> list[float | None]:
    """Save new notes one after another; return for each the seconds until its word finds it."""
    taken, chance = [], random.Random(7)  # noqa: S311 - pauses, not secrets
    for number in range(_SAVES):
        path, word = f"saved-{number}.md", _word(1000 + number)
        text = f"# Saved {number}\n\nA line about gardens and the word {word}.\n"
        file = product.root / path
        taken.append(changed(product, partial(file.write_text, text), partial(_finds, product, word, path)))
        time.sleep(0.5 + chance.random())
    return taken


def rename(product: Product, endpoint: Endpoint) -> tuple[float | None, int]:
    """Rename the folder of the batch; return the seconds until answers follow, and the texts embedded."""
    time.sleep(_SETTLE)
    texts, here = len(endpoint.texts), product.embedded_here()
    asked = {_word(number) for number in (0, _BATCH - 1)}

    def moved(number: int) -> bool:
        paths = product.ask(_word(number))
        return f"moved/note-{number}.md" in paths and f"batch/note-{number}.md" not in paths

    seconds = changed(
        product,
        lambda: (product.root / "batch").rename(product.root / "moved"),
        lambda: moved(0) and moved(_BATCH - 1),
    )
    time.sleep(_SETTLE)
    again = sum(text not in asked for text in endpoint.texts[texts:])
    return seconds, again + product.embedded_here() - here


def delete(product: Product) -> float | None:
    """Delete a note; return the seconds until no answer has it."""
    gone = product.root / "moved" / "note-3.md"
    return changed(product, gone.unlink, lambda: "moved/note-3.md" not in product.ask(_word(3)))


def searches(product: Product, questions: Sequence[str]) -> list[float]:
    """Ask questions in turn; return the seconds of each. The first five only warm it up."""
    taken = []
    for question in questions[: _QUESTIONS + 5]:
        began = time.perf_counter()
        product.ask(question)
        taken.append(time.perf_counter() - began)
    return taken[5:]


def commands(product: Product, questions: Sequence[str]) -> list[float]:
    """Ask some questions each with a command of its own, as in a terminal; return the seconds of each."""
    taken = []
    for question in questions[:_COMMANDS]:
        began = time.perf_counter()
        product.run(product.ask_command(question))
        taken.append(time.perf_counter() - began)
    return taken


def measure(product: Product, judged: OpenSet, endpoint: Endpoint) -> Iterator[tuple[str, str]]:
    """Index a set, serve it, change notes and ask; yield what was measured, a row at a time."""
    cost = first_index(product)
    yield f"first index, {judged.name}", f"{cost.seconds:.1f} s"
    yield "processor time of it", f"{cost.processor:.1f} s"
    yield "peak memory of it", f"{cost.memory / _MEGA:.0f} MB"
    questions = list(judged.questions.values())
    product.start()
    try:
        yield from qualities(product, judged)
        yield "a question", spread(searches(product, questions))
        assert product.process is not None  # noqa: S101 - start() has set it
        yield "memory while serving", f"{tree_memory(product.process) / _MEGA:.0f} MB"
        yield "a question as a command", f"{statistics.median(commands(product, questions)):.1f} s"
        # A fused ranking may place a note's only word below ten others.
        product.mode = product.words_alone
        yield "save to searchable", waits(saves(product))
        moved, again = rename(product, endpoint)
        yield "folder of 20 renamed", waits([moved])
        yield "texts embedded again by it", str(again) if product.meaning else "–"
        yield "deleted note still answers", waits([delete(product)])
    finally:
        product.stop()


def measure_quality(product: Product, judged: OpenSet) -> Iterator[tuple[str, str]]:
    """Index a set, and yield how good the answers to its questions are."""
    yield f"first index, {judged.name}", f"{first_index(product).seconds:.1f} s"
    product.start()
    try:
        yield from qualities(product, judged)
    finally:
        product.stop()


def spread(seconds: Sequence[float]) -> str:
    """Say the median and the 95th percentile in milliseconds."""
    return f"{1000 * statistics.median(seconds):.0f} / {1000 * p95(list(seconds)):.0f} ms"


def waits(seconds: Sequence[float | None]) -> str:
    """Say the median and the longest of some waits, or how many never ended."""
    ended = [one for one in seconds if one is not None]
    if len(ended) < len(seconds):
        return f"{len(seconds) - len(ended)} of {len(seconds)} not within {_PATIENCE:.0f} s"
    if len(ended) == 1:
        return f"{ended[0]:.1f} s"
    return f"{statistics.median(ended):.2f} / {max(ended):.2f} s"
