import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.embedding.embedder import _TOKENS_PER_BATCH, _batches
from pipelines.embedding.models import BGE_QUERY_PREFIX, QUESTIONS_KEPT, find_model
from pipelines.errors import BadVectorError, ModelUnavailableError
from tests.pipelines.models import change_weights, expected, load, reference, save
from tests.tiny import break_in_memory

TOLERANCE = 5e-3
"""The largest deviation of bfloat16, where the processor computes in it."""

WORDS = [
    "garden",
    "soil",
    "compost",
    "tomato",
    "winter",
    "river",
    "boat",
    "bread",
    "2024",
    "Zürich",
    "日记",
    "c3po",
]


@pytest.fixture(scope="session")
def tiny_embedder(tiny_model):
    return load(tiny_model)


@pytest.fixture(scope="session")
def tiny_reference(tiny_model):
    return reference(tiny_model)


@pytest.fixture(scope="session", params=["numpy", "torch"])
def embedded(request):
    return load(None, library=request.param)


# Query prefix


def test_a_bge_model_of_english_has_its_prefix_and_reads_the_first_token(variant):
    folder = variant({"1_Pooling/config.json": {"pooling_mode": "cls"}}, "bge-large-en-v1.5")
    # Fresh weights are so small that the first token hardly knows the others.
    change_weights(
        folder, lambda name, tensor: tensor * 10 if "encoder" in name and tensor.ndim == 2 else tensor
    )
    assert find_model(str(folder)).query_prefix == BGE_QUERY_PREFIX
    model, embedder = reference(folder), load(folder)
    assert model[1].pooling_mode == "cls"
    (asked,) = expected(model, [BGE_QUERY_PREFIX + "tomato soil"])
    (plain,) = expected(model, ["tomato soil"])
    assert np.abs(embedder.encode_query("tomato soil") - asked).max() < TOLERANCE
    assert np.abs(embedder.encode_documents(["tomato soil"])[0] - plain).max() < TOLERANCE
    assert np.abs(asked - plain).max() > 10 * TOLERANCE


@pytest.mark.parametrize("name", ["tiny", "bge-small-en-v1.5"])
def test_a_models_own_query_prompt_wins(variant, name):
    folder = variant(
        {"config_sentence_transformers.json": {"prompts": {"query": "query: ", "document": "passage: "}}},
        name,
    )
    assert find_model(str(folder)).query_prefix == "query: "
    (asked,) = expected(reference(folder), ["tomato soil"], prompt_name="query")
    assert np.abs(load(folder).encode_query("tomato soil") - asked).max() < TOLERANCE


@pytest.mark.parametrize("prompt", ["document", "passage"])
def test_documents_have_the_prompt_that_a_model_states_for_them(variant, prompt):
    prompts = {"prompts": {"query": "winter: ", prompt: "compost: "}}
    folder = variant({"config_sentence_transformers.json": prompts})
    (vector,) = expected(reference(folder), ["compost: tomato soil"])
    assert np.abs(load(folder).encode_documents(["tomato soil"])[0] - vector).max() < TOLERANCE


# Vectors


TEXTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(WORDS), max_size=100).map(" ".join),
        st.text(max_size=60),
        st.sampled_from(["", " ", "\n", "[SEP]", "a" * 500]),
    ),
    max_size=12,
)


@given(texts=TEXTS)
@settings(max_examples=40)
def test_vectors_are_those_of_sentence_transformers(tiny_embedder, tiny_reference, texts):
    vectors = tiny_embedder.encode_documents(texts)
    assert vectors.shape == (len(texts), 32)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max(initial=0) < 1e-5
    if texts:
        assert np.abs(vectors - expected(tiny_reference, texts)).max() < TOLERANCE


@given(texts=TEXTS, data=st.data())
@settings(max_examples=30)
def test_a_text_has_its_vector_in_any_company_and_order(tiny_embedder, texts, data):
    order = data.draw(st.permutations(range(len(texts))))
    together = tiny_embedder.encode_documents([texts[i] for i in order])
    for place, i in enumerate(order):
        alone = tiny_embedder.encode_documents([texts[i]])[0]
        assert np.abs(together[place] - alone).max() < TOLERANCE


@given(lengths=st.lists(st.integers(1, 600), min_size=1, max_size=60), at_once=st.integers(1, 4))
def test_a_batch_stays_within_its_tokens_with_padding(lengths, at_once):
    batches = list(_batches(lengths, at_once))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= 2 * _TOKENS_PER_BATCH or len(batch) == 1


@given(count=st.integers(1, 60), length=st.integers(1, 256), at_once=st.integers(1, 4))
def test_threads_get_equal_shares_of_equal_texts(count, length, at_once):
    sizes = [len(batch) for batch in _batches([length] * count, at_once)]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) % at_once == 0 or len(sizes) == count


def test_many_texts_of_all_lengths_keep_their_places(tiny_embedder, tiny_reference):
    texts = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(i * 7 % 90)) for i in range(150)]
    assert np.abs(tiny_embedder.encode_documents(texts) - expected(tiny_reference, texts)).max() < TOLERANCE


