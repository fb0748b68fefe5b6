"""How similar sentences are to a question, within a budget of time; those met before cost nothing."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from pipelines.retrieval.search import Similarities
from pipelines.store.cache import Vector

BUDGET_SECONDS = 0.03
"""So long may the sentences of one answer take; after it, excerpts are chosen by words."""
_KEPT = 20_000


class SentenceVectors:
    """The vectors of sentences by one model, the last 20,000 kept. Safe to use from several threads.

    `encode` gives one unit vector a text, with the prefix of questions: shape (len(texts), dimension).
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], npt.NDArray[np.float32]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._encode = encode
        self._clock = clock
        self._kept: OrderedDict[str, npt.NDArray[np.float16]] = OrderedDict()
        self._turn = threading.Lock()

    def similarities(self, question: Vector) -> Similarities:
        """Return the function that says how similar sentences are to a question; its time counts from now."""
        deadline = self._clock() + BUDGET_SECONDS

        def similar(sentences: Sequence[str]) -> list[float] | None:
            with self._turn:
                new = [s for s in dict.fromkeys(sentences) if s not in self._kept]
                if new and self._clock() >= deadline:
                    return None
            if new:
                self._keep(new, self._encode(new))
            with self._turn:
                vectors = [self._kept.get(s) for s in sentences]
            if any(vector is None for vector in vectors):
                return None  # others filled the store meanwhile
            return [float(vector.astype(np.float32) @ question) for vector in vectors if vector is not None]

        return similar

    def _keep(self, sentences: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        with self._turn:
            self._kept |= zip(sentences, vectors.astype(np.float16), strict=True)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
