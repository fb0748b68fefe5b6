"""How fast texts become vectors, against sentence-transformers' own `encode`, and what bfloat16 costs in quality.

    python -m benchmarks.embedding [--data FOLDER] [--texts N]

The texts are passages of real notes, of all lengths. Each way of encoding has a process of its own with all cores;
the ways take turns, three rounds, and the median counts. bge-large has its true shape and random weights: its cost is
that of the real one, and its vectors say only how near bfloat16 stays to float32. It gets a twentieth of the texts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import ir_measures
import numpy as np
import numpy.typing as npt
from ir_measures import Qrel, ScoredDoc, nDCG
from rich.console import Console
from rich.table import Table

from benchmarks.judged import DATA, read_grades, read_rows
from benchmarks.passages import save_large_model
from pipelines.embedding import embedder as embed
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
from pipelines.notes.chunk import chunk_note, chunk_settings
from pipelines.notes.markdown import read_note

Vectors = npt.NDArray[np.float32]

VAULTS = ("vault-foam-docs", "vault-knowledge-garden")
JUDGED = "scifact-train"
PASSAGES = 1_000
"""How many of the judged set's documents are ranked: those that are judged, and others drawn at random."""

ROUNDS = 3
WANTED = {
    ("MiniLM", "float32"): 1.8,
    ("MiniLM", "torch"): 4.5,
    ("MiniLM", "openvino"): 6.0,
    ("bge-large's shape", "torch"): 5.0,
}
"""The least ratio to `encode`, by model and way: float32 is what the order of the texts alone gives."""

WANTED_ERROR = 1e-3

_CODE = "import sys; from benchmarks.embedding import serve; serve(*sys.argv[1:])"


@dataclass(frozen=True)
class Encoder:
    """A process that encodes in one way, and how it computes."""

    process: subprocess.Popen[str]
    how: str
    ready_s: float
    folder: Path

    def encode(self, texts: list[str]) -> tuple[float, Vectors]:
        """Return how many seconds it took to encode texts, and their vectors."""
        (self.folder / "texts.json").write_text(json.dumps(texts))
        assert self.process.stdin  # noqa: S101 - it is a pipe
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(_line(self.process)), np.load(self.folder / "vectors.npy")


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout  # noqa: S101 - it is a pipe
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process that encodes died; its last words are above")
    return line.strip()


@contextmanager
def encoder(way: str, model: Path) -> Iterator[Encoder]:
    """Start a process that encodes in one way, and wait until it can."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE, way, str(model), folder],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield Encoder(process, _line(process), time.perf_counter() - started, Path(folder))
        finally:
            process.kill()
            process.communicate()


def serve(way: str, model: str, folder: str) -> None:
    """Run as such a process: for each line of input, encode `texts.json` and print the seconds that it took."""
    how, encode = _shipped(model) if way == "shipped" else _ours(way, model, folder)
    encode(["A first text pays for what is made at first use."] * 4)
    print(how, flush=True)
    for _ in sys.stdin:
        texts = json.loads(Path(folder, "texts.json").read_text())
        started = time.perf_counter()
        vectors = encode(texts)
        took = time.perf_counter() - started
        np.save(Path(folder, "vectors.npy"), vectors)
        print(took, flush=True)


def _shipped(model: str) -> tuple[str, Callable[[list[str]], Vectors]]:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(os.cpu_count() or 1)
    return "float32", SentenceTransformer(model, device="cpu", local_files_only=True).encode


def _ours(way: str, model: str, folder: str) -> tuple[str, Callable[[list[str]], Vectors]]:
    keep = Path(folder, "exported") if way == "openvino" else None
    if way == "float32":
        embed._processor_has_bfloat16 = lambda: False  # noqa: SLF001 - only a benchmark wants the slower one
    embedder = Embedder(find_model(model), threads=os.cpu_count() or 1, openvino=keep)
    return embedder.precision, embedder.encode_documents


def passages(data: Path, window: int, count: int) -> list[str]:
    """Return different passages of real notes, cut for a model's window, in a random order."""
    settings = chunk_settings(window, None, None)
    found: dict[str, None] = {}
    for name in VAULTS:
        for file in sorted((data / name / "vault").rglob("*.md")):
            note = read_note(file.name, file.read_bytes())
            found.update(dict.fromkeys(chunk.text for chunk in chunk_note(note, settings)))
    texts = list(found)
    random.Random(1).shuffle(texts)  # noqa: S311 - a draw, not a secret
    return texts[:count]