def test_no_texts_make_no_vectors(tiny_embedder):
    vectors = tiny_embedder.encode_documents([])
    assert (vectors.shape, vectors.dtype) == ((0, 32), np.float32)


def test_a_question_is_one_vector(tiny_embedder, tiny_reference):
    vector = tiny_embedder.encode_query("tomato soil")
    assert (vector.shape, vector.dtype) == ((32,), np.float32)
    assert np.abs(vector - expected(tiny_reference, ["tomato soil"])[0]).max() < TOLERANCE


def test_a_question_that_is_repeated_is_embedded_once(tiny_model):
    embedder = load(tiny_model)
    first = embedder.encode_query("tomato soil")
    break_in_memory(embedder)  # whatever is computed from now on is not finite
    assert np.array_equal(embedder.encode_query("tomato soil"), first)
    with pytest.raises(ModelUnavailableError):
        embedder.encode_query("tomato  soil")
    with pytest.raises(ModelUnavailableError):
        embedder.encode_query("tomato  soil")


def test_a_vector_that_others_may_get_cannot_be_changed(tiny_model):
    vector = load(tiny_model).encode_query("tomato soil")
    with pytest.raises(ValueError, match="read-only"):
        vector += 1


def test_only_the_vectors_of_recent_questions_are_kept(tiny_model):
    embedder = load(tiny_model)
    for number in range(QUESTIONS_KEPT + 1):
        embedder.encode_query(str(number))
    break_in_memory(embedder)
    assert embedder.encode_query(str(QUESTIONS_KEPT)).any()
    assert embedder.encode_query("1").any()
    with pytest.raises(ModelUnavailableError):
        embedder.encode_query("0")


def test_threads_that_ask_the_same_at_once_get_equal_vectors(tiny_model):
    embedder = load(tiny_model, threads=2)
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda n: embedder.encode_query(f"tomato {n % 3}"), range(64)))
    for number, vector in enumerate(found):
        assert np.array_equal(vector, embedder.encode_query(f"tomato {number % 3}"))


def test_a_text_beyond_the_window_is_cut_not_refused(tiny_embedder):
    text = " ".join(WORDS * 100)
    assert (
        np.abs(tiny_embedder.encode_documents([text]) - tiny_embedder.encode_documents([text * 2])).max()
        < TOLERANCE
    )


def test_threads_may_share_a_model(tiny_model):
    embedder = load(tiny_model, threads=1)
    texts = [[f"{word} {number}" for word in WORDS] for number in range(8)]
    found, start = {}, threading.Barrier(8)

    def encode(number):
        start.wait()
        found[number] = embedder.encode_documents(texts[number])

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for count in (2, 1, 2):
        embedder.use_threads(count)
    for thread in threads:
        thread.join()
    for number, vectors in found.items():
        assert np.abs(vectors - embedder.encode_documents(texts[number])).max() < TOLERANCE
    assert len(found) == 8


def test_a_model_that_does_one_batch_after_another_is_never_asked_twice_at_once(tiny_model):
    embedder = load(tiny_model, threads=2)
    model, busy, asked = embedder._model, threading.Lock(), []
    model.side_by_side, vectors = False, model.vectors

    def alone(batch, threads):
        assert busy.acquire(blocking=False)
        asked.append((threading.current_thread(), threads))
        try:
            return vectors(batch, threads)
        finally:
            busy.release()

    model.vectors = alone
    embedder.use_threads(1)
    embedder.use_threads(2)
    with ThreadPoolExecutor(4) as callers:
        list(callers.map(lambda n: embedder.encode_documents([f"tomato {n} " * 50] * 50), range(8)))
        callers_threads = set(callers._threads)
    assert {threads for _, threads in asked} == {2}
    assert {thread for thread, _ in asked} <= callers_threads
    assert len(asked) > 8


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_with_any_number_of_threads_it_gives_the_same_vectors(tiny_model, threads):
    import torch

    embedder = load(tiny_model, library="torch")
    texts = [" ".join(WORDS[: n % 7 + 1] * 9) for n in range(200)]
    exact = embedder.encode_documents(texts)
    embedder.use_threads(threads)
    assert np.abs(embedder.encode_documents(texts) - exact).max() < TOLERANCE
    embedder.encode_query("bread")
    assert torch.get_num_threads() == threads


def test_the_embedded_model_knows_what_texts_mean(embedded):
    question = embedded.encode_query("how do I bake bread?")
    near, far = embedded.encode_documents(
        ["Put the dough into a hot oven until the loaf is brown.", "The central bank raised interest rates."]
    )
    assert question.shape == (384,)
    assert question @ near > question @ far + 0.2


def test_the_embedded_model_gives_the_vectors_of_sentence_transformers(embedded):
    texts = ["Tomatoes want deep soil.", "§ 3 Abs. 2", "日记 🌱", " ".join(["word"] * 400)]
    vectors = expected(reference(find_model(None).folder), texts)
    assert np.abs(embedded.encode_documents(texts) - vectors).max() < TOLERANCE


