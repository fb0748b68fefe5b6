"""Vaults of real passages, as many as are wanted, and their index with vectors that are made up.

The text is of the judged collections: their documents cut into passages, and where these do not suffice, further
ones of sentences drawn from them all. The real pipeline indexes the notes; only the vectors are made up, as
embedding takes hours for 200,000 passages and their sentences: 1,500 real passages are embedded, and each text has
a mixture of four of these and noise, seeded by the text.
"""

from __future__ import annotations

import math
import random
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.judged import COLLECTIONS, read_rows
from pipelines.domains import DOMAINS_FILE
from pipelines.embedding.models import EMBEDDED_MODEL
from pipelines.graph.ranking import rank_domain
from pipelines.indexing.ingest import embed_pending, index_words
from pipelines.indexing.reconcile import reconcile
from pipelines.search.find import prepare
from queue_config.settings import Settings
from service.schemas.search import LONGEST_QUERY
from workers.resources import Resources

# 200 words are a chunk for a model with a window of 256 tokens: a passage has fewer, with its heading and links.
_FEWEST_WORDS, _LONGEST_SENTENCE = 90, 60
_MOST_SECTIONS, _MOST_SENTENCES = 7, 12
ANCHORS, _MIXED = 1_500, 4
_DOMAINS = "vault:\n  legacy: true\n  decay:\n    mode: ranked_grouped\n"
Vectors = npt.NDArray[np.float32]


def real_sentences(data: Path) -> Iterator[list[str]]:
    """Yield the sentences of each document of the judged collections, its title first; 60 words at most."""
    for name in COLLECTIONS:
        for document in read_rows(data / name / "corpus.jsonl"):
            parts = re.split(r"(?<=[.!?])\s+", f"{document['title']}. {document['text']}")
            yield [
                " ".join(words[at : at + _LONGEST_SENTENCE])
                for words in map(str.split, parts)
                for at in range(0, len(words), _LONGEST_SENTENCE)
            ]


def passages(documents: Sequence[Sequence[str]]) -> Iterator[tuple[str, bool]]:
    """Yield different passages of some hundred words without end, and whether each is real; the real ones first."""
    chance = random.Random(1)  # noqa: S311 - texts, not secrets
    everything = [sentence for document in documents for sentence in document]
    real = ((text, True) for document in documents for text in _cut(document))
    mixed = ((next(_cut(chance.choices(everything, k=_MOST_SENTENCES))), False) for _ in count())
    seen: set[str] = set()
    for cut, is_real in chain(real, mixed):
        # No list, fence or heading: those would change how the note is cut.
        text = re.sub(r"^\W+", "", cut)
        if text and text not in seen:
            seen.add(text)
            yield text, is_real


def _cut(sentences: Sequence[str]) -> Iterator[str]:
    passage: list[str] = []
    for sentence in sentences:
        passage += sentence.split()
        if len(passage) >= _FEWEST_WORDS:
            yield " ".join(passage)
            passage = []
    yield " ".join(passage)


def write_vault(root: Path, texts: Sequence[str]) -> None:
    """Write notes of one to seven sections, one passage per section, with an author, a date and one to three links.

    Links go to earlier notes, the likelier the more links a note has (Barabási and Albert, 1999).
    """
    chance = random.Random(2)  # noqa: S311 - notes, not secrets
    ends, at, note = [0], 0, 0
    root.mkdir(parents=True, exist_ok=True)
    (root / DOMAINS_FILE).write_text(_DOMAINS)
    while at < len(texts):
        own = texts[at : at + chance.randint(1, _MOST_SECTIONS)]
        targets = [chance.choice(ends) for _ in range(chance.randint(1, 3))]
        published = date(2020, 1, 1) + timedelta(days=chance.randrange(2_400))
        author = f"Author {min(400, int(chance.paretovariate(0.5)))}"
        sections = [
            f"{'##' if n else '#'} {' '.join(text.split()[:6])}\n\n{text}\n" for n, text in enumerate(own)
        ]
        links = " ".join(f"[[note-{target}]]" for target in targets)
        file = root / f"{note // 200:03}" / f"note-{note}.md"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            front = f"---\nauthor: {author}\npublished: {published}\n---\n"
            file.write_text(front + "\n".join(sections) + links + "\n", encoding="utf-8")
        ends += [note, *targets]
        at, note = at + len(own), note + 1


