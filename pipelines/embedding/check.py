"""Check a model before it is used: what computes it, whether its vectors can be used, and how fast they come."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import numpy as np

from pipelines.embedding.embedder import Embedder, Library
from pipelines.embedding.models import CLOSE_ENOUGH, NO_MODEL, ModelInfo
from pipelines.errors import ModelUnavailableError
from pipelines.model import Precision

# Lincoln's address at Gettysburg, 1863.
_ADDRESS = """
Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, and
dedicated to the proposition that all men are created equal. Now we are engaged in a great civil war, testing
whether that nation, or any nation so conceived and so dedicated, can long endure. We are met on a great
battle-field of that war. We have come to dedicate a portion of that field, as a final resting place for those who
here gave their lives that that nation might live. It is altogether fitting and proper that we should do this. But,
in a larger sense, we can not dedicate -- we can not consecrate -- we can not hallow -- this ground. The brave men,
living and dead, who struggled here, have consecrated it, far above our poor power to add or detract. The world will
little note, nor long remember what we say here, but it can never forget what they did here. It is for us the
living, rather, to be dedicated here to the unfinished work which they who fought here have thus far so nobly
advanced. It is rather for us to be here dedicated to the great task remaining before us -- that from these honored
dead we take increased devotion to that cause for which they gave the last full measure of devotion -- that we here
highly resolve that these dead shall not have died in vain -- that this nation, under God, shall have a new birth of
freedom -- and that government of the people, by the people, for the people, shall not perish from the earth.
"""
_LENGTHS = (4, 8, 16, 32, 64, 96, 128, 160)
SAMPLE = tuple(
    " ".join(_ADDRESS.split()[start : start + length]) for start in range(0, 80, 10) for length in _LENGTHS
)
"""64 texts of 4 to 160 words."""
QUESTIONS = SAMPLE[1 :: len(_LENGTHS)]
"""8 texts as long as a question."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How a library computes a model here, and how fast: the texts of the sample, and one question at a time."""

    library: Library
    precision: Precision
    device: str
    texts_per_s: float
    ms_per_question: float


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """What a model is, and its speed by each library that can compute it.

    `agreement` is the lowest cosine between the vectors that two of them give for a text; None: only one can.
    """

    info: ModelInfo
    speeds: tuple[Speed, ...]
    agreement: float | None


def check_model(info: ModelInfo, threads: int) -> ModelCheck:
    """Load a model by each library that can, and compare and time them.

    Raises ModelUnavailableError if none can or two disagree, BadVectorError if a vector is zero or not finite.
    """
    if info.name == NO_MODEL:
        raise ModelUnavailableError(f"{NO_MODEL!r} means words alone, so there is no model to check")
    speeds, found = {}, []
    wanted: tuple[Library, ...] = ("numpy", "torch")
    for library in wanted:
        if library in speeds:
            continue  # the other one cannot compute this model
        embedder = Embedder(info, threads=threads, library=library)
        if embedder.library in speeds:
            continue  # torch is not installed
        found.append(embedder.encode_documents(SAMPLE))
        speeds[embedder.library] = speed_of(embedder)
    agreement = float(np.min(np.sum(found[0] * found[1], axis=1))) if len(found) > 1 else None
    if agreement is not None and agreement < CLOSE_ENOUGH:
        raise ModelUnavailableError(
            f"the model {info.name!r} in {info.folder} gives other vectors in numpy than in torch (lowest cosine "
            f"{agreement:.4f}), so one of them computes it wrongly; choose another model, and report this one"
        )
    return ModelCheck(info, tuple(speeds.values()), agreement)


def speed_of(embedder: Embedder) -> Speed:
    """Time a loaded model: the texts with the threads that it has, questions with one. It keeps one thread."""
    started = time.perf_counter()
    embedder.encode_documents(SAMPLE)
    texts = len(SAMPLE) / (time.perf_counter() - started)
    embedder.use_threads(1)
    took = []
    for question in QUESTIONS:
        started = time.perf_counter()
        embedder.encode_queries([question])
        took.append(1000 * (time.perf_counter() - started))
    return Speed(embedder.library, embedder.precision, embedder.device, texts, median(took))
