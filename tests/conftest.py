"""What tests share: a small real model, a vault folder, and the command's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

WORDS = (
    "garden soil compost tomato winter river boat sail market price share profit bread flour yeast oven "
    "sleep night dream letter paper ink run walk lift weight code error socket line the a of and in to note"
)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real sentence-transformers model with random weights: BERT, 2 layers, 32 dimensions, 64-token window."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    base = tmp_path_factory.mktemp("bert")
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
    folder = tmp_path_factory.mktemp("models") / "tiny"
    SentenceTransformer(modules=[transformer, Pooling(32, pooling_mode="mean"), Normalize()]).save(str(folder))
    return folder


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """An empty vault."""
    root = tmp_path / "vault"
    root.mkdir()
    return root


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test's state and configuration out of the user's folders, and hubs out of reach."""
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / f"xdg-{name.lower()}"))
    for name in ("EMBEDDING_MODEL", "DOMAIN", "REDIS_URL", "EVERINDEX_VAULT", "EVERINDEX_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
