"""Questions are embedded by models that are loaded and work; otherwise words have to do."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.errors import ModelUnavailableError
from pipelines.question import read_question
from queue_config.settings import Settings
from service.usecases.search import QuestionModels
from tests.tiny import break_in_memory
from workers.resources import Resources


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    made = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    yield made
    made.state().close()


@pytest.fixture
def model(resources, tiny_model):
    return resources.embedders._find(str(tiny_model)).name


@pytest.fixture
def models(resources, model):
    loaded = QuestionModels(resources)
    loaded.load([model])
    return loaded


def test_a_model_that_was_not_loaded_embeds_nothing(resources, model):
    models = QuestionModels(resources)
    assert not models.has_loaded(model)
    assert models.vector(model, read_question("soil")) is None


def test_words_that_are_excluded_do_not_draw_the_vector_towards_them(models, model):
    plain = models.vector(model, read_question("soil"))
    assert np.allclose(models.vector(model, read_question('soil -clay -"river bank"')), plain)
    assert not np.allclose(models.vector(model, read_question("soil clay")), plain)


def test_a_model_that_breaks_is_reported_embeds_nothing_and_is_loaded_again(resources, models, model, capsys):
    break_in_memory(resources.embedders.get(model))
    assert models.vector(model, read_question("soil")) is None
    assert "without a model" in capsys.readouterr().out
    assert not models.has_loaded(model)
    models.load([model])
    assert models.vector(model, read_question("soil")) is not None


def test_a_model_that_cannot_be_found_is_an_error_and_the_others_stay(models, model):
    with pytest.raises(ModelUnavailableError):
        models.load([model, "no/such-model"])
    assert models.has_loaded(model)
    assert not models.has_loaded("no/such-model")
