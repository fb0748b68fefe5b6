"""Encode texts into unit vectors, in batches of similar length, by numpy or by torch."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from pipelines.embedding.bert import Bert, load_bert
from pipelines.embedding.models import CLOSE_ENOUGH, QUESTIONS_KEPT, ModelInfo, check_weights, pooling_of_bert
from pipelines.embedding.packed import load_packed
from pipelines.errors import BadVectorError, ModelUnavailableError
from pipelines.model import Precision

# Small batches of equal length keep the caches warm: 512 to 1,024 tokens measured best on two cores.
_TOKENS_PER_BATCH = 1024
# Parallel batches use the processor better than one batch on all cores, but their Python parts run one at a time.
_MOST_AT_ONCE = 4
_IDLE_SECONDS = 60.0
_PROBES = ("A note about gardens.", "§3 Absatz 2", "The quarterly letter to shareholders of a small company.")

Vectors = npt.NDArray[np.float32]
Library = Literal["numpy", "torch"]


class Model(Protocol):
    """What computes vectors on a `device`; `side_by_side`: several batches in parallel are faster."""

    device: str
    side_by_side: bool

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into tokens, at most as many per text as the window has."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, whole and without the model's own tokens."""

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> Vectors:
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""


class CrossEncoder(Protocol):
    """A loaded model that reads question and passage together."""

    def scores(self, question: str, texts: Sequence[str], threads: int) -> list[float]:
        """Return how well texts answer a question: more is better. Raises BadVectorError."""


def load_cross_encoder(folder: Path) -> CrossEncoder:
    """Load a cross-encoder by sentence-transformers, which takes seconds. Raises ModelUnavailableError."""
    if find_spec("sentence_transformers") is None:
        raise ModelUnavailableError(
            f"the cross-encoder {folder} needs sentence-transformers, which is not installed; install"
            " everindex[models]"
        )
    from pipelines.embedding.sentence_transformer import load_pairs  # noqa: PLC0415 - it loads torch

    try:
        return load_pairs(folder)
    except Exception as error:  # each library has its own errors; all mean the same to the user
        raise ModelUnavailableError(f"the cross-encoder {folder} cannot be loaded ({error})") from error


class Embedder:
    """A loaded model. Several threads may use it; if `side_by_side` is false, they take turns.

    `library` is what computes it, `precision` how: torch in bfloat16 if the processor supports it and the vectors
    agree with float32's. `warning` says why float32 is used although the processor supports bfloat16. `is_broken`
    says that it returns bad vectors even for the texts that it embedded when it was loaded. `unpacked` is a folder in
    which processes share what is unpacked of a model.
    """

    def __init__(
        self, info: ModelInfo, *, threads: int, library: Library = "numpy", unpacked: Path | None = None
    ) -> None:
        """Load a model with the library that is asked for, or with the other one where that cannot.

        Raises ModelUnavailableError.
        """
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        # Spinning threads become four times slower as soon as other processes want the CPU.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self.info = info
        self.library = library
        self.precision: Precision = "float32"
        self.warning: str | None = None
        self.is_broken = False
        # Held while work is given to the pool or the pool is replaced; held for the whole computation without
        # side_by_side.
        self._turn = threading.Lock()
        self._threads = threads
        self._unpacked = unpacked
        self._used_at: float | None = None
        self._pool = ThreadPoolExecutor(1)
        self._vector_of_question = lru_cache(QUESTIONS_KEPT)(self._encode_question)
        self._check()
        exact = self._load("float32")
        if self.library == "torch" and (self.device != "cpu" or _processor_has_bfloat16()):
            self._try_bfloat16(exact)

    def _check(self) -> None:
        try:
            check_weights(self.info)
        except OSError as error:
            raise ModelUnavailableError(
                f"the model {self.info.name!r} in {self.info.folder} cannot be read ({error.strerror}); "
                "install it again"
            ) from error

    def _load(self, precision: Precision) -> Vectors:
        """Load the weights for a precision; return the vectors of the probes.

        Raises ModelUnavailableError, BadVectorError.
        """
        info = self.info
        try:
            self.library, self._model = _load_model(info, self.library, precision, self._unpacked)
            self._share_out(self._threads)
            return self._compute(_PROBES)
        except (ModelUnavailableError, BadVectorError):
            raise
        except Exception as error:  # each library has its own errors; all mean the same to the user
            raise ModelUnavailableError(
                f"the model {info.name!r} in {info.folder} cannot be loaded ({error}); "
                "download it again or choose another with EMBEDDING_MODEL"
            ) from error

    @property
    def device(self) -> str:
        """The device that it computes on: `cpu` or `cuda`."""
        return self._model.device

    def _try_bfloat16(self, exact: Vectors) -> None:
        """Compute in bfloat16 if its vectors agree with those of float32."""
        del self._model  # avoid having a large model in memory twice
        try:
            cosine = float((exact * self._load("bfloat16")).sum(axis=1).min())
        except BadVectorError:
            cosine = 0.0
        if cosine >= CLOSE_ENOUGH:
            self.precision = "bfloat16"
        else:
            self._load("float32")
            self.warning = (
                f"the model {self.info.name!r} gives other vectors in bfloat16 (cosine to float32: {cosine:.4f}); "
                "it computes in float32, at about half the speed"
            )

    def rest(self) -> bool:
        """Return the memory of mapped weights once the model was idle for a minute; the next text maps them again.

        Say whether it has just become idle.
        """
        if self._used_at is None or time.monotonic() - self._used_at < _IDLE_SECONDS:
            return False
        self._used_at = None
        if isinstance(self._model, Bert):
            self._model.rest()
        return True

    def use_threads(self, threads: int) -> None:
        """Compute with this many threads from the next text on."""
        with self._turn:
            if threads != self._threads:
                self._share_out(threads)

    def _share_out(self, threads: int) -> None:
        """Divide the threads among the batches that are computed in parallel."""
        self._threads = threads
        self._at_once = min(threads, _MOST_AT_ONCE) if self._model.side_by_side else 1
        self._pool.shutdown()
        self._pool = ThreadPoolExecutor(self._at_once)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, whole and without the model's own tokens."""
        return self._model.count(texts)

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Encode texts with the model's prefix of passages: shape (len(texts), dimension), unit length.

        Raises BadVectorError if a text is the cause, ModelUnavailableError if the model is broken.
        """
        return self._encode([self.info.passage_prefix + text for text in texts])

    def encode_query(self, query: str) -> Vectors:
        """Encode one question with the model's query prefix: shape (dimension,), read-only.

        The vectors of recent questions are kept. Raises as `encode_documents`.
        """
        return self._vector_of_question(self.info.query_prefix + query)

    def _encode_question(self, text: str) -> Vectors:
        (vector,) = self._encode([text])
        vector.flags.writeable = False  # all who ask the same question get this array
        return np.asarray(vector, np.float32)

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode texts as questions: shape (len(queries), dimension), unit length. Raises as `encode_documents`."""
        return self._encode([self.info.query_prefix + query for query in queries])

    def _encode(self, texts: Sequence[str]) -> Vectors:
        try:
            return self._compute(texts)
        except BadVectorError as error:
            if self._embeds_probes():
                raise
            self.is_broken = True
            raise ModelUnavailableError(f"{error}; it gives such vectors for every text by now") from error

    def _embeds_probes(self) -> bool:
        try:
            self._compute(_PROBES)
        except BadVectorError:
            return False
        return True

    def _compute(self, texts: Sequence[str]) -> Vectors:
        out = np.zeros((len(texts), self.info.dimension), np.float32)
        if not texts:
            return out
        self._used_at = time.monotonic()
        tokens = self._model.tokens(texts)
        with self._turn:
            batches = list(_batches([len(t) for t in tokens], self._at_once))
            share = self._threads if len(batches) == 1 else self._threads // self._at_once
            vectors_of = partial(self._model.vectors, threads=share)
            todo = [[tokens[i] for i in batch] for batch in batches]
            found: Iterable[Vectors]
            if not self._model.side_by_side:
                found = [vectors_of(batch) for batch in todo]
            elif len(todo) == 1:
                # A single question: handing it to another thread costs a tenth of its time. It is computed further
                # below.
                found = map(vectors_of, todo)
            else:
                found = self._pool.map(vectors_of, todo)
        for batch, vectors in zip(batches, found, strict=True):
            out[batch] = vectors
        return _unit(out, self.info.name)


