"""The multilingual model: its tokens, its vectors, and the file it comes in."""

import unicodedata
from itertools import pairwise

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.embedding.models import MULTILINGUAL_MODEL, find_model
from pipelines.embedding.packed import Trie, Unigram, load_packed, read_packed
from pipelines.errors import ModelUnavailableError
from tests.pipelines.models import load

TEXTS = [
    "query: Wie pflanze ich Tomaten?",
    "Tomatoes are planted in May, after the last frost. " * 40,
    "番茄应该在五月种植",
    "トマトは五月に植えます。",
    "Помидоры сажают в мае",
    "",
    "  two   spaces\n\tand lines ",
]


@pytest.fixture(scope="module")
def info():
    return find_model(MULTILINGUAL_MODEL)


@pytest.fixture(scope="module")
def packed(info):
    return read_packed(info.weights)


@pytest.fixture(scope="module")
def tokenizer(packed):
    return packed.tokenizer()


@pytest.fixture(scope="module")
def theirs(packed):
    """The tokenizer that the library `tokenizers` makes of the same pieces."""
    pytest.importorskip("tokenizers", reason="everindex[models] is not installed")
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    own = packed.vocabulary
    text, scores = own.text.tobytes(), own.scores.tolist()
    pieces = [
        (text[start:end].decode(), score) if score else ("", 0.0)
        for score, (start, end) in zip(scores, pairwise(own.offsets.tolist()), strict=True)
    ]
    made = Tokenizer(models.Unigram(pieces, unk_id=own.unknown))
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return made


def _is_normalised_alike(char):
    """Say whether a character is the same for both versions of Unicode: they differ in what was added last."""
    is_old = unicodedata.ucd_3_2_0.category(char) != "Cn"
    return is_old or not (unicodedata.combining(char) or unicodedata.decomposition(char))


OLD = st.characters(exclude_categories=["Cs", "Cn", "Co"], max_codepoint=0x1FFF).filter(_is_normalised_alike)
WORDS = st.sampled_from(
    ["Tomate", "▁", "   ", "的", "<s>", "</s>", "\u200b", "\t", "ﬁ", "½", "İ", "日记", "🌱", "é"]
)


@given(st.lists(st.one_of(st.text(OLD, max_size=20), WORDS), max_size=8).map("".join))
@settings(max_examples=300)
def test_a_text_has_the_pieces_that_tokenizers_cuts(tokenizer, theirs, text):
    assert tokenizer._unigram.cut(text) == theirs.encode(text).ids


@pytest.mark.parametrize("text", TEXTS)
def test_words_of_many_scripts_have_the_pieces_that_tokenizers_cuts(tokenizer, theirs, text):
    assert tokenizer._unigram.cut(text) == theirs.encode(text).ids


def test_the_most_likely_division_wins_and_unknown_characters_are_one():
    trie = Trie.of(["<unk>", "▁", "▁a", "b", "ab", "▁ab"], range(1, 6))
    unigram = Unigram(trie, np.array([0.0, -2.0, -3.0, -3.0, -1.0, -9.0], np.float32), 0)
    assert unigram.cut("ab") == [1, 4]
    assert unigram.cut("aééb") == [2, 0, 3]
    assert unigram.cut("") == []


def test_its_passages_are_as_long_as_those_of_the_model_for_english(info):
    assert (info.window, info.passage_tokens) == (512, 256)


def test_texts_have_the_models_own_tokens_and_no_more_than_its_window(tokenizer):
    short, long = tokenizer.tokens(["Tomaten", "Tomaten " * 900])
    assert (short[0], short[-1], len(short)) == (0, 2, 4)
    assert (long[0], long[-1], len(long)) == (0, 2, 512)
    assert tokenizer.count(["Tomaten", "Tomaten Tomaten"]) == [2, 4]


