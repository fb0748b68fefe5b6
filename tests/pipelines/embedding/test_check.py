"""A model is checked by each library that can compute it, and a faulty one is refused with what is wrong."""

from __future__ import annotations

import pytest

from pipelines.embedding.check import QUESTIONS, SAMPLE, check_model
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import KNOWN_MODELS, NO_MODEL, find_model, is_installed, prefixes_of
from pipelines.errors import BadVectorError, ModelUnavailableError
from tests.pipelines.models import change_weights


def check(folder):
    return check_model(find_model(str(folder)), 2)


def test_the_sample_is_64_different_texts_of_all_lengths():
    lengths = [len(text.split()) for text in SAMPLE]
    assert len(set(SAMPLE)) == 64
    assert (min(lengths), max(lengths)) == (4, 160)
    assert all(len(question.split()) == 8 for question in QUESTIONS)


def test_a_model_is_timed_by_each_library_and_they_agree(tiny_model):
    found = check(tiny_model)
    assert found.info.dimension == 32
    assert [one.library for one in found.speeds] == ["numpy", "torch"]
    assert found.agreement > 0.999
    assert all(one.texts_per_s > 0 < one.ms_per_question for one in found.speeds)


def test_a_model_that_only_torch_can_compute_is_timed_once(variant):
    found = check(variant({"config.json": {"hidden_act": "relu"}}))
    assert [one.library for one in found.speeds] == ["torch"]
    assert found.agreement is None


def test_without_torch_it_is_timed_once(tiny_model, monkeypatch):
    monkeypatch.setattr("pipelines.embedding.embedder.find_spec", lambda _: None)
    assert [one.library for one in check(tiny_model).speeds] == ["numpy"]


def test_a_model_whose_vectors_are_no_numbers_is_refused(variant):
    folder = variant({})
    change_weights(folder, lambda _, tensor: tensor * float("nan"))
    with pytest.raises(BadVectorError, match=f"{folder} returned a vector that is zero or not finite"):
        check(folder)


def test_a_model_that_the_libraries_compute_differently_is_refused(tiny_model, monkeypatch):
    encode = Embedder.encode_documents

    def other_in_torch(self, texts):
        vectors = encode(self, texts)
        return vectors if self.library == "numpy" else vectors[::-1]

    monkeypatch.setattr(Embedder, "encode_documents", other_in_torch)
    with pytest.raises(ModelUnavailableError, match="other vectors in numpy than in torch"):
        check(tiny_model)


def test_words_alone_are_no_model_to_check():
    with pytest.raises(ModelUnavailableError, match="words alone"):
        check_model(find_model(NO_MODEL), 2)


# The models that are known


@pytest.mark.parametrize("known", KNOWN_MODELS[:3], ids=lambda one: one.name)
def test_what_is_said_of_a_model_that_comes_with_everindex_is_what_its_files_say(known):
    assert is_installed(known.name)
    info = find_model(known.name)
    assert info.dimension == known.dimension
    if known.name != NO_MODEL:
        assert info.window == known.window
        assert info.weights.stat().st_size == pytest.approx(known.megabytes * 1e6, rel=0.02)
    assert (info.query_prefix, info.passage_prefix) == prefixes_of(known.name)


def test_a_published_figure_has_its_source():
    assert all(bool(one.source) == (one.ndcg is not None) for one in KNOWN_MODELS)


@pytest.mark.parametrize("name", ["no-such-people/no-such-model", "/nowhere", ""])
def test_a_model_that_is_nowhere_is_not_installed(name):
    assert not is_installed(name)


@pytest.mark.parametrize(
    ("name", "question", "passage"),
    [
        ("intfloat/e5-small-v2", "query: ", "passage: "),
        ("multilingual-e5-small", "query: ", "passage: "),
        ("/models/Multilingual-E5-Base/", "query: ", "passage: "),
        ("intfloat/e5-mistral-7b-instruct", "", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        (
            "Snowflake/snowflake-arctic-embed-s",
            "Represent this sentence for searching relevant passages: ",
            "",
        ),
        ("thenlper/gte-small", "", ""),
    ],
)
def test_a_model_has_the_prefixes_of_its_family(name, question, passage):
    assert prefixes_of(name) == (question, passage)
