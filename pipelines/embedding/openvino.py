"""Compute models with OpenVINO: exported once, compiled for a precision and a number of threads."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer

from pipelines.embedding.sentence_transformer import AnyModel
from pipelines.errors import ModelUnavailableError
from pipelines.model import Precision


class OpenVinoModel(AnyModel):
    """A model computed by OpenVINO, and its tokenizer: one batch after another, each on all threads."""

    def __init__(self, model: SentenceTransformer, window: int, precision: Precision) -> None:
        """Wrap a loaded model; it is compiled when it gets its first text."""
        super().__init__(model, window, side_by_side=False)
        self._precision = precision
        self._threads = 0

    def vectors(self, batch: Sequence[Sequence[int]], threads: int) -> npt.NDArray[np.float32]:
        """Return the vectors of texts by their tokens: shape (len(batch), dimension)."""
        if threads != self._threads:
            _compile(self._model, self._precision, threads)
            self._threads = threads
        return super().vectors(batch, threads)


def load_openvino(name: str, folder: Path, keep: Path, window: int, precision: Precision) -> OpenVinoModel:
    """Load a model for OpenVINO; export it into `keep` first if that was not done yet.

    Raises ModelUnavailableError if the extra is not installed.
    """
    # If openvino_telemetry is installed, it reports each export to OpenVINO's makers without asking; this disables
    # it.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import_module("optimum.intel.openvino")
    except ImportError as error:
        raise ModelUnavailableError(
            f"OpenVINO cannot be used ({error}): install everindex[openvino], or set EMBEDDING_BACKEND=torch"
        ) from error
    return OpenVinoModel(_read(_exported(name, folder, keep)), window, precision)


def _compile(model: SentenceTransformer, precision: Precision, threads: int) -> None:
    """Compile the network again, because its precision and number of threads are fixed at compilation."""
    network: Any = model[0].auto_model
    network.ov_config |= {
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32",
        "INFERENCE_NUM_THREADS": threads,
        # With pinning, all processes of a vault would be pinned to the same cores.
        "ENABLE_CPU_PINNING": False,
    }
    network.clear_requests()
    network.compile()


def _read(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        backend="openvino",
        model_kwargs={"compile": False, "load_in_8bit": False},
    )


def _exported(name: str, folder: Path, keep: Path) -> Path:
    """Return the folder of a model exported to OpenVINO; it is exported at first use and whenever the model changed.

    Processes take turns, and the folder gets its name only once it is complete on the disk.
    """
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    seen = [(str(f.relative_to(folder)), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
    made_by = [version(package) for package in ("openvino", "optimum-intel", "sentence-transformers")]
    home = keep / hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    made = home / hashlib.sha256(json.dumps([seen, made_by]).encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with (keep / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            for old in home.iterdir():
                shutil.rmtree(old)
            half = home / "half"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # tracing a model warns about every branch in it
                _read(folder).save_pretrained(str(half), create_model_card=False)
            for file in half.rglob("*"):
                if file.is_file():
                    with file.open("rb") as written:
                        os.fsync(written.fileno())
            half.rename(made)
    return made