def test_numpy_gives_the_vectors_of_torch():
    pytest.importorskip("sentence_transformers", reason="everindex[models] is not installed")
    numpy, torch = load(MULTILINGUAL_MODEL), load(MULTILINGUAL_MODEL, library="torch")
    assert (numpy.library, torch.library) == ("numpy", "torch")
    cosines = (numpy.encode_documents(TEXTS) * torch.encode_documents(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.999


def test_a_question_finds_what_it_asks_for_in_another_language():
    model = load(MULTILINGUAL_MODEL)
    near, far = model.encode_documents(
        ["Tomatoes are planted in May, after the last frost.", "Shares fell again."]
    )
    for question in ("Wann pflanzt man Tomaten?", "番茄什么时候种植？", "Когда сажают помидоры?"):
        vector = model.encode_query(question)
        assert vector @ near > vector @ far + 0.05


def test_questions_and_passages_have_their_prefixes():
    model = load(MULTILINGUAL_MODEL)
    asked, written, bare = (
        model.encode_query("soil"),
        model.encode_documents(["soil"])[0],
        model._encode(["soil"])[0],
    )
    assert np.array_equal(asked, model._encode(["query: soil"])[0])
    assert np.allclose(written, model._encode(["passage: soil"])[0], atol=1e-6)
    assert max(asked @ written, asked @ bare, written @ bare) < 0.999


def test_weights_other_than_the_published_ones_are_refused(info, tmp_path):
    from dataclasses import replace

    from pipelines.embedding.embedder import Embedder

    changed = bytearray(info.weights.read_bytes())
    changed[-1] ^= 1
    (tmp_path / info.weights.name).write_bytes(changed)
    with pytest.raises(ModelUnavailableError, match="differs from what was published"):
        Embedder(replace(info, folder=tmp_path), threads=1)


@pytest.mark.parametrize("data", [b"", b"E5S1", b"GGUF" + bytes(200)])
def test_another_file_is_not_read(tmp_path, data):
    import struct

    (tmp_path / "file").write_bytes(data)
    with pytest.raises((ValueError, struct.error)):
        read_packed(tmp_path / "file")


# What is unpacked, in a file that the processes share.


def kept_in(folder):
    (file,) = folder.iterdir()
    return file


def mapped_bytes(file):
    """Return how much of a file this process has in memory."""
    return sum(one.rss for one in psutil.Process().memory_maps() if one.path == str(file))


def vectors(model):
    return model.vectors(model.tokens(TEXTS), 1)


@pytest.fixture(scope="module")
def alone(info):
    """The vectors of the model in a process's own memory."""
    return vectors(load_packed(info.weights))


def test_what_is_unpacked_is_kept_and_gives_the_same_vectors(info, alone, tmp_path):
    folder = tmp_path / "models"
    assert np.array_equal(vectors(load_packed(info.weights, folder)), alone)
    file = kept_in(folder)
    written = file.stat().st_mtime_ns
    assert np.array_equal(vectors(load_packed(info.weights, folder)), alone)
    assert kept_in(folder).stat().st_mtime_ns == written


@pytest.mark.parametrize("damage", ["empty", "cut", "changed"])
def test_a_damaged_file_is_made_again(info, alone, tmp_path, damage):
    load_packed(info.weights, tmp_path)
    file = kept_in(tmp_path)
    sound = file.read_bytes()
    half = len(sound) // 2
    other = bytes([sound[half] ^ 1])
    damaged = {"empty": b"", "cut": sound[:half], "changed": sound[:half] + other + sound[half + 1 :]}
    file.unlink()  # a file that is mapped must not become shorter
    file.write_bytes(damaged[damage])
    assert np.array_equal(vectors(load_packed(info.weights, tmp_path)), alone)
    assert file.read_bytes() == sound


def test_without_a_folder_that_can_be_written_it_is_in_own_memory(info, alone, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    model = load_packed(info.weights, tmp_path / "file")
    assert np.array_equal(vectors(model), alone)


@pytest.mark.skipif(not psutil.LINUX, reason="what is mapped is read from /proc")
def test_a_model_that_rests_has_no_weights_in_memory_until_the_next_text(info, alone, tmp_path):
    model = load_packed(info.weights, tmp_path)
    file = kept_in(tmp_path)
    assert np.array_equal(vectors(model), alone)
    before = mapped_bytes(file)
    model.rest()
    assert mapped_bytes(file) < before / 100
    assert np.array_equal(vectors(model), alone)
