"""Compute models with torch: any of sentence-transformers, also in pairs, and the packed multilingual one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import BertConfig, BertModel
from transformers.utils import logging

from pipelines.embedding.packed import PackedModel, read_packed
from pipelines.errors import BadVectorError
from pipelines.model import Precision

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # its bar would appear among ours, or in a log
# As warnings it prints a table of weights that the model does not use, and layers, among a search's hits.
logging.set_verbosity_error()  # type: ignore[no-untyped-call]

# oneDNN compiles and caches a kernel per batch shape, so lengths are padded to a few values.
_LENGTHS = 8


class AnyModel:
    """A model and its tokenizer, on the CPU or a GPU."""

    def __init__(self, model: SentenceTransformer, window: int) -> None:
        """Wrap a loaded model."""
        self._model = model.eval()
        self._tokenizer: Any = model.tokenizer
        self._window = window
        self.device = model.device.type
        self.side_by_side = self.device == "cpu"

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Split texts into tokens, at most as many per text as the window has."""
        found: list[list[int]] = self._tokenizer(list(texts), truncation=True, max_length=self._window)[
            "input_ids"
        ]
        return found

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, whole and without the model's own tokens."""
        if not texts:
            return []
        # `verbose` would warn about each text that is longer than the window.
        found = self._tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)
        return list(map(len, found["input_ids"]))

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> npt.NDArray[np.float32]:
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""
        torch.set_num_threads(threads)  # applies to the calling thread
        length = _padded(batch, self._window)
        padded = self._tokenizer.pad(
            {"input_ids": list(batch)}, padding="max_length", max_length=length, return_tensors="pt"
        )
        with torch.inference_mode():
            found = self._model({key: value.to(self.device) for key, value in padded.items()})
            return np.asarray(found["sentence_embedding"].float().cpu().numpy(), np.float32)


class PackedBert:
    """The packed model on the CPU or a GPU: the words' vectors stay packed and mapped."""

    def __init__(self, model: PackedModel, device: str, precision: Precision) -> None:
        """Build the network; torch and transformers raise their own errors."""
        self.device = device
        self.side_by_side = device == "cpu"
        tokenizer = model.tokenizer()
        self.tokens = tokenizer.tokens
        self.count = tokenizer.count
        self._words, self._window = model.words, model.window
        self._dtype: torch.dtype = getattr(torch, precision)
        config = BertConfig(
            vocab_size=1,
            hidden_size=model.dimension,
            num_hidden_layers=model.shape.layers,
            num_attention_heads=model.shape.heads,
            intermediate_size=model.inner,
            max_position_embeddings=model.window,
            layer_norm_eps=model.shape.epsilon,
        )
        self._model = BertModel(config, add_pooling_layer=False)
        weights = {name: torch.from_numpy(np.array(tensor)) for name, tensor in model.weights().items()}
        weights["embeddings.word_embeddings.weight"] = torch.zeros(1, model.dimension)
        self._model.load_state_dict(weights)
        network: torch.nn.Module = self._model  # transformers types its own `to` wrongly
        network.to(device=device, dtype=self._dtype).eval()

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> npt.NDArray[np.float32]:
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""
        torch.set_num_threads(threads)  # applies to the calling thread
        shape = len(batch), _padded(batch, self._window)
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
        words = self._words[ids.ravel()].reshape(*shape, -1)
        there = torch.from_numpy(mask).to(self.device)
        with torch.inference_mode():
            embedded = torch.from_numpy(words).to(self.device, self._dtype)
            hidden = self._model(inputs_embeds=embedded, attention_mask=there).last_hidden_state.float()
            mean = (hidden * there[..., None]).sum(1) / there.sum(1, keepdim=True)
        return np.asarray(mean.cpu().numpy(), np.float32)


class Pairs:
    """A cross-encoder on the CPU, with the scores of the last question, which is asked again for each page."""

    def __init__(self, model: CrossEncoder) -> None:
        """Wrap a loaded model."""
        self._model = model
        self._turn = threading.Lock()
        self._question = ""
        self._known: dict[str, float] = {}

    def scores(self, question: str, texts: Sequence[str], threads: int) -> list[float]:
        """Return how well texts answer a question: more is better. Raises BadVectorError."""
        with self._turn:
            if question != self._question:
                self._question, self._known = question, {}
            if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
                torch.set_num_threads(threads)  # applies to the calling thread
                found = self._model.predict([(question, text) for text in new], show_progress_bar=False)
                if found.shape != (len(new),) or not np.isfinite(found).all():
                    raise BadVectorError(
                        "a cross-encoder gave scores that are not one finite number per text"
                    )
                self._known |= zip(new, found.tolist(), strict=True)
            return [self._known[text] for text in texts]


def _padded(batch: Sequence[Sequence[int]], window: int) -> int:
    return min(-(-max(map(len, batch)) // _LENGTHS) * _LENGTHS, window)


def load_packed_bert(path: Path, device: str, precision: Precision) -> PackedBert:
    """Load the packed model; torch and transformers raise their own errors."""
    return PackedBert(read_packed(path), device, precision)


def load_pairs(folder: Path) -> Pairs:
    """Load a cross-encoder's files; sentence-transformers, transformers and torch raise their own errors."""
    return Pairs(CrossEncoder(str(folder), device="cpu", local_files_only=True))


def load_any(folder: Path, window: int, device: str, precision: Precision) -> AnyModel:
    """Load a model's files; sentence-transformers, transformers and torch raise their own errors."""
    model = SentenceTransformer(str(folder), device=device, local_files_only=True)
    return AnyModel(model.to(getattr(torch, precision)), window)
