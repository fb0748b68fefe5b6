"""Checks of the embedding models: on the disk, unchanged, and able to compute."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pipelines import domains
from pipelines.embedding.models import EMBEDDED_MODEL, ModelInfo, find_downloaded, find_model
from pipelines.errors import BadVectorError, DomainsFileError, ModelNotAllowedError, ModelUnavailableError
from service.usecases.doctor.finding import Finding, Installation, cured, failure, ok, warning

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_models(looked_at: Installation) -> Iterator[Finding]:
    """Load each model that the settings or the vault's domains name, and compute a vector. Nothing is fetched."""
    if looked_at.settings.embedding_backend == "openvino" and find_spec("optimum") is None:
        yield failure(
            "model",
            "EMBEDDING_BACKEND is openvino, and OpenVINO is not installed",
            "install everindex[openvino], or set EMBEDDING_BACKEND=torch",
        )
    for name in _names(looked_at):
        yield _examine(name, chosen=looked_at.settings.chosen_models)


def _names(looked_at: Installation) -> list[str]:
    """Return the models that are wanted, each once."""
    if looked_at.settings.embedding_model:
        return [looked_at.settings.embedding_model]
    try:
        known = domains.load(looked_at.root).domains if looked_at.root else ()
    except DomainsFileError:
        known = ()  # its own check says so
    return list(dict.fromkeys(domain.embedding or EMBEDDED_MODEL for domain in known)) or [EMBEDDED_MODEL]


def _examine(name: str, chosen: frozenset[str]) -> Finding:
    try:
        # Only a folder is found this way: a name would be fetched.
        is_folder = name in chosen and Path(name).expanduser().is_dir()
        info = find_model(name) if is_folder else find_downloaded(name)
        if (file := _changed_since_download(info)) is not None:
            return failure(
                "model",
                f"{file} is not what was downloaded",
                "delete the file and run `everindex up`, which fetches it again",
            )
        return ok("model", f"{name}: loads, {_dimension(info)} finite numbers per vector")
    except ModelNotAllowedError as error:
        if name in chosen:
            return warning(
                "model",
                f"the model {name!r} is not on this machine yet",
                "connect to the internet for the next `everindex up`, which downloads it",
            )
        return warning("model", *_parts(error))
    except ModelUnavailableError as error:
        return failure("model", *cured(error))
    except BadVectorError as error:
        return failure("model", str(error), "install the model again, or choose another with EMBEDDING_MODEL")


def _parts(error: ModelNotAllowedError) -> tuple[str, str]:
    message, _, cure = str(error).partition(": ")
    return message, cure


def _changed_since_download(info: ModelInfo) -> Path | None:
    """Return a weights file that differs from the SHA-256 under which a hub's client stored it, or None.

    The weights of the embedded model are compared with those that were published when it is loaded.
    """
    for file in sorted(info.folder.glob("*.safetensors")):
        stored = file.resolve()
        if _SHA256.fullmatch(stored.name):
            with stored.open("rb") as weights:
                if hashlib.file_digest(weights, "sha256").hexdigest() != stored.name:
                    return stored
    return None


def _dimension(info: ModelInfo) -> int:
    """Return how many numbers a vector has. Raises ModelUnavailableError, BadVectorError."""
    from pipelines.embedding.embedder import Embedder  # noqa: PLC0415 - loads torch

    vector = Embedder(info, threads=1).encode_query("soil")
    return len(vector)
