"""A process that computes a model in torch: what it returns, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest

from pipelines.embedding.apart import TorchProcess
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
from pipelines.errors import BadVectorError, ChildDiedError

safetensors = pytest.importorskip("safetensors.numpy", reason="everindex[models] is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="everindex[models] is not installed")

TEXTS = ["Rain fell on the dry garden.", "soil", "A letter to shareholders, of some length."]


@pytest.fixture
def process(request, tiny_model):
    """A process that has loaded the tiny model."""
    started = TorchProcess(find_model(str(tiny_model)), **getattr(request, "param", {}))
    started.wait_until_ready()
    yield started
    started.close()


def test_its_vectors_are_those_of_torch_in_this_process(process, tiny_model):
    here = Embedder(find_model(str(tiny_model)), threads=1, library="torch")
    assert process.loaded == (here.device, here.precision)
    assert np.array_equal(process.encode("documents", TEXTS, 1), here.encode_documents(TEXTS))
    assert np.array_equal(process.encode("queries", TEXTS, 1), here.encode_queries(TEXTS))
    assert process.encode("documents", [], 1).shape == (0, here.info.dimension)


def test_several_threads_each_get_their_own_answers(process):
    expected = [process.encode("documents", [text], 1) for text in TEXTS]
    found = {}

    def ask(at):
        for _ in range(20):
            found[at] = process.encode("documents", [TEXTS[at]], 1)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(TEXTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.allclose(found[at], expected[at], atol=1e-6) for at in range(len(TEXTS)))


@pytest.mark.parametrize("process", [{"idle_s": 0.2}], indirect=True)
def test_it_ends_by_itself_when_it_is_idle(process, wait_until):
    wait_until(lambda: process.ended is not None)
    assert (process.ended, process.has_failed) == ("it was idle", False)
    assert not process.is_ready()
    with pytest.raises(ChildDiedError, match="it was idle"):
        process.encode("documents", TEXTS, 1)


def test_a_request_of_a_killed_process_is_refused(process, wait_until):
    os.kill(process.pid, signal.SIGSTOP)  # so that the request waits
    refused = []

    def ask():
        with pytest.raises(ChildDiedError) as error:
            process.encode("documents", TEXTS, 1)
        refused.append(str(error.value))

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: process._asked)
    os.kill(process.pid, signal.SIGKILL)
    asking.join()
    assert refused == ["its process ended (-9: out of memory, or a fault)"]
    assert process.has_failed


@pytest.mark.parametrize("process", [{"answer_s": 0.5}], indirect=True)
def test_a_process_that_hangs_is_ended(process):
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(ChildDiedError, match="took too long"):
        process.encode("documents", [], 1)
    assert process.has_failed
    assert not psutil.pid_exists(process.pid)


def test_a_model_that_cannot_be_loaded_is_refused_with_the_reason(tiny_model, wait_until):
    info = find_model(str(tiny_model))
    broken = TorchProcess(type(info)("gone", info.folder / "gone", info.dimension, info.window, ""))
    with pytest.raises(ChildDiedError, match="gone cannot be loaded in torch"):
        broken.wait_until_ready()
    wait_until(lambda: broken.ended is not None)
    assert "gone cannot be loaded in torch" in broken.ended
    assert broken.has_failed


def test_a_text_with_a_bad_vector_ends_nothing(tiny_model, tmp_path):
    folder = tmp_path / "spoilt"
    shutil.copytree(tiny_model, folder)
    weights = safetensors.load_file(folder / "model.safetensors")
    words = weights["embeddings.word_embeddings.weight"]
    words[tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id("tomato")] = float("nan")
    safetensors.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    process = TorchProcess(find_model(str(folder)))
    process.wait_until_ready()
    with pytest.raises(BadVectorError, match="zero or not finite"):
        process.encode("documents", ["tomato"], 1)
    assert np.isfinite(process.encode("documents", ["soil"], 1)).all()
    process.close()


def test_it_ends_with_the_process_that_started_it(tiny_model, wait_until):
    code = (
        "import sys; from pipelines.embedding.apart import TorchProcess;"
        " from pipelines.embedding.models import find_model;"
        " p = TorchProcess(find_model(sys.argv[1])); p.wait_until_ready(); print(p.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tiny_model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
