"""What compression and density need of the caches: the sentences' vectors, and the lines that folders repeat."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np

from pipelines.cache import passages
from pipelines.cache import search as store
from pipelines.cache.cache import Cache, Vector
from pipelines.cache.passages import ChunkRow, Quantized, quantized_of_chunks
from pipelines.context.block import Tokens, boilerplate_share, repeated_lines
from pipelines.context.candidates import Candidate
from pipelines.context.compress import Aim, CompressionMode, best_part, compress
from pipelines.notes import lexical
from pipelines.notes.frontmatter import line_starts
from pipelines.search.excerpts import split_sentences
from service.usecases.context_passages import Gathered

_NOTES_READ = 40  # of a folder
_FOLDERS_KEPT = 256
_SPARE = 0.95  # of the room: marks take some of it


class RepeatedLines:
    """The lines that repeat through the notes of folders, read again when the index has changed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], tuple[str, frozenset[str]]] = OrderedDict()
        self._turn = threading.Lock()

    def of(self, domain: str, cache: Cache, folder: str, without: frozenset[str]) -> frozenset[str]:
        """Return the repeated lines of a folder, by its first 40 notes `without` some. Raises CacheError."""
        key, now = (domain, folder, hash(without)), store.generation(cache)
        with self._turn:
            known = self._kept.get(key)
        if known and known[0] == now:
            return known[1]
        texts = passages.texts_in_folder(cache, folder, _NOTES_READ, without)
        found = repeated_lines(["\n".join(own) for own in texts.values()])
        with self._turn:
            self._kept[key] = (now, found)
            while len(self._kept) > _FOLDERS_KEPT:
                self._kept.popitem(last=False)
        return found


class Compression:
    """Compresses the passages of one question, by the stored vectors of their sentences."""

    def __init__(self, mode: CompressionMode, question: str, gathered: Gathered, tokens: Tokens) -> None:
        self._mode, self._gathered, self._tokens = mode, gathered, tokens
        self._terms = lexical.query_terms(question)
        self._vectors: dict[str, dict[int, Quantized]] = {}
        self.repeated: dict[tuple[str, str], frozenset[str]] = {}

    def find_repeated(self, lines: RepeatedLines) -> None:
        """Look up the lines that the folders of all passages repeat, without hidden notes. Raises CacheError."""
        for one in (*self._gathered.matching, *self._gathered.linked):
            folder = str(PurePosixPath(one.path).parent)
            cache = self._gathered.page.ranked.sources[one.domain].cache
            hidden = self._gathered.hidden.get(one.domain, frozenset())
            self.repeated[one.note] = lines.of(one.domain, cache, "" if folder == "." else folder, hidden)

    def weighed(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return passages with their shares of repeated lines."""
        return [
            replace(
                one,
                boilerplate=boilerplate_share(one.text, self.repeated.get(one.note, ())),
                parts=tuple(self.weighed(one.parts)),
            )
            for one in candidates
        ]

    def shrink(self, one: Candidate, room: int) -> Candidate | None:
        """Return a passage compressed towards `room` tokens; None if nothing can be left out. Raises CacheError."""
        if self._mode == "none":
            return None
        (size,) = self._tokens.of([one.text])
        text, _ = compress(one.text, self._aim(one, share=_SPARE * room / max(1, size)))
        return replace(one, text=text, compressed=True) if len(text) < len(one.text) else None

    def cut(self, one: Candidate, room: int) -> Candidate | None:
        """Return the part of a passage around what is nearest to the question; None if nothing fits.

        Raises CacheError.
        """
        found = best_part(one.text, self._aim(one), self._tokens.of, int(_SPARE * room))
        if found is None:
            return None
        start, end = found
        before, within = (len(line_starts(text)) - 1 for text in (one.text[:start], one.text[start:end]))
        return replace(
            one,
            text=one.text[start:end],
            start=one.start + start,
            end=one.start + end,
            first=one.first + before,
            last=one.first + before + within,
            is_whole=False,
        )

    def _aim(self, one: Candidate, share: float = 0.0) -> Aim:
        repeated = self.repeated.get(one.note, frozenset())
        return Aim(self._mode, self._terms, self._near(one), repeated, share, one.is_source)

    def _near(self, one: Candidate) -> list[tuple[int, int, float]]:
        """Return how near the sentences of a passage are to the question, where their vectors are prepared."""
        source = self._gathered.page.ranked.sources[one.domain]
        rows = [
            row
            for row in self._gathered.rows.get(one.note, ())
            if row.start < one.end and one.start < row.end
        ]
        if source.vector is None:
            return []
        quantized = self._quantized(one.domain, source.cache)
        return [
            (start - one.start, end - one.start, cosine)
            for row in rows
            if row.chunk_id in quantized
            for start, end, cosine in _sentences(row, quantized[row.chunk_id], source.vector)
        ]

    def _quantized(self, domain: str, cache: Cache) -> Mapping[int, Quantized]:
        if domain not in self._vectors:
            ids = [
                row.chunk_id
                for note, rows in self._gathered.rows.items()
                if note[0] == domain
                for row in rows
            ]
            self._vectors[domain] = quantized_of_chunks(cache, ids)
        return self._vectors[domain]


def _sentences(row: ChunkRow, quantized: Quantized, question: Vector) -> Collection[tuple[int, int, float]]:
    """Return the range in its note and the cosine to the question of each sentence of a stored passage."""
    sentences = split_sentences(row.text)
    if len(sentences) != len(quantized) or not len(quantized):
        return ()
    vectors = quantized.astype(np.float32)
    cosines = vectors @ question / np.linalg.norm(vectors, axis=1)
    return [
        (row.start + one.start, row.start + one.end, float(cosine))
        for one, cosine in zip(sentences, cosines, strict=True)
    ]
