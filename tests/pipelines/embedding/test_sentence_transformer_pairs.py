"""Cross-encoders are told apart from other models, and rate texts with a question.

The one that is used here is tiny and has random weights: it shows that pairs are rated, not that they are rated well.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from pipelines.embedding.embedder import load_cross_encoder
from pipelines.embedding.models import is_cross_encoder
from pipelines.embedding.sentence_transformer import load_pairs
from pipelines.errors import BadVectorError, ModelUnavailableError

TEXTS = ["compost for the tomato", "a boat on the river", "bread and yeast"]


def test_a_cross_encoder_is_told_apart_from_a_model_that_embeds(tiny_cross_encoder, tiny_model, tmp_path):
    assert is_cross_encoder(tiny_cross_encoder)
    assert not is_cross_encoder(tiny_model)
    assert not is_cross_encoder(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    assert not is_cross_encoder(tmp_path)


def test_a_tiny_random_one_gives_the_scores_of_sentence_transformers(tiny_cross_encoder):
    from sentence_transformers import CrossEncoder

    expected = CrossEncoder(str(tiny_cross_encoder), device="cpu", local_files_only=True).predict(
        [("river", text) for text in TEXTS]
    )
    loaded = load_cross_encoder(tiny_cross_encoder)
    assert loaded.scores("river", TEXTS, 1) == pytest.approx(expected.tolist(), abs=1e-5)
    assert len(set(loaded.scores("river", TEXTS, 1))) == 3


def test_the_texts_of_the_last_question_are_read_once(tiny_cross_encoder, monkeypatch):
    loaded, read = load_pairs(tiny_cross_encoder), []
    predict = loaded._model.predict
    monkeypatch.setattr(
        loaded._model, "predict", lambda pairs, **how: read.extend(pairs) or predict(pairs, **how)
    )
    first = loaded.scores("river", TEXTS[:2], 1)
    assert loaded.scores("river", TEXTS, 1)[:2] == first
    assert [text for _, text in read] == TEXTS
    loaded.scores("yeast", TEXTS, 1)
    assert len(read) == 6


def test_scores_that_are_no_numbers_are_an_error(tiny_cross_encoder, monkeypatch):
    loaded = load_pairs(tiny_cross_encoder)
    for scores in (np.array([1.0, np.nan, 0.0]), np.zeros((3, 2))):
        monkeypatch.setattr(loaded._model, "predict", lambda *_, _scores=scores, **__: _scores)
        with pytest.raises(BadVectorError):
            loaded.scores("river", TEXTS, 1)


def test_one_that_cannot_be_loaded_is_unavailable(tiny_cross_encoder, tmp_path, monkeypatch):
    broken = shutil.copytree(tiny_cross_encoder, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelUnavailableError, match="cannot be loaded"):
        load_cross_encoder(broken)
    monkeypatch.setattr("pipelines.embedding.embedder.find_spec", lambda _: None)
    with pytest.raises(ModelUnavailableError, match=r"everindex\[models\]"):
        load_cross_encoder(tiny_cross_encoder)