class MixedVectors:
    """Makes up unit vectors: for each text a mixture of four of the anchors, and noise."""

    def __init__(self, anchors: npt.NDArray[np.floating]) -> None:
        self._anchors = anchors / np.linalg.norm(anchors, axis=1, keepdims=True)

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, the same each time: shape (len(texts), dimension)."""
        return np.array([self._mixture(text) for text in texts], np.float32)

    def _mixture(self, text: str) -> Vectors:
        chance = np.random.default_rng(zlib.crc32(text.encode()))
        count, dimension = self._anchors.shape
        noise = chance.standard_normal(dimension) / math.sqrt(dimension)
        mixed = chance.dirichlet(np.ones(_MIXED)) @ self._anchors[chance.integers(0, count, _MIXED)]
        vector = mixed + noise / 2
        return np.asarray(vector / np.linalg.norm(vector), np.float32)


def large_vault(folder: Path, data: Path, size: int) -> Iterator[tuple[str, str]]:
    """Make a vault of as many passages and its index below a folder, unless they are there; yield what they hold."""
    chosen = list(islice(passages(list(real_sentences(data))), size))
    real = [text for text, is_real in chosen if is_real]
    yield "passages written / of these real", f"{size:,} / {len(real):,}"
    write_vault(folder / "vault", [text for text, _ in chosen])
    sample = random.Random(4).sample(real, min(ANCHORS, len(real)))  # noqa: S311 - texts, not secrets
    yield from build_index(folder / "vault", folder / "state", sample)


def build_index(root: Path, state: Path, sample: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Bring the index up to date with the vault, by the pipeline with made up vectors; yield what it holds."""
    began = time.perf_counter()
    resources = Resources(Settings(vault=root, state=state, embedding_model=EMBEDDED_MODEL))
    (domain,) = resources.domains()
    index = resources.cache(domain)

    @cache
    def encoder() -> MixedVectors:
        return MixedVectors(resources.embedders.get(EMBEDDED_MODEL).encode_documents(sample))

    def compare() -> str:
        limit = resources.settings.max_note_bytes
        caches = {domain.slug: index}
        (found,) = reconcile(resources.root, resources.registry(), caches, max_bytes=limit).values()
        return f"{found.new} / {found.updated} / {found.removed}"

    compare()
    index.leases.free_those_of_the_dead(resources.is_at_work)  # an interrupted build's
    ingest = replace(resources.ingest(domain, index), encoder=encoder)
    while index_words(index, ingest).touched or embed_pending(index, ingest).touched:
        pass
    prepare(index, lambda sentences: encoder().encode_documents(sentences), enough=lambda: False)
    if index.edges.ranks_behind():
        rank_domain(index, domain)
    counts = index.counts()
    yield "built, or found as it was, in", f"{time.perf_counter() - began:.0f} s"
    yield "passages, with vectors / notes", f"{counts.chunks:,}, {counts.vectors:,} / {counts.notes:,}"
    yield "what a start finds new / changed / gone", compare()
    index.close()


def real_questions(data: Path, count: int) -> list[str]:
    """Return different questions of the judged collections, as many of each as it has and the number needs."""
    chance = random.Random(3)  # noqa: S311
    pools = []
    for name in COLLECTIONS:
        texts = dict.fromkeys(row["text"].strip() for row in read_rows(data / name / "queries.jsonl"))
        pools.append(chance.sample(list(texts), len(texts)))
    turns = (pool[n] for n in range(max(map(len, pools))) for pool in pools if n < len(pool))
    chosen = list(islice((text for text in turns if 0 < len(text) <= LONGEST_QUERY), count))
    return chance.sample(chosen, len(chosen))