# Precision


@pytest.fixture
def bfloat16(monkeypatch):
    """Pretend that the processor computes in bfloat16; one that does not emulates it, with the same result."""
    monkeypatch.setattr("pipelines.embedding.embedder._processor_has_bfloat16", lambda: True)


@pytest.fixture
def delicate(tiny_model, tmp_path):
    """A model that bfloat16 is too coarse for: its last layer adds up what cancels out."""
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
    from torch.nn import Identity

    torch.manual_seed(0)
    dense = Dense(32, 8, activation_function=Identity())
    dense.linear.weight.data.normal_().add_(3000)
    return save(tmp_path / "delicate", Transformer(str(tiny_model)), Pooling(32), dense)


def close(vectors, exact):
    return float((vectors * exact).sum(axis=1).min()) > 0.999


@pytest.mark.usefixtures("bfloat16")
def test_where_the_processor_has_bfloat16_and_it_agrees_it_is_used(tiny_model):
    embedder = load(tiny_model, library="torch")
    assert (embedder.precision, embedder.warning) == ("bfloat16", None)


@pytest.mark.usefixtures("bfloat16")
def test_a_model_that_bfloat16_is_too_coarse_for_computes_in_float32_and_says_why(delicate):
    embedder = load(delicate)
    assert embedder.precision == "float32"
    assert str(delicate) in embedder.warning
    assert "bfloat16" in embedder.warning
    assert close(embedder.encode_documents(WORDS), expected(reference(delicate), WORDS))


def test_a_processor_without_bfloat16_computes_in_float32_without_a_warning(monkeypatch, tiny_model):
    import torch

    capabilities = {"architecture": "x86_64", "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    embedder = load(tiny_model, library="torch")
    assert (embedder.precision, embedder.warning) == ("float32", None)


# numpy and torch


def test_numpy_and_torch_give_the_same_vectors(tiny_model):
    texts = [" ".join(WORDS[: n % 7 + 1] * (n % 9)) for n in range(40)]
    one, other = load(tiny_model), load(tiny_model, library="torch")
    assert (one.library, one.precision, other.library) == ("numpy", "float32", "torch")
    assert close(one.encode_documents(texts), other.encode_documents(texts))


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr("pipelines.embedding.embedder.find_spec", lambda _: None)


@pytest.mark.usefixtures("without_torch")
def test_without_torch_a_model_that_is_no_bert_says_what_to_install(variant):
    with pytest.raises(ModelUnavailableError, match=r"install everindex\[models\]"):
        load(variant({"config.json": {"hidden_act": "relu"}}))


@pytest.mark.usefixtures("without_torch")
def test_without_torch_a_bert_is_computed_by_numpy(tiny_model):
    assert load(tiny_model, library="torch").library == "numpy"


# Models that cannot be used


def test_a_model_without_weights_is_refused(variant):
    folder = variant({})
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailableError, match="choose another with EMBEDDING_MODEL"):
        load(folder)


def test_a_model_with_half_its_weights_is_refused(variant):
    folder = variant({})
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelUnavailableError, match="choose another with EMBEDDING_MODEL"):
        load(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_a_vector_that_is_not_finite_or_zero_is_never_returned(variant, value):
    folder = variant({})
    change_weights(folder, lambda _, tensor: tensor.fill_(value))

    def use():
        load(folder).encode_documents(["tomato soil"])

    with pytest.raises(BadVectorError, match="zero or not finite"):
        use()


def test_an_infinite_vector_is_never_returned(tiny_model, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
    from torch.nn import Identity

    dense = Dense(32, 8, activation_function=Identity())
    dense.linear.bias.data.fill_(float("inf"))
    folder = save(tmp_path / "infinite", Transformer(str(tiny_model)), Pooling(32), dense)

    def use():
        load(folder).encode_documents(["tomato soil"])

    with pytest.raises(BadVectorError, match="zero or not finite"):
        use()


def test_a_model_that_breaks_after_it_was_loaded_is_distinguished_from_a_text_that_it_cannot_embed(variant):
    folder = variant({})
    row = reference(folder).tokenizer.convert_tokens_to_ids("tomato")
    embedder = load(folder)
    break_in_memory(embedder, row)
    with pytest.raises(BadVectorError):
        embedder.encode_documents(["tomato"])
    assert not embedder.is_broken
    break_in_memory(embedder)
    with pytest.raises(ModelUnavailableError, match="for every text"):
        embedder.encode_query("soil")
    assert embedder.is_broken


def test_one_bad_vector_among_good_ones_is_an_error(variant):
    folder = variant({})
    row = reference(folder).tokenizer.convert_tokens_to_ids("tomato")

    def spoil(name, tensor):
        if name == "embeddings.word_embeddings.weight":
            tensor[row] = float("nan")
        return tensor

    change_weights(folder, spoil)
    embedder = load(folder)
    assert np.isfinite(embedder.encode_documents(["soil", "river"])).all()
    with pytest.raises(BadVectorError):
        embedder.encode_documents(["soil", "tomato", "river"])
