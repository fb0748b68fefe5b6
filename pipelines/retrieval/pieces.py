"""Find how near the nearest piece of a passage is to a question: the whole passage, or one of its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from pipelines.store.cache import Vector
from pipelines.store.sentences import Quantized

Id = TypeVar("Id")


def nearest_pieces(
    passages: Mapping[Id, float], quantized: Mapping[Id, Quantized], question: Vector
) -> dict[Id, float]:
    """Return for each passage, given by its cosine, the best of that cosine and its sentences' cosines.

    The vector of a whole passage averages all that it says; the sentence that answers is one of many, or lies beyond
    what the model reads of a passage. Callan, "Passage-Level Evidence in Document Retrieval", SIGIR 1994, with
    sentences as passages. Return nothing while no passage's sentences are prepared.
    """
    prepared = {item: own for item, own in quantized.items() if len(own) and item in passages}
    if not prepared:
        return {}
    vectors = np.concatenate(list(prepared.values())).astype(np.float32)
    # `einsum` stays in this thread; OpenBLAS would wait for other threads on a busy machine.
    cosines = np.einsum("ij,j->i", vectors, question) / np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    starts = np.cumsum([0, *map(len, prepared.values())])[:-1]
    best = dict(zip(prepared, np.maximum.reduceat(cosines, starts).tolist(), strict=True))
    return {item: max(cosine, best.get(item, cosine)) for item, cosine in passages.items()}
