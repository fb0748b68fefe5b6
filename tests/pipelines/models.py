"""Models in sentence-transformers' format, and what sentence-transformers itself makes of them."""

from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model


def load(name, threads=2, **how):
    return Embedder(find_model(None if name is None else str(name)), threads=threads, **how)


def reference(folder):
    """Return what sentence-transformers itself makes of a model."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def expected(model, texts, **kwargs):
    return model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False, **kwargs)


def save(folder, *modules):
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(modules=list(modules), device="cpu").save(str(folder))
    return folder


def change_weights(folder, change, rename=str):
    """Replace each tensor of a model by what `change(name, tensor)` returns, under another name."""
    from safetensors.torch import load_file, save_file

    weights = folder / "model.safetensors"
    changed = {rename(name): change(name, tensor) for name, tensor in load_file(weights).items()}
    save_file(changed, weights, metadata={"format": "pt"})
