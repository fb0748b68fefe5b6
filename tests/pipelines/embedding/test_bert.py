"""BERT as numpy computes it."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.embedding.models import find_model, pooling_of_bert
from pipelines.errors import ModelUnavailableError
from tests.pipelines.models import change_weights, expected, load, reference, save

WORDS = [
    "garden",
    "Soil and compost",
    "Zürich in WINTER",
    "日记 bread",
    "§ 3",
    "tomato " * 90,
    "river, boat.",
]


@pytest.fixture
def exact(monkeypatch):
    """Compute in float32 where torch computes, so that every difference counts."""
    monkeypatch.setattr("pipelines.embedding.embedder._processor_has_bfloat16", lambda: False)


def holds(folder):
    """Compare the vectors of a model with those of sentence-transformers."""
    return np.abs(load(folder).encode_documents(WORDS) - expected(reference(folder), WORDS)).max() < 1e-5


POOLING = "1_Pooling/config.json"
OLD_POOLING = {"pooling_mode": None, "word_embedding_dimension": 32}


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(
    ("changes", "pooling"),
    [
        ({}, "mean"),
        ({POOLING: {"pooling_mode": "cls"}}, "cls"),
        (
            {POOLING: OLD_POOLING | {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}},
            "mean",
        ),
        ({POOLING: OLD_POOLING | {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}}, "cls"),
        ({"config.json": {"layer_norm_eps": 0.1}}, "mean"),
        ({"config.json": {"num_attention_heads": 8}}, "mean"),
        ({"config.json": {"num_hidden_layers": 1}}, "mean"),
        ({"tokenizer_config.json": {"model_max_length": 12}}, "mean"),
        ({"sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": False}}, "mean"),
        # As in bge: lower-casing texts before a tokenizer that lower-cases them changes nothing.
        ({"sentence_bert_config.json": {"max_seq_length": 60, "do_lower_case": True}}, "mean"),
    ],
)
def test_a_bert_is_computed_here_as_sentence_transformers_does(variant, changes, pooling):
    folder = variant(changes)
    assert pooling_of_bert(folder) == pooling
    assert holds(folder)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(
    "changes",
    [
        {POOLING: {"pooling_mode": "max"}},
        {POOLING: OLD_POOLING | {"pooling_mode_max_tokens": True}},
        {"config.json": {"hidden_act": "relu"}},
        {"config.json": {"is_decoder": True}},
        {"tokenizer_config.json": {"do_lower_case": False}},
        {"tokenizer_config.json": {"strip_accents": False}},
        {"tokenizer_config.json": {"tokenize_chinese_chars": False}},
        {"tokenizer_config.json": {"truncation_side": "left"}},
        {"tokenizer.json": {"pre_tokenizer": {"type": "Whitespace"}}},
        {"tokenizer.json": {"post_processor": None}},
        {"tokenizer.json": None},
        {"tokenizer_config.json": None},
    ],
)
def test_any_other_model_is_left_to_sentence_transformers(variant, changes):
    folder = variant(changes)
    assert pooling_of_bert(folder) is None
    assert holds(folder)


@pytest.mark.usefixtures("exact")
def test_a_bert_whose_weights_have_other_names_is_left_to_sentence_transformers(variant):
    folder = variant({})
    change_weights(folder, lambda _, tensor: tensor, rename=lambda name: f"bert.{name}")
    assert holds(folder)


def test_a_bert_that_cannot_compute_is_refused_when_it_is_loaded(variant):
    with pytest.raises(ModelUnavailableError, match="choose another with EMBEDDING_MODEL"):
        load(variant({"config.json": {"num_attention_heads": 7}}))


def test_a_model_with_an_adapter_is_left_to_sentence_transformers(variant):
    assert pooling_of_bert(variant({"adapter_config.json": {}})) is None


def test_a_further_layer_is_left_to_sentence_transformers(tiny_model, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    folder = save(tmp_path / "dense", Transformer(str(tiny_model)), Pooling(32), Dense(32, 8))
    assert pooling_of_bert(folder) is None


SPECIAL = st.sampled_from(
    ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "##s", "\u0301", "İ", "ß", "　", "\x00"]
)
TEXTS = st.lists(st.lists(st.one_of(st.text(max_size=20), SPECIAL), max_size=8).map(" ".join), max_size=5)


@pytest.fixture(scope="module")
def tokenizers():
    """The embedded model's, ours and transformers'."""
    from transformers import AutoTokenizer

    from pipelines.embedding.bert import WordPieces

    info = find_model(None)
    return WordPieces(info.folder, info.window), AutoTokenizer.from_pretrained(info.folder)


@given(texts=TEXTS)
@settings(max_examples=200)
def test_texts_are_cut_into_the_tokens_that_transformers_cuts(tokenizers, texts):
    ours, theirs = tokenizers
    assert ours.tokens(texts) == [
        theirs(text, truncation=True, max_length=256)["input_ids"] for text in texts
    ]


@pytest.mark.usefixtures("exact")
def test_a_bert_whose_normalisations_have_their_old_names_is_computed_here(variant):
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    folder = variant({})
    change_weights(
        folder,
        lambda _, tensor: tensor,
        lambda name: re.sub(r"LayerNorm\.\w+", lambda m: old.get(m[0], m[0]), name),
    )
    assert load(folder).library == "numpy"
    assert holds(folder)


def test_a_text_has_the_same_vector_to_the_last_digit_in_any_company():
    model = load(None)
    texts = [" ".join(WORDS[: n % 7 + 1] * (1 + n % 5)) for n in range(20)]
    together = model.encode_documents(texts)
    assert all(
        np.array_equal(model.encode_documents([text])[0], own)
        for text, own in zip(texts, together, strict=True)
    )


def test_the_embedded_models_need_no_library_that_is_slow_to_import():
    code = (
        "import sys; from pipelines.embedding.embedder import Embedder; from pipelines.embedding.models import find_model; "
        "[Embedder(find_model(name), threads=1).encode_query('tomato') for name in (None, 'multilingual-e5-small')]; "
        "print([name for name in ('torch', 'sentence_transformers', 'transformers', 'sklearn', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
