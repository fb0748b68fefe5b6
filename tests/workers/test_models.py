"""How many threads bulk work may use, and which models are loaded."""

from __future__ import annotations

import os
import socket

import pytest

from pipelines.embedding.models import find_model
from pipelines.errors import ModelUnavailableError
from tests.tiny import break_in_memory
from workers.models import LAST_QUERY_FILE, Embedders

HERE = socket.gethostname()


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


def test_few_texts_are_computed_by_numpy_and_from_many_on_all_by_torch(embedders, tiny_model):
    model = str(tiny_model)
    few = embedders.bulk(model, lambda: 99)
    assert few.library == "numpy"
    many = embedders.bulk(model, lambda: 100)
    assert many.library == "torch"
    assert embedders.bulk(model, lambda: 0) is many
    assert embedders.get(model) is many


def test_a_model_that_broke_is_loaded_again(embedders, tiny_model):
    broken = embedders.get(str(tiny_model))
    break_in_memory(broken)
    with pytest.raises(ModelUnavailableError):
        broken.encode_query("soil")
    assert not embedders.has_loaded(str(tiny_model))
    again = embedders.get(str(tiny_model))
    assert again.encode_query("soil").any()
    assert embedders.has_loaded(str(tiny_model))
