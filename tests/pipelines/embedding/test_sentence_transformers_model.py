from pipelines.embedding.sentence_transformers_model import load_any


def test_no_text_is_padded_beyond_the_window(tiny_model):
    model = load_any(tiny_model, 30, "cpu", "float32")
    lengths = set()
    model._model.register_forward_pre_hook(lambda _, given: lengths.add(given[0]["input_ids"].shape[1]))
    for n in range(1, 60):
        model.vectors(model.tokens(["bread " * n]), 1)
    assert lengths == {8, 16, 24, 30}
