"""The command that lists the indexes and the models that work, and checks a model."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pipelines.embedding.models import KNOWN_MODELS
from pipelines.errors import ModelUnavailableError, NotRunningError
from service.cli.main import app
from service.usecases.maintenance import rebuild_caches
from tests.working import indexed
from workers.resources import Resources


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    """The settings of a vault with an index in use and a kept one."""
    made = indexed(vault, tmp_path / "state", tiny_model)
    changed = made.model_copy(update={"embedding_context": "title"})
    rebuild_caches(Resources(changed), lambda *_: None, only_other_models=True)
    return made


def run(*words):
    return CliRunner().invoke(app, ["models", *map(str, words)])


def of(settings):
    return "--vault", settings.vault, "--state", settings.state


def test_each_index_is_listed_with_its_model_and_each_known_model(settings, tiny_model):
    lines = run(*of(settings)).stdout.splitlines()
    used, kept, said = lines[:3]
    assert "MB  in use         1 vector  cache-vault.2.db" in used
    assert used.endswith(f"{tiny_model}, context title")
    assert "MB  kept           1 vector  cache-vault.1.db" in kept
    assert kept.endswith(str(tiny_model))
    assert "`everindex models --remove` deletes them" in said
    names = [line for line in lines if any(line.partition(one.name)[1] for one in KNOWN_MODELS)]
    assert len(names) >= len(KNOWN_MODELS)


def test_a_model_that_is_here_and_what_it_reads_before_a_text_are_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run().stdout
    assert "multilingual-e5-small [1] (installed)\n" in text
    assert "intfloat/e5-small-v2 [1]\n" in text
    assert "[1] Everindex writes 'query: ' before a question, 'passage: ' before a passage\n" in text


def test_the_known_models_are_listed_without_a_vault_which_removing_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = json.loads(run("--json").stdout)
    assert found["stored"] == []
    assert [one["name"] for one in found["known"]] == [one.name for one in KNOWN_MODELS]
    assert {one["name"]: one["installed"] for one in found["known"]}["multilingual-e5-small"]
    assert isinstance(run("--remove").exception, NotRunningError)


def test_kept_indexes_are_removed(settings):
    assert "MB freed" in run("--remove", *of(settings)).stdout
    assert run("--remove", *of(settings)).stdout == "every index is in use\n"
    (left,) = json.loads(run("--json", *of(settings)).stdout)["stored"]
    assert (left["domain"], left["in_use"], left["vectors"]) == ("vault", True, 1)


def test_a_folder_is_checked_and_timed(tiny_model):
    text = run(tiny_model).stdout
    assert "vectors of length 32, all finite; reads 64 tokens of a text" in text
    assert "prefixes: none" in text
    assert "numpy, float32, cpu: " in text
    assert "both give the same vectors" in text
    found = json.loads(run(tiny_model, "--json").stdout)
    assert found["info"]["window"] == 64
    assert [one["library"] for one in found["speeds"]] == ["numpy", "torch"]


def test_a_folder_without_a_model_is_refused_with_what_it_lacks(tmp_path):
    done = run(tmp_path)
    assert isinstance(done.exception, ModelUnavailableError)
    assert "modules.json" in str(done.exception)


def test_a_model_is_checked_without_a_vault(settings, tiny_model):
    assert run(tiny_model, *of(settings)).exit_code == 2
    assert run(tiny_model, "--remove").exit_code == 2
