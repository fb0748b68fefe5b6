"""How well and how fast the nearest passages are found in memory, in the file, and by pgvector in PostgreSQL.

    python -m benchmarks.vectors [--passages N ...]

The vectors are mixtures of those of the example vault's paragraphs, by the embedded model; the questions are further
mixtures. The server is the tests' own, with its defaults, on this machine. Each way finds as many candidates as a
question has, and the ten best of them by their exact cosines are compared with the ten nearest of all.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.command import EXAMPLE, conditions, folder_of, markdown, p95, parser
from pipelines.cache.pgvector import Choice, VectorTable
from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta
from pipelines.cache.vectors import Vector
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
from pipelines.search.vectors import QuantizedVectors, StoredVectors
from pipelines.sqlite import transaction
from tests.postgres import postgres_server

SIZES = (50_000, 500_000)
KINDS: tuple[Choice, ...] = ("exact", "ivfflat", "hnsw")
_QUESTIONS, _DEPTH, _BEST = 100, 60, 10
_OF, _NOISE = (
    3,
    0.02,
)  # real vectors per mixture, and what is added to each of its numbers, as a standard deviation
_A_NOTE, _AT_ONCE = 100, 10_000
_CHUNK = "id, path, position, section, heading_path, text, text_hash, start_offset, end_offset, first_line, last_line"


def real_vectors() -> Vector:
    """Return the vectors of the example vault's paragraphs."""
    paragraphs = [
        part
        for path in sorted(EXAMPLE.rglob("*.md"))
        for part in path.read_text(encoding="utf-8").split("\n\n")
        if len(part.split()) >= 8
    ]
    return Embedder(find_model(None), threads=1).encode_documents(paragraphs[:600])


def mixtures(real: Vector, count: int, seed: int) -> Vector:
    """Return unit vectors that are weighted means of a few real ones, with noise."""
    chance = np.random.default_rng(seed)
    made = np.empty((count, real.shape[1]), np.float32)
    for start in range(0, count, _AT_ONCE):
        part = made[start : start + _AT_ONCE]
        chosen = real[chance.integers(len(real), size=(len(part), _OF))]
        weights = chance.dirichlet(np.ones(_OF), len(part)).astype(np.float32)
        part[:] = np.einsum("ijk,ij->ik", chosen, weights) + chance.normal(0, _NOISE, part.shape)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return made


def put(cache: PostgresCache, vectors: Vector, first: int = 1) -> None:
    """Store made-up passages with these vectors, with the ids from `first` on."""
    for start in range(0, len(vectors), _AT_ONCE):
        part = list(enumerate(vectors[start : start + _AT_ONCE].astype("<f4"), first + start))
        notes = sorted({(number - 1) // _A_NOTE for number, _ in part})
        tables = {
            "vault_node (path, title, frontmatter, tags, aliases, modified_at, evergreen, warnings)": [
                f"{note}.md\t{note}\t{{}}\t[]\t[]\t2026-11-28\tf\t[]" for note in notes
            ],
            "vault_vector (text_hash, embedding)": [f"h{n}\t\\\\x{one.tobytes().hex()}" for n, one in part],
            f"vault_chunk ({_CHUNK}, has_vector)": [
                f"{n}\t{(n - 1) // _A_NOTE}.md\t{n}\t\t[]\tpassage {n}\th{n}\t0\t9\t1\t1\t1" for n, _ in part
            ],
        }
        with transaction(cache.con):
            for table, rows in tables.items():
                cache.con.copy_in(f"COPY {table} FROM STDIN", "".join(f"{row}\n" for row in rows).encode())
    cache.follow()


def measure(size: int, real: Vector, folder: Path, address: str) -> Iterator[list[str]]:
    """Yield a row of figures for each way to find the nearest of so many passages."""
    meta = CacheMeta("made up", real.shape[1], "p")
    cache = PostgresCache.create(address, secrets.token_hex(8), folder / f"{size}.db", meta)
    vectors, questions = mixtures(real, size, 1), mixtures(real, _QUESTIONS, 2)
    put(cache, vectors)
    nearest = np.argsort(-(questions @ vectors.T), axis=1)[:, :_BEST] + 1
    read = cache.copy.cache

    def row(way: str, prepared_s: float, ask: Callable[[Vector, int], list[tuple[int, float]]]) -> list[str]:
        hits, ms = 0, []
        for question, best in zip(questions, nearest, strict=True):
            began = time.perf_counter()
            found = ask(question, _DEPTH)
            ms.append(1000 * (time.perf_counter() - began))
            hits += len({chunk for chunk, _ in found[:_BEST]} & set(best.tolist()))
        recall = hits / (_BEST * _QUESTIONS)
        figures = (f"{recall:.3f}", f"{statistics.median(ms):.1f}", f"{p95(ms):.1f}", f"{prepared_s:.1f}")
        return [f"{size:,}", way, *figures]

    began = time.perf_counter()
    held = QuantizedVectors(meta.dimension)
    held.follow(read)
    yield row("memory", time.perf_counter() - began, partial(held.nearest, read))
    yield row("file", 0.0, read.search.nearest)
    for kind in KINDS:
        began = time.perf_counter()
        table = VectorTable(address, cache.con.schema, meta.dimension)
        table.keep(kind, None)
        while not table.is_complete:
            table.follow(read)
        built = table.keep(kind, None)
        stored = StoredVectors(table)
        figures = row(f"pgvector, {kind}", time.perf_counter() - began, partial(stored.nearest, read))
        figures[1] += f" (it says {built.recall:.3f})" if built else ""
        yield figures
    cache.close()


def main() -> None:
    """Print a table."""
    options = parser(__doc__)
    options.add_argument("--passages", type=int, nargs="+", default=SIZES)
    sizes = options.parse_args().passages
    console, real = Console(), real_vectors()
    console.print(conditions())
    with folder_of(None) as folder, postgres_server() as server:
        rows = [row for size in sizes for row in measure(size, real, folder, server.address)]
    head = ("passages", "way", "recall@10", "median, ms", "95th percentile, ms", "to prepare, s")
    console.print(markdown(head, rows), soft_wrap=True)


if __name__ == "__main__":
    main()
