"""Load and compute any model that sentence-transformers supports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from transformers.utils import logging

from pipelines.model import Precision

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # its bar would appear among ours, or in a log
# As warnings it prints a table of weights that the model does not use, and layers, among a search's hits.
logging.set_verbosity_error()  # type: ignore[no-untyped-call]

# oneDNN compiles and caches a kernel per batch shape, so lengths are padded to a few values.
_LENGTHS = 8


class AnyModel:
    """A model and its tokenizer, on the CPU or a GPU."""

    def __init__(self, model: SentenceTransformer, window: int, *, side_by_side: bool) -> None:
        """Wrap a loaded model, whatever its backend."""
        self._model = model.eval()
        self._tokenizer: Any = model.tokenizer
        self._window = window
        self.device = model.device.type
        self.side_by_side = side_by_side

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
        length = min(-(-max(map(len, batch)) // _LENGTHS) * _LENGTHS, self._window)
        padded = self._tokenizer.pad(
            {"input_ids": list(batch)}, padding="max_length", max_length=length, return_tensors="pt"
        )
        with torch.inference_mode():
            found = self._model({key: value.to(self.device) for key, value in padded.items()})
            return np.asarray(found["sentence_embedding"].float().cpu().numpy(), np.float32)


def load_any(folder: Path, window: int, device: str, precision: Precision) -> AnyModel:
    """Load a model's files; sentence-transformers, transformers and torch raise their own errors."""
    model = SentenceTransformer(str(folder), device=device, local_files_only=True)
    return AnyModel(model.to(getattr(torch, precision)), window, side_by_side=device == "cpu")