def _load_model(
    info: ModelInfo, library: Library, precision: Precision, unpacked: Path | None
) -> tuple[Library, Model]:
    """Load a model with a library, or with the other one where that cannot; return also which did.

    Raises ModelUnavailableError, and whatever the libraries raise.
    """
    has_torch = find_spec("sentence_transformers") is not None
    if library == "numpy" or not has_torch:
        if info.is_packed:
            return "numpy", load_packed(info.weights, unpacked)
        if pooling := pooling_of_bert(info.folder):
            with suppress(KeyError):  # its weights have other names, which transformers may know
                return "numpy", load_bert(info.folder, info.window, pooling, is_mapped=info.is_published)
    if not has_torch:
        raise ModelUnavailableError(
            f"the model {info.name!r} needs sentence-transformers, which is not installed; install "
            "everindex[models], or choose another with EMBEDDING_MODEL"
        )
    return "torch", _load_torch(info, precision)


def _load_torch(info: ModelInfo, precision: Precision) -> Model:
    import torch  # noqa: PLC0415 - it takes a second and 200 MB, and a process that only asks never needs it

    from pipelines.embedding.sentence_transformer import load_any, load_packed_bert  # noqa: PLC0415 - likewise

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if info.is_packed:
        return load_packed_bert(info.weights, device, precision)
    return load_any(info.folder, info.window, device, precision)


def _processor_has_bfloat16() -> bool:
    import torch  # noqa: PLC0415 - loaded by now

    # oneDNN itself reports support on x86 CPUs that only emulate bfloat16, too, which is slower than float32.
    has = torch.cpu.get_capabilities()
    computes = any(has.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return computes and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def _batches(lengths: Sequence[int], at_once: int) -> Iterator[list[int]]:
    """Yield indices in batches of similar length and equal token counts, so that `at_once` batches end together.

    No batch of several texts exceeds twice the token budget, including padding.
    """
    tokens = sum(lengths)
    share = tokens / (at_once * math.ceil(max(1, tokens) / (at_once * _TOKENS_PER_BATCH)))
    batch: list[int] = []
    taken, end = 0, share
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        padded = (len(batch) + 1) * lengths[batch[0]] if batch else 0
        if taken + lengths[index] / 2 > end or padded > 2 * _TOKENS_PER_BATCH:
            if batch:
                yield batch
            batch, end = [], end + share
        batch.append(index)
        taken += lengths[index]
    if batch:
        yield batch


def _unit(vectors: Vectors, name: str) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not (norms > 0).all():
        raise BadVectorError(
            f"the model {name} returned a vector that is zero or not finite; it was not used"
        )
    return np.asarray(vectors / norms, np.float32)
