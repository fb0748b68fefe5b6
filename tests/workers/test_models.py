"""How many threads bulk work may use, and which models are loaded."""

from __future__ import annotations

import gc
import os
import signal
import sys
from functools import partial

import numpy as np
import psutil
import pytest

from pipelines.embedding.apart import TorchProcess
from pipelines.embedding.models import CLOSE_ENOUGH, find_model
from pipelines.errors import ModelUnavailableError
from tests.tiny import break_in_memory
from workers.heartbeat import host
from workers.models import LAST_QUERY_FILE, BulkEmbedder, Embedders

TEXTS = ["Rain fell on the dry garden.", "soil", "A letter to shareholders, of some length."]
HERE = host()


@pytest.fixture
def lives():
    """Which workers live, by name."""
    return {}


@pytest.fixture
def embedders(tmp_path, lives, monkeypatch):
    """The embedders of a process on a machine of four cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    return Embedders(tmp_path, find_model, lambda: lives)


def test_bulk_work_has_all_cores_and_leaves_one_while_questions_come(embedders, tmp_path):
    assert embedders.threads() == 4
    embedders.leave_a_core()
    assert embedders.threads() == 3
    os.utime(tmp_path / LAST_QUERY_FILE, (0, 0))
    assert embedders.threads() == 4


def test_workers_of_one_machine_share_its_cores(embedders, lives):
    lives |= {f"{HERE}:1/1.0": True, f"{HERE}:2/1.0": True}
    assert embedders.threads() == 2
    embedders.leave_a_core()
    assert embedders.threads() == 1


def test_a_worker_that_is_dead_or_elsewhere_takes_no_core(embedders, lives):
    lives |= {f"{HERE}:1/1.0": True, f"{HERE}:2/1.0": False, "elsewhere:1/1.0": True}
    assert embedders.threads() == 4


def test_a_model_is_loaded_once_and_bulk_work_sets_its_threads(embedders, lives, tiny_model):
    assert not embedders.has_loaded(str(tiny_model))
    loaded = embedders.get(str(tiny_model))
    assert embedders.has_loaded(str(tiny_model))
    lives |= {f"{HERE}:{pid}/1.0": True for pid in (1, 2)}
    assert embedders.bulk(str(tiny_model)) is loaded


@pytest.fixture
def torch_ready(embedders, tiny_model):
    """The process in which torch computes the tiny model, ready."""
    embedders.bulk(str(tiny_model), lambda: 100)
    process = embedders._torch[str(tiny_model)]
    process.wait_until_ready()
    yield process
    embedders.close()


def test_few_texts_are_computed_by_numpy_in_this_process(embedders, tiny_model):
    few = embedders.bulk(str(tiny_model), lambda: 99)
    assert few is embedders.get(str(tiny_model))
    assert embedders._torch == {}


def test_from_many_texts_on_torch_computes_all_in_one_process(embedders, tiny_model, torch_ready):
    model = str(tiny_model)
    for texts in (1_000, 0):
        many = embedders.bulk(model, lambda texts=texts: texts)
        assert isinstance(many, BulkEmbedder)
        here = embedders.get(model)
        for found, expected in (
            (many.encode_documents(TEXTS), here.encode_documents(TEXTS)),
            (many.encode_queries(TEXTS), here.encode_queries(TEXTS)),
        ):
            assert (found * expected).sum(axis=1).min() > CLOSE_ENOUGH
    assert embedders._torch == {model: torch_ready}
    assert embedders.computing(model) == torch_ready.loaded
    assert "torch" not in here.library


def test_what_a_killed_process_was_to_embed_is_embedded_here(embedders, tiny_model, torch_ready):
    model = str(tiny_model)
    many = embedders.bulk(model)
    os.kill(torch_ready.pid, signal.SIGKILL)
    expected = embedders.get(model).encode_documents(TEXTS)
    assert np.array_equal(many.encode_documents(TEXTS), expected)
    again = embedders.bulk(model, lambda: 100)
    assert again is embedders.get(model), "numpy computes, because torch has just failed"
    assert embedders.computing(model) == ("cpu", "float32")


def test_an_idle_process_that_ended_is_started_again_for_many_texts(
    embedders, tiny_model, monkeypatch, wait_until
):
    model = str(tiny_model)
    short = partial(TorchProcess, idle_s=0.1)
    monkeypatch.setattr(sys.modules[Embedders.__module__], "TorchProcess", short)
    embedders.bulk(model, lambda: 100)
    first = embedders._torch[model]
    wait_until(lambda: first.ended is not None)
    assert embedders.bulk(model, lambda: 99) is embedders.get(model)
    embedders.bulk(model, lambda: 100)
    assert embedders._torch[model] is not first
    embedders.close()


def test_models_that_are_forgotten_leave_no_process_behind(tmp_path, tiny_model, wait_until):
    forgotten = Embedders(tmp_path, find_model, dict)
    forgotten.bulk(str(tiny_model), lambda: 100)
    pid = forgotten._torch[str(tiny_model)].pid
    del forgotten
    gc.collect()
    wait_until(lambda: not psutil.pid_exists(pid))


def test_a_model_that_broke_is_loaded_again(embedders, tiny_model):
    broken = embedders.get(str(tiny_model))
    break_in_memory(broken)
    with pytest.raises(ModelUnavailableError):
        broken.encode_query("soil")
    assert not embedders.has_loaded(str(tiny_model))
    again = embedders.get(str(tiny_model))
    assert again.encode_query("soil").any()
    assert embedders.has_loaded(str(tiny_model))
