"""Texts -> unit vectors, in batches of like length, by whatever computes them fastest."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipelines.embedding.model_info import ModelInfo, check_weights, pooling_of_bert
from pipelines.errors import BadVectorError, ModelUnavailableError
from pipelines.model import Precision

# Small batches of one length keep the caches warm: measured best at 512 to 1,024 on two cores.
_TOKENS_PER_BATCH = 1024
# Batches side by side keep more of a processor busy than one on all its cores; but Python's part of each takes turns.
_MOST_AT_ONCE = 4
_PROBES = ("A note about gardens.", "§3 Absatz 2", "The quarterly letter to shareholders of a small company.")
_CLOSE_ENOUGH = 0.999

Vectors = npt.NDArray[np.float32]


class Model(Protocol):
    """What computes vectors, on a `device`; `side_by_side` says whether several batches at once are faster."""

    device: str
    side_by_side: bool

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into tokens, no more each than the window has."""

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> Vectors:
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""


class Embedder:
    """A loaded model. Several threads may ask it; one that does a batch after the other has them take turns.

    `precision` says how it computes: bfloat16 where the processor has it and the vectors agree with float32, and
    ", OpenVINO" where that computes. `warning` says why it is float32 although the processor has bfloat16.
    """

    def __init__(self, info: ModelInfo, *, threads: int, openvino: Path | None = None) -> None:
        """Load a model; with OpenVINO where a folder is given that keeps what is exported to it.

        Raises ModelUnavailableError.
        """
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        # Threads that wait for each other by spinning are four times slower as soon as others want the processor.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self.info = info
        self.warning: str | None = None
        # Held while the pool is given work or exchanged; for all its work, where a model must not do two at once.
        self._turn = threading.Lock()
        self._openvino = openvino
        self._threads = threads
        self._pool = ThreadPoolExecutor(1)
        self._computes: Precision = "float32"
        self._check()
        exact = self._load("float32")
        if self.device != "cpu" or _processor_has_bfloat16():
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
        """Load the weights, to compute in a precision; return the probes' vectors.

        Raises ModelUnavailableError, BadVectorError.
        """
        info, openvino = self.info, self._openvino
        way_out = (
            f"remove {openvino} to export it again, or take EMBEDDING_BACKEND=torch"
            if openvino
            else "fetch it again or choose another with EMBEDDING_MODEL"
        )
        try:
            self._model = _load_fastest(info, openvino, precision)
            self._share_out(self._threads)
            return self._encode(_PROBES)
        except (ModelUnavailableError, BadVectorError):
            raise
        except Exception as error:  # each library below has errors of its own; all mean the same to the user
            raise ModelUnavailableError(
                f"the model {info.name!r} in {info.folder} cannot be loaded ({error}); {way_out}"
            ) from error

    @property
    def device(self) -> str:
        """Where it computes: `cpu` or `cuda`."""
        return self._model.device

    @property
    def precision(self) -> str:
        """How it computes, for people to read."""
        return f"{self._computes}, OpenVINO" if self._openvino else self._computes

    def _try_bfloat16(self, exact: Vectors) -> None:
        """Compute in bfloat16, if that gives the vectors that float32 gives."""
        del self._model  # a large one need not be there twice
        try:
            cosine = float((exact * self._load("bfloat16")).sum(axis=1).min())
        except BadVectorError:
            cosine = 0.0
        if cosine >= _CLOSE_ENOUGH:
            self._computes = "bfloat16"
        else:
            self._load("float32")
            self.warning = (
                f"the model {self.info.name!r} gives other vectors in bfloat16 (cosine {cosine:.4f} to float32's); "
                "it computes in float32, at about half the speed"
            )

    def use_threads(self, threads: int) -> None:
        """Compute with so many threads from the next text on."""
        with self._turn:
            if threads != self._threads:
                self._share_out(threads)

    def _share_out(self, threads: int) -> None:
        """Divide the threads among the batches that are computed at once."""
        self._threads = threads
        self._at_once = min(threads, _MOST_AT_ONCE) if self._model.side_by_side else 1
        self._pool.shutdown()
        self._pool = ThreadPoolExecutor(self._at_once)

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Encode texts as they are: shape (len(texts), dimension), unit length. Raises BadVectorError."""
        return self._encode(texts)

    def encode_query(self, query: str) -> Vectors:
        """Encode one question with the model's query prefix: shape (dimension,). Raises BadVectorError."""
        (vector,) = self.encode_queries([query])
        return np.asarray(vector, np.float32)

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode texts as questions: shape (len(queries), dimension), unit length. Raises BadVectorError."""
        return self._encode([self.info.query_prefix + query for query in queries])

    def _encode(self, texts: Sequence[str]) -> Vectors:
        out = np.zeros((len(texts), self.info.dimension), np.float32)
        if not texts:
            return out
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
                # A question: to hand it to another thread takes a tenth of its time. It is computed below.
                found = map(vectors_of, todo)
            else:
                found = self._pool.map(vectors_of, todo)
        for batch, vectors in zip(batches, found, strict=True):
            out[batch] = vectors
        return _unit(out, self.info.name)


def _load_fastest(info: ModelInfo, openvino: Path | None, precision: Precision) -> Model:
    """Load a model by the fastest way that can; each imports what takes seconds, and only what it needs."""
    if openvino:
        from pipelines.embedding.openvino import load_openvino  # noqa: PLC0415

        return load_openvino(info.name, info.folder, openvino, info.window, precision)
    import torch  # noqa: PLC0415

    from pipelines.embedding.bert import Bert  # noqa: PLC0415

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and (pooling := pooling_of_bert(info.folder)):
        with suppress(KeyError):  # its weights have other names, which transformers may know
            return Bert(info.folder, info.window, pooling, precision)
    from pipelines.embedding.sentence_transformers_model import load_any  # noqa: PLC0415

    return load_any(info.folder, info.window, device, precision)


def _processor_has_bfloat16() -> bool:
    import torch  # noqa: PLC0415 - loaded by now

    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # noqa: SLF001 - it has no public name
        return False
    # On x86 the library below also says so of processors on which it imitates bfloat16, at a loss.
    has = torch.cpu.get_capabilities()
    return has.get("architecture") != "x86_64" or bool(has.get("avx512_bf16") or has.get("amx_bf16"))


def _batches(lengths: Sequence[int], at_once: int) -> Iterator[list[int]]:
    """Yield indices in batches of like length and about as many tokens each, so that `at_once` are done together.

    None of several texts has more than twice the token budget, padding counted.
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
