"""A real model that is small: it loads at once, and embeds some thousand texts a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipelines.embedding.embedder import Embedder

WORDS = (
    "garden soil compost tomato winter river boat sail market price share profit bread flour yeast oven "
    "sleep night dream letter paper ink run walk lift weight code error socket line the a of and in to note"
)


def build_tiny_model(folder: Path) -> Path:
    """Save a sentence-transformers model with random weights below a folder, and return where it lies.

    BERT, 2 layers, 32 dimensions, 64-token window.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import (  # type: ignore[attr-defined]  # one of them is made when it is asked for
        BertConfig,
        BertModel,
        BertTokenizerFast,
    )

    torch.manual_seed(0)
    base = folder / "bert"
    base.mkdir(parents=True)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + list("0123456789")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split(), *letters]
    vocabulary += [f"##{letter}" for letter in letters]
    unique = list(dict.fromkeys(vocabulary))
    (base / "vocab.txt").write_text("\n".join(unique))
    BertTokenizerFast(str(base / "vocab.txt")).save_pretrained(base)
    config = BertConfig(
        vocab_size=len(unique),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(base)
    transformer = Transformer(str(base), max_seq_length=64)
    tiny = folder / "tiny"
    SentenceTransformer(modules=[transformer, Pooling(32, pooling_mode="mean"), Normalize()]).save(str(tiny))
    return tiny


def build_tiny_cross_encoder(folder: Path) -> Path:
    """Save a cross-encoder with random weights, which knows nothing, beside a tiny model; return where it lies."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import (  # type: ignore[attr-defined]  # likewise
        BertConfig,
        BertForSequenceClassification,
        BertTokenizerFast,
    )

    words, made = build_tiny_model(folder).parent / "bert", folder / "cross-encoder"
    torch.manual_seed(1)
    config = BertConfig.from_pretrained(words, num_labels=1)
    config.initializer_range = 0.5  # at 0.02 all pairs have nearly the same score
    BertForSequenceClassification(config).save_pretrained(folder / "raw")
    BertTokenizerFast.from_pretrained(words).save_pretrained(folder / "raw")
    CrossEncoder(str(folder / "raw"), device="cpu", local_files_only=True).save(str(made))
    return made


def break_in_memory(embedder: Embedder, token: int | None = None) -> None:
    """Spoil the weights of a model that numpy has loaded, as damaged memory does: those of a token, or of all."""
    words = np.array(embedder._model._words)  # type: ignore[attr-defined]
    words[slice(None) if token is None else token] = np.nan
    embedder._model._words = words  # type: ignore[attr-defined]
