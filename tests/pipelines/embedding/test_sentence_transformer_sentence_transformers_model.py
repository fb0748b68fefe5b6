"""Any model that sentence-transformers supports. Its libraries are imported where they are used: they take seconds."""

import logging
import shutil


def load(folder):
    from pipelines.embedding.sentence_transformer import load_any

    return load_any(folder, 30, "cpu", "float32")


def test_no_text_is_padded_beyond_the_window(tiny_model):
    model = load(tiny_model)
    lengths = set()
    model._model.register_forward_pre_hook(lambda _, given: lengths.add(given[0]["input_ids"].shape[1]))
    for n in range(1, 60):
        model.vectors(model.tokens(["bread " * n]), 1)
    assert lengths == {8, 16, 24, 30}


def test_weights_that_a_model_does_not_use_are_no_words_among_the_answers(tiny_model, tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny_model, tmp_path / "more")
    file = next(folder.rglob("model.safetensors"))
    save_file(load_file(file) | {"cls.predictions.bias": torch.zeros(3)}, file, {"format": "pt"})
    said, handler = [], logging.Handler()
    handler.emit = said.append
    logging.getLogger("transformers").addHandler(handler)
    load(folder)
    logging.getLogger("transformers").removeHandler(handler)
    assert said == []
