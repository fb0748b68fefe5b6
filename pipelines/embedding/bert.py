"""Compute BERT models directly, without the libraries that take seconds to import.

Only models that are known to be plain BERT are loaded here, such as the embedded model and bge. Every other model
goes through sentence-transformers (`pipelines/embedding/sentence_transformer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional

from pipelines.embedding.models import read_json
from pipelines.model import Precision

_LIKE = 0.02  # relative to the largest number: bfloat16 has eight bits of precision
_FEWEST_ROWS = 8
_Weights = dict[str, torch.Tensor]
_Group = tuple[slice, int, int]
_Computation = Callable[[torch.Tensor], torch.Tensor]


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> _Computation:
    """Return a linear layer; its weights are laid out for the processor if that gives the same products."""
    probe = weight[:8]
    expected = functional.linear(probe, weight, bias)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)  # noqa: SLF001 - it has no public name
        if (_product(probe, packed, bias) - expected).abs().max() <= _LIKE * expected.abs().max():
            return partial(_product, packed=packed, bias=bias)
    except (RuntimeError, AttributeError):
        pass  # a machine or a build without these operations
    return partial(functional.linear, weight=weight, bias=bias)


def _product(inputs: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001 - what torch uses for compiled models
        inputs, packed, bias, "none", [], ""
    )
    return product


def _norm(weight: torch.Tensor, bias: torch.Tensor, eps: float) -> _Computation:
    return partial(functional.layer_norm, normalized_shape=weight.shape, weight=weight, bias=bias, eps=eps)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Self-attention and a perceptron (arXiv 1706.03762), normalised after each; GELU as in arXiv 1810.04805."""

    heads: int
    attention: _Computation
    attended: _Computation
    attended_norm: _Computation
    up: _Computation
    down: _Computation
    norm: _Computation

    def __call__(self, hidden: torch.Tensor, groups: Sequence[_Group]) -> torch.Tensor:
        parts, found = self.attention(hidden), torch.zeros_like(hidden)
        for rows, texts, length in groups:
            shape = texts, length, 3, self.heads, hidden.shape[1] // self.heads
            query, key, value = parts[rows].view(shape).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(query, key, value)
            found[rows] = attended.transpose(1, 2).reshape(texts * length, hidden.shape[1])
        hidden = self.attended_norm(self.attended(found) + hidden)
        return self.norm(self.down(functional.gelu(self.up(hidden))) + hidden)


class Bert:
    """A BERT model and its tokenizer, on the CPU."""

    device = "cpu"
    side_by_side = True

    def __init__(self, folder: Path, window: int, pooling: str, precision: Precision) -> None:
        """Load a model's files; raises whatever their libraries raise."""
        config, dtype = read_json(folder / "config.json"), getattr(torch, precision)
        weights = {_named(name): w.to(dtype) for name, w in load_file(folder / "model.safetensors").items()}
        eps = config.get("layer_norm_eps", 1e-12)
        self._words = weights["embeddings.word_embeddings.weight"]
        # Every token has type 0, because texts come alone and not in pairs.
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        self._places = weights["embeddings.position_embeddings.weight"] + kind
        self._norm = _norm(weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"], eps)
        self._layers = list(_layers(weights, config["num_hidden_layers"], config["num_attention_heads"], eps))
        self._pooling = pooling
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into tokens, at most as many per text as the window has."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, whole and without the model's own tokens."""
        found = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [len(one.ids) + sum(len(more.ids) for more in one.overflowing) for one in found]

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> npt.NDArray[np.float32]:
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""
        torch.set_num_threads(threads)  # applies to the calling thread
        with torch.inference_mode():
            return np.asarray(self._forward(batch).numpy(), np.float32)

    def _forward(self, batch: Sequence[Sequence[int]]) -> torch.Tensor:
        # The tokens of all texts are concatenated, so only the end is padded.
        count = sum(map(len, batch))
        ids, places = torch.zeros((2, _rows(count)), dtype=torch.int64)
        ids[:count] = torch.tensor([token for tokens in batch for token in tokens])
        places[:count] = torch.tensor([place for tokens in batch for place in range(len(tokens))])
        hidden = self._norm(
            functional.embedding(ids, self._words) + functional.embedding(places, self._places)
        )
        groups = list(_groups(batch))
        for layer in self._layers:
            hidden = layer(hidden, groups)
        found = [hidden[rows].view(texts, length, -1).float() for rows, texts, length in groups]
        return torch.cat([of[:, 0] if self._pooling == "cls" else of.mean(1) for of in found])


def _named(weight: str) -> str:
    """Return a weight's name; some versions name the weights of a normalisation as BERT's authors did."""
    return weight.replace(".gamma", ".weight").replace(".beta", ".bias")


def _groups(batch: Sequence[Sequence[int]]) -> Iterator[_Group]:
    """Yield neighbouring texts of equal length: their rows, their number, their length."""
    start = 0
    for length, texts in groupby(map(len, batch)):
        count = len(list(texts))
        yield slice(start, start + count * length), count, length
        start += count * length


def _rows(count: int) -> int:
    """Round up the row count, because oneDNN compiles and caches a kernel per shape."""
    step: int = max(_FEWEST_ROWS, 2 ** (count.bit_length() - 4))
    return -(-count // step) * step


def _layers(weights: _Weights, count: int, heads: int, eps: float) -> Iterator[_Layer]:
    for number in range(count):

        def named(name: str, own: str = f"encoder.layer.{number}") -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{own}.{name}.weight"], weights[f"{own}.{name}.bias"]

        # One matrix product instead of three.
        three = [named(f"attention.self.{part}") for part in ("query", "key", "value")]
        yield _Layer(
            heads,
            _linear(torch.cat([weight for weight, _ in three]), torch.cat([bias for _, bias in three])),
            _linear(*named("attention.output.dense")),
            _norm(*named("attention.output.LayerNorm"), eps),
            _linear(*named("intermediate.dense")),
            _linear(*named("output.dense")),
            _norm(*named("output.LayerNorm"), eps),
        )
