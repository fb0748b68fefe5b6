"""Compute BERT models in numpy, which loads them in a fraction of a second and needs neither torch nor its memory.

Only models that are known to be plain BERT are computed here: the two that come with Everindex, and bge.
Every other one needs sentence-transformers (`pipelines/embedding/sentence_transformer.py`).
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Floats = npt.NDArray[np.float32]
Weights = Mapping[str, Floats]
"""Tensors by the names that BERT's authors gave them, without those of the words."""

# Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: of erf, with an error below 1.5e-7.
_ERF = tuple(np.float32(a) for a in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
_ERF_P = np.float32(0.3275911)
_ROOT_HALF = np.float32(np.sqrt(0.5))
_HALF = np.float32(0.5)
_DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}


class Words(Protocol):
    """The vectors of the vocabulary; only those asked for are read."""

    def __getitem__(self, ids: npt.NDArray[np.int64], /) -> npt.NDArray[np.floating]:
        """Return the vectors of some tokens: shape (len(ids), dimension)."""


class Tokenizer(Protocol):
    """Splits texts into tokens, by number."""

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text with the model's own, at most as many as the window has."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, whole and without the model's own tokens."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a model's weights do not say of its computation; `pooling` is `mean` or `cls`."""

    layers: int
    heads: int
    epsilon: float
    pooling: str


@dataclass(frozen=True, slots=True)
class _Linear:
    weight: Floats
    bias: Floats

    def __call__(self, inputs: Floats) -> Floats:
        product = inputs @ self.weight.T
        product += self.bias
        return product


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Floats
    bias: Floats
    epsilon: np.float32

    def __call__(self, rows: Floats) -> Floats:
        """Normalise rows in place (arXiv 1607.06450)."""
        rows -= rows.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", rows, rows) / np.float32(rows.shape[1])
        rows *= (1 / np.sqrt(variance + self.epsilon))[:, np.newaxis]
        rows *= self.weight
        rows += self.bias
        return rows


