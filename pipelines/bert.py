"""BERT, computed here: what is known to be nothing else needs none of the libraries that take seconds to import.

The embedded model and bge are BERT. Every other model goes through sentence-transformers (`pipelines/any_model.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional

from pipelines.model import Precision

_PARTS = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_LIKE = 0.02  # of the largest number: bfloat16 has eight bits
_FEWEST_ROWS = 8
_LONGEST_WORD = 100  # characters; transformers cuts no longer one
_Weights = dict[str, torch.Tensor]
_Group = tuple[slice, int, int]
_Computation = Callable[[torch.Tensor], torch.Tensor]


def pooling_of_bert(folder: Path) -> str | None:
    """Return how a BERT of sentence-transformers' format joins its tokens (`mean`, `cls`); None if it is not one.

    Whatever in its files is not known to be plain BERT makes it another model.
    """
    files = ("config.json", "modules.json", "tokenizer.json", "tokenizer_config.json")
    if not (folder / "model.safetensors").exists() or not all((folder / file).exists() for file in files):
        return None
    config, modules, tokenizer, asked = (_json(folder / file) for file in files)
    wrapper = _json(folder / "sentence_bert_config.json")
    if [module["type"].rpartition(".")[2] for module in modules] not in _PARTS or modules[0]["path"]:
        return None
    plain = (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder")
        and not config.get("quantization_config")
        and not (folder / "adapter_config.json").exists()
        and not any(value for key, value in wrapper.items() if key.endswith(("_args", "_kwargs")))
        and _cuts_as_asked(tokenizer, asked, lowered=wrapper.get("do_lower_case", False))
    )
    return _pooling(_json(folder / modules[1]["path"] / "config.json")) if plain else None


def _cuts_as_asked(tokenizer: dict[str, Any], asked: dict[str, Any], *, lowered: bool) -> bool:
    """Say whether a tokenizer is BERT's own, and does by itself what transformers would make it do as configured.

    `lowered` are texts that sentence-transformers lowers before: to a tokenizer that does so, too, they are the same.
    """
    model, normalizer = tokenizer["model"], tokenizer.get("normalizer") or {}
    frame = (tokenizer.get("post_processor") or {}).get("single", [])
    known = {token["id"] for token in tokenizer["added_tokens"]}
    return (
        (model.get("type"), model.get("continuing_subword_prefix")) == ("WordPiece", "##")
        and model.get("max_input_chars_per_word") == _LONGEST_WORD
        and (normalizer.get("type"), normalizer.get("clean_text")) == ("BertNormalizer", True)
        and normalizer.get("lowercase") == asked.get("do_lower_case", True)
        and normalizer.get("strip_accents") == asked.get("strip_accents")
        and normalizer.get("handle_chinese_chars") == asked.get("tokenize_chinese_chars", True)
        and (normalizer.get("lowercase") or not lowered)
        and (tokenizer.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and [part["id"] for step in frame for part in step.values()] == ["[CLS]", "A", "[SEP]"]
        and asked.get("truncation_side", "right") == "right"
        and {int(number) for number in asked.get("added_tokens_decoder", {})} <= known
    )


def _pooling(config: dict[str, Any]) -> str | None:
    mode = config.get("pooling_mode")
    if mode is None:
        modes = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
        mode = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}.get("".join(modes))
    return mode if mode in ("mean", "cls") else None


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> _Computation:
    """Return a linear layer, with weights laid out for the processor once where it gives the same products so."""
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


@dataclass(frozen=True, slots=True)
class _Norm:
    """Layer normalisation."""

    weight: torch.Tensor
    bias: torch.Tensor
    eps: float

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(inputs, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Self-attention and a perceptron: arXiv 1706.03762, normalised after each; GELU as arXiv 1810.04805 has it."""

    heads: int
    attention: _Computation
    attended: _Computation
    attended_norm: _Norm
    up: _Computation
    down: _Computation
    norm: _Norm

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
    """A BERT and its tokenizer, on the processor."""

    device = "cpu"
    side_by_side = True

    def __init__(self, folder: Path, window: int, pooling: str, precision: Precision) -> None:
        """Load a model's files; they raise what their libraries raise."""
        config, dtype = _json(folder / "config.json"), getattr(torch, precision)
        weights = {name: w.to(dtype) for name, w in load_file(folder / "model.safetensors").items()}
        eps = config.get("layer_norm_eps", 1e-12)
        self._words = weights["embeddings.word_embeddings.weight"]
        # Every token is of the first type: texts come alone, not in pairs.
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        self._places = weights["embeddings.position_embeddings.weight"] + kind
        self._norm = _Norm(weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"], eps)
        self._layers = list(_layers(weights, config["num_hidden_layers"], config["num_attention_heads"], eps))
        self._pooling = pooling
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut texts into tokens, no more each than the window has."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> npt.NDArray[np.float32]:
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""
        torch.set_num_threads(threads)  # of the thread that calls it
        with torch.inference_mode():
            return np.asarray(self._forward(batch).numpy(), np.float32)

    def _forward(self, batch: Sequence[Sequence[int]]) -> torch.Tensor:
        # The tokens of all texts lie one after another: nothing is padded but the end.
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


def _groups(batch: Sequence[Sequence[int]]) -> Iterator[_Group]:
    """Yield neighbours of one length: their rows, how many they are, how long each is."""
    start = 0
    for length, texts in groupby(map(len, batch)):
        count = len(list(texts))
        yield slice(start, start + count * length), count, length
        start += count * length


def _rows(count: int) -> int:
    """Return how many rows to compute: for every number of them the library below keeps a program, and its memory."""
    step: int = max(_FEWEST_ROWS, 2 ** (count.bit_length() - 4))
    return -(-count // step) * step


def _layers(weights: _Weights, count: int, heads: int, eps: float) -> Iterator[_Layer]:
    for number in range(count):

        def named(name: str, own: str = f"encoder.layer.{number}") -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{own}.{name}.weight"], weights[f"{own}.{name}.bias"]

        # One product instead of three.
        three = [named(f"attention.self.{part}") for part in ("query", "key", "value")]
        yield _Layer(
            heads,
            _linear(torch.cat([weight for weight, _ in three]), torch.cat([bias for _, bias in three])),
            _linear(*named("attention.output.dense")),
            _Norm(*named("attention.output.LayerNorm"), eps),
            _linear(*named("intermediate.dense")),
            _linear(*named("output.dense")),
            _Norm(*named("output.LayerNorm"), eps),
        )