def speeds(table: Table, name: str, model: Path, texts: list[str]) -> None:
    """Add a row for each way of encoding with a model."""
    ways = [way for of, way in WANTED if of == name]
    if "openvino" in ways and not _openvino_installed():
        ways.remove("openvino")
        table.add_row(name, "openvino", "not installed (everindex[openvino]); not measured")
    with ExitStack() as running:
        encoders = {way: running.enter_context(encoder(way, model)) for way in ("shipped", *ways)}
        seconds: dict[str, list[float]] = {way: [] for way in encoders}
        vectors: dict[str, Vectors] = {}
        for _ in range(ROUNDS):
            for way, one in encoders.items():
                took, vectors[way] = one.encode(texts)
                seconds[way].append(took)
                print(f"  {name}, {way}: {len(texts) / took:.1f} texts/s", file=sys.stderr, flush=True)
    shipped = statistics.median(seconds["shipped"])
    exact = vectors["shipped"] / np.linalg.norm(vectors["shipped"], axis=1, keepdims=True)
    for way in ways:
        ours, wanted = statistics.median(seconds[way]), WANTED[name, way]
        error = 1 - float((exact * vectors[way]).sum(axis=1).min())
        table.add_row(
            name,
            way,
            encoders[way].how,
            str(len(texts)),
            f"{len(texts) / shipped:.1f}",
            f"{len(texts) / ours:.1f}",
            _judged(f"{shipped / ours:.2f}", good=shipped / ours >= wanted),
            f"{wanted}",
            _judged(f"{error:.1e}", good=error <= WANTED_ERROR),
            f"{encoders[way].ready_s:.1f}",
        )


def _openvino_installed() -> bool:
    return find_spec("openvino") is not None and find_spec("optimum") is not None


def _judged(text: str, *, good: bool) -> str:
    return text if good else f"[red]{text} short[/red]"


def ranking(table: Table, folder: Path) -> None:
    """Add a row for each way: nDCG@10 of the judged set by vectors alone, each passage against each question."""
    grades = read_grades(folder / "qrels.tsv")
    questions = {
        row["_id"]: row["text"] for row in read_rows(folder / "queries.jsonl") if row["_id"] in grades
    }
    documents = {row["_id"]: f"{row['title']}\n\n{row['text']}" for row in read_rows(folder / "corpus.jsonl")}
    judged = {document for of in grades.values() for document in of}
    others = sorted(documents.keys() - judged)
    random.Random(1).shuffle(others)  # noqa: S311 - a draw, not a secret
    kept = [*sorted(judged), *others[: max(0, PASSAGES - len(judged))]]
    qrels = [Qrel(q, document, grade) for q, of in grades.items() for document, grade in of.items()]
    model = find_model(None).folder
    for way in ("float32", "torch", *(["openvino"] if _openvino_installed() else [])):
        with encoder(way, model) as one:
            _, asked = one.encode(list(questions.values()))
            _, found = one.encode([documents[document] for document in kept])
            how = one.how
        scores = asked @ found.T
        best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        run = [
            ScoredDoc(q, kept[place], float(scores[n, place]))
            for n, q in enumerate(questions)
            for place in best[n]
        ]
        ndcg = ir_measures.calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10]
        print(f"  {JUDGED}, {way}: {ndcg:.4f}", file=sys.stderr, flush=True)
        table.add_row(way, how, f"{len(kept)} of {len(documents)}", str(len(questions)), f"{ndcg:.4f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--texts", type=int, default=500)
    given = parser.parse_args()
    console = Console(width=140)
    short = passages(given.data, 256, given.texts)
    if short:
        headings = ("model", "way", "computes in", "texts", "encode, texts/s", "texts/s", "ratio", "wanted")
        table = Table(*headings, "cosine error", "loaded in s", title="how fast texts become vectors")
        speeds(table, "MiniLM", find_model(None).folder, short)
        with tempfile.TemporaryDirectory() as folder:
            long = passages(given.data, 512, max(1, given.texts // 20))
            speeds(table, "bge-large's shape", Path(save_large_model(Path(folder))), long)
        console.print(table)
    else:
        console.print(f"{' and '.join(VAULTS)}: missing below {given.data}; speed was not measured")
    if (given.data / JUDGED).is_dir():
        table = Table(
            "way", "computes in", "documents", "questions", "nDCG@10", title=f"{JUDGED}, vectors alone"
        )
        ranking(table, given.data / JUDGED)
        console.print(table)
    else:
        console.print(f"{JUDGED}: missing below {given.data}; quality was not measured")
    print(f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {os.cpu_count()} cores, ", end="")
    print(f"Python {platform.python_version()}, commit {_commit()}")


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next(
        (x.partition(":")[2].strip() for x in lines if x.startswith("model name")), platform.machine()
    )


def _commit() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


if __name__ == "__main__":
    main()