@dataclass(frozen=True, slots=True)
class _Layer:
    """Self-attention and a perceptron (arXiv 1706.03762), normalised after each; GELU as in arXiv 1810.04805."""

    heads: int
    attention: _Linear
    attended: _Linear
    attended_norm: _Norm
    up: _Linear
    down: _Linear
    norm: _Norm

    def __call__(self, hidden: Floats) -> Floats:
        length, dimension = hidden.shape
        parts = self.attention(hidden).reshape(length, 3, self.heads, dimension // self.heads)
        query, key, value = parts.transpose(1, 2, 0, 3)
        weights = query @ key.swapaxes(-1, -2)
        weights *= np.float32((dimension // self.heads) ** -0.5)
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        found = (weights @ value).transpose(1, 0, 2).reshape(length, dimension)
        attended = self.attended(np.asarray(found, np.float32))
        attended += hidden
        hidden = self.attended_norm(attended)
        out = self.down(_gelu(self.up(hidden)))
        out += hidden
        return self.norm(out)


def _gelu(x: Floats) -> Floats:
    """Return max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2, which is x Phi(x)."""
    size = np.abs(x)
    z = size * _ROOT_HALF
    t = 1 / (_ERF_P * z + 1)
    tail = t * _ERF[0]
    for coefficient in _ERF[1:]:
        tail += coefficient
        tail *= t
    z *= z
    tail *= np.exp(np.negative(z, out=z), out=z)
    tail *= size
    tail *= _HALF
    np.maximum(x, 0, out=x)
    x -= tail
    return x


class Bert:
    """A BERT model and its tokenizer."""

    device = "cpu"
    side_by_side = True

    def __init__(
        self,
        weights: Weights,
        words: Words,
        shape: Shape,
        tokenizer: Tokenizer,
        files: Sequence[mmap.mmap] = (),
    ) -> None:
        """Prepare the layers. Raises KeyError for weights under other names, ValueError for those of other shapes.

        The weights are `joined`. `files` are those that weights and words are mapped from.
        """
        # One thread per batch: BLAS would let its own wait for the cores that other processes use.
        threadpool_limits(1, user_api="blas")
        self._words = words
        # Every token has type 0, because texts come alone and not in pairs.
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        self._places = weights["embeddings.position_embeddings.weight"] + kind
        self._norm = _norm(weights, "embeddings.LayerNorm", shape.epsilon)
        self._layers = [_layer(weights, f"encoder.layer.{at}", shape) for at in range(shape.layers)]
        self._pooling = shape.pooling
        self._files = files
        self.tokens = tokenizer.tokens
        self.count = tokenizer.count

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> Floats:  # noqa: ARG002 - torch's need it
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""
        # One after another: in a larger product BLAS adds up a row in an order that depends on its place, so
        # that the last digit of a vector would tell in whose company it was computed.
        with np.errstate(all="ignore"):  # the caller refuses what is not finite
            return np.stack([self._vector(np.array(tokens, np.int64)) for tokens in batch])

    def rest(self) -> None:
        """Return the memory of mapped files until the next text, which takes milliseconds more to map them again."""
        for file in self._files:
            file.madvise(mmap.MADV_DONTNEED)

    def _vector(self, tokens: npt.NDArray[np.int64]) -> Floats:
        hidden = self._norm(self._words[tokens].astype(np.float32) + self._places[: len(tokens)])
        for layer in self._layers:
            hidden = layer(hidden)
        return hidden[0] if self._pooling == "cls" else np.asarray(hidden.mean(axis=0))


def _norm(weights: Weights, name: str, epsilon: float) -> _Norm:
    return _Norm(weights[f"{name}.weight"], weights[f"{name}.bias"], np.float32(epsilon))


def _layer(weights: Weights, name: str, shape: Shape) -> _Layer:
    def linear(part: str) -> _Linear:
        return _Linear(weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"])

    attention = linear("attention.self")
    if len(attention.weight) % (3 * shape.heads):
        raise ValueError(
            f"{len(attention.weight) // 3} dimensions cannot be divided among {shape.heads} heads"
        )
    return _Layer(
        shape.heads,
        attention,
        linear("attention.output.dense"),
        _norm(weights, f"{name}.attention.output.LayerNorm", shape.epsilon),
        linear("intermediate.dense"),
        linear("output.dense"),
        _norm(weights, f"{name}.output.LayerNorm", shape.epsilon),
    )


def joined(weights: Weights) -> dict[str, Floats]:
    """Return weights with the three projections of each attention joined. Raises KeyError if one is missing."""
    found = dict(weights)
    for name in weights:
        before, query, end = name.partition("attention.self.query.")
        if query:
            parts = [found.pop(f"{before}attention.self.{part}.{end}") for part in ("query", "key", "value")]
            found[f"{before}attention.self.{end}"] = np.concatenate(parts)
    return found


# Models in the format of sentence-transformers.


class WordPieces:
    """The tokenizer of a model's folder."""

    def __init__(self, folder: Path, window: int) -> None:
        """Load it; raises whatever its library raises."""
        import tokenizers  # noqa: PLC0415 - the light installation has none, and needs none for its own model

        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text with the model's own, at most as many as the window has."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, whole and without the model's own tokens."""
        found = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [len(one.ids) + sum(len(more.ids) for more in one.overflowing) for one in found]


def load_bert(folder: Path, window: int, pooling: str, *, is_mapped: bool) -> Bert:
    """Load a model's files. Raises KeyError for weights under other names, OSError, ValueError for other files.

    `is_mapped`: all processes share the weights in memory. Only for a file that is never written to: if it became
    shorter, the next read would kill the process.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    path = folder / "model.safetensors"
    file, *files = mapped(path) if is_mapped else (np.fromfile(path, np.uint8),)
    tensors = tensors_in(file, _DTYPES)
    words = tensors.pop("embeddings.word_embeddings.weight")
    weights = {name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()}
    epsilon = config.get("layer_norm_eps", 1e-12)
    shape = Shape(config["num_hidden_layers"], config["num_attention_heads"], epsilon, pooling)
    return Bert(joined(weights), words, shape, WordPieces(folder, window), files)


def mapped(path: Path) -> tuple[npt.NDArray[np.uint8], mmap.mmap]:
    """Map a file; return its bytes and the mapping. Raises OSError, ValueError for an empty one."""
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, np.uint8), mapping


def tensors_in(file: npt.NDArray[np.uint8], dtypes: Mapping[str, str]) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors of some types in the bytes of a file of safetensors. Raises ValueError.

    https://huggingface.co/docs/safetensors: the length of the header in 8 bytes, the header in JSON, the tensors.
    Some versions name the weights of a normalisation as BERT's authors did.
    """
    start = 8 + int.from_bytes(file[:8].tobytes(), "little")
    header = json.loads(file[8:start].tobytes())
    return {
        name.replace(".gamma", ".weight").replace(".beta", ".bias"): file[start:][
            slice(*said["data_offsets"])
        ]
        .view(dtypes[said["dtype"]])
        .reshape(said["shape"])
        for name, said in header.items()
        if said.get("dtype") in dtypes
    }
