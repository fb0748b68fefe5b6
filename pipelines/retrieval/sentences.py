"""The vectors of sentences: prepared after indexing, or computed within a question's time budget."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from pipelines.errors import BadVectorError, ModelUnavailableError
from pipelines.retrieval.quantized import quantize
from pipelines.retrieval.search import Similarities
from pipelines.retrieval.splitting import split_sentences
from pipelines.store import sentences as store
from pipelines.store.cache import Cache, Vector
from pipelines.store.sentences import Quantized

BUDGET_SECONDS = 0.03
"""Time budget for encoding one answer's sentences; past it, excerpts are chosen by matching words."""
_KEPT = 20_000
# About thirty sentences: the longest that a save has to wait.
_TEXTS_AT_ONCE = 4

Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""Return one unit vector per text, with the prefix of questions: shape (len(texts), dimension)."""


def prepare(cache: Cache, encode: Encode, enough: Callable[[], bool]) -> int:
    """Encode and store the sentences of texts that have none yet, until `enough`; return how many sentences."""
    done = 0
    while texts := store.owed_texts(cache, _TEXTS_AT_ONCE):
        split = {text_hash: [s.text for s in split_sentences(text)] for text_hash, text in texts.items()}
        # Store an empty result for a text whose sentences have no vectors, so that it is not retried for ever.
        quantized = {text_hash: np.empty((0, cache.meta.dimension), np.int8) for text_hash in texts}
        sentences = list(dict.fromkeys(s for several in split.values() for s in several))
        with suppress(BadVectorError):
            of = dict(zip(sentences, quantize(encode(sentences))[0], strict=True))
            quantized |= {
                text_hash: np.array([of[s] for s in several]) for text_hash, several in split.items()
            }
        store.keep_quantized(cache, quantized)
        done += len(sentences)
        if enough():
            break
    return done


def _cosines(quantized: Quantized, question: Vector) -> list[float]:
    vectors = quantized.astype(np.float32)
    found: list[float] = (vectors @ question / np.linalg.norm(vectors, axis=1)).tolist()
    return found


class SentenceVectors:
    """The vectors of the last 20,000 sentences, by one model. Safe to use from several threads."""

    def __init__(self, encode: Encode, clock: Callable[[], float] = time.monotonic) -> None:
        self._encode = encode
        self._clock = clock
        self._kept: OrderedDict[str, npt.NDArray[np.float16]] = OrderedDict()
        self._turn = threading.Lock()

    def similarities(self, question: Vector) -> Similarities:
        """Return the function that computes sentences' similarities to a question; its time budget starts now."""
        deadline = self._clock() + BUDGET_SECONDS

        def similar(sentences: Sequence[str], prepared: Quantized | None) -> list[float] | None:
            if prepared is not None and len(prepared) == len(sentences):
                return _cosines(prepared, question)
            with self._turn:
                new = [s for s in dict.fromkeys(sentences) if s not in self._kept]
                if new and self._clock() >= deadline:
                    return None
            try:
                if new:
                    self._keep(new, self._encode(new))
            except (BadVectorError, ModelUnavailableError):
                return None
            with self._turn:
                vectors = [self._kept.get(s) for s in sentences]
            if any(vector is None for vector in vectors):
                return None  # other threads evicted some of them meanwhile
            return [float(vector.astype(np.float32) @ question) for vector in vectors if vector is not None]

        return similar

    def _keep(self, sentences: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        with self._turn:
            self._kept |= zip(sentences, vectors.astype(np.float16), strict=True)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
