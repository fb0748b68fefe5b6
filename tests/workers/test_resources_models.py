"""Which model a domain has: a vault's request alone neither downloads a model nor loads a folder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipelines.embedding.models import EMBEDDED_MODEL, MULTILINGUAL_MODEL
from pipelines.errors import ConfigurationError, ModelNotAllowedError
from queue_config.settings import Settings
from service.usecases.status import find_problems
from workers.resources import Resources
from workers.tasks import compare


def resources_of(vault, tmp_path, **settings):
    return Resources(Settings(vault=vault, state=tmp_path / "state", **settings))


def name_model(vault, model):
    (vault / "_domains.yaml").write_text(
        f"all:\n  legacy: true\nevil:\n  embedding: {str(model)!r}\n", encoding="utf-8"
    )


@pytest.fixture
def hub():
    """A hub on this machine: the requests that reach it."""
    requests = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append((self.path, self.headers.get("Authorization")))
            self.send_error(404)

        do_HEAD = do_POST = do_GET  # noqa: N815 - the base class's names

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", requests
    server.shutdown()
    server.server_close()


def index(vault, tmp_path, **environment):
    kept = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "index", str(vault), "--state", str(tmp_path / "state")],
        env={**kept, "HF_TOKEN": "hf_secret", "HF_HOME": str(tmp_path / "hf"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_model_that_a_vault_names_asks_nothing_of_a_hub(vault, tmp_path, hub):
    address, requests = hub
    name_model(vault, "evil-org/evil-model")
    (vault / "evil").mkdir()
    (vault / "evil/a.md").write_text("Compost.")
    done = index(vault, tmp_path, HF_ENDPOINT=address)
    assert done.returncode == 0, done.stderr
    assert requests == []
    resources = resources_of(vault, tmp_path)
    assert resources.reader(resources.domains()[1]).counts().notes == 1
    (problem,) = find_problems(resources, resources.queue())
    assert "evil" in problem
    assert "EVERINDEX_ALLOWED_MODELS" in problem


def test_a_model_that_the_settings_name_too_is_asked_for(vault, tmp_path, hub):
    address, requests = hub
    name_model(vault, "good-org/good-model")
    done = index(vault, tmp_path, HF_ENDPOINT=address, EVERINDEX_ALLOWED_MODELS="x/y, good-org/good-model")
    assert done.returncode == 1
    assert "good-org/good-model" in done.stderr
    assert any("good-org/good-model" in path for path, _ in requests)


@pytest.mark.parametrize("how", ["absolute", "relative", "like a hub's", "home"])
def test_a_folder_that_only_a_vault_names_is_no_model(vault, tmp_path, tiny_model, monkeypatch, how):
    (vault / "org").mkdir()
    (vault / "org/model").symlink_to(tiny_model)
    monkeypatch.chdir(vault)
    monkeypatch.setenv("HOME", str(vault))
    names = {
        "absolute": tiny_model,
        "relative": "./org/model",
        "like a hub's": "org/model",
        "home": "~/org/model",
    }
    name_model(vault, names[how])
    resources = resources_of(vault, tmp_path)
    resources.check_models()
    evil = resources.registry().get("evil")
    assert resources.model_of(evil).name == EMBEDDED_MODEL
    compare(resources)
    assert resources.cache(evil).meta.model == EMBEDDED_MODEL
    with pytest.raises(ModelNotAllowedError):
        resources.embedders.get("org/model")
    (said,) = resources.refused_models()
    assert said.startswith("evil: ")
    assert said in [problem.message for problem in resources.problems().reported()]


def test_a_dimension_that_is_not_the_models_is_refused_with_both(vault, tmp_path):
    (vault / "_domains.yaml").write_text("a:\n  legacy: true\n  embedding_dim: 1024\n")
    resources = resources_of(vault, tmp_path)
    (domain,) = resources.domains()
    with pytest.raises(
        ConfigurationError, match=r"a\.embedding_dim is 1024, but .*MiniLM.* has 384 dimensions"
    ):
        resources.cache(domain)


def test_a_folder_that_the_settings_name_too_is_a_model_and_the_problem_is_over(vault, tmp_path, tiny_model):
    name_model(vault, tiny_model)
    before = resources_of(vault, tmp_path)
    before.model_of(before.registry().get("evil"))
    assert before.problems().reported()
    resources = resources_of(vault, tmp_path, allowed_models=f"a/b, {tiny_model}")
    assert resources.model_of(resources.registry().get("evil")).folder == tiny_model
    assert resources.problems().reported() == []


def rerank_by(vault, model):
    (vault / "_domains.yaml").write_text(f"all:\n  legacy: true\n  rerank: {{model: '{model}'}}\n")


@pytest.mark.parametrize("named", ["all-MiniLM-L6-v2", EMBEDDED_MODEL, "multilingual-e5-small"])
def test_a_model_that_comes_with_everindex_may_be_a_second_one(vault, tmp_path, named):
    rerank_by(vault, named)
    resources = resources_of(vault, tmp_path)
    (domain,) = resources.domains()
    found = resources.second_model(domain)
    assert found.name.endswith(named)
    assert not found.is_cross_encoder
    assert resources.problems().reported() == []


def test_a_folder_is_a_second_model_only_if_the_settings_name_it(
    vault, tmp_path, tiny_model, tiny_cross_encoder
):
    for folder, reads_pairs in ((tiny_model, False), (tiny_cross_encoder, True)):
        rerank_by(vault, folder)
        refusing = resources_of(vault, tmp_path)
        (domain,) = refusing.domains()
        assert refusing.second_model(domain) is None
        (problem,) = refusing.problems().reported()
        assert "EVERINDEX_ALLOWED_MODELS" in problem.message
        allowing = resources_of(vault, tmp_path, allowed_models=f"a/b, {folder}")
        found = allowing.second_model(domain)
        assert (found.name, found.is_cross_encoder) == (str(folder), reads_pairs)
        assert allowing.problems().reported() == []


def test_the_name_for_no_model_is_no_second_one(vault, tmp_path):
    rerank_by(vault, "none")
    resources = resources_of(vault, tmp_path)
    assert resources.second_model(resources.domains()[0]) is None
    assert "leave `rerank` out" in resources.problems().reported()[0].message


def test_an_index_that_was_built_with_a_folder_outside_the_vault_goes_on_and_one_inside_does_not(
    vault, tmp_path, tiny_model
):
    name_model(vault, tiny_model)
    allowed = resources_of(vault, tmp_path, allowed_models=str(tiny_model))
    allowed.cache(allowed.registry().get("evil"))
    later = resources_of(vault, tmp_path)
    later.check_models()
    assert later.cache(later.registry().get("evil")).meta.model == str(tiny_model)
    assert later.embedders.get(str(tiny_model)).info.folder == tiny_model
    inside = vault / "model"
    subprocess.run(["cp", "-r", tiny_model, inside], check=True)
    with pytest.raises(ModelNotAllowedError):
        later.embedders.get(str(inside))


def test_a_model_of_a_hub_that_is_on_this_machine_already_is_used(vault, tmp_path, tiny_model, monkeypatch):
    from huggingface_hub import constants

    cached = tmp_path / "hub/models--org--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs/main").write_text("0" * 40)
    subprocess.run(["mkdir", "-p", cached / "snapshots"], check=True)
    subprocess.run(["cp", "-r", tiny_model, cached / f"snapshots/{'0' * 40}"], check=True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    name_model(vault, "org/tiny")
    resources = resources_of(vault, tmp_path)
    assert resources.model_of(resources.registry().get("evil")).dimension == 32
    assert resources.problems().reported() == []


def test_notes_are_split_alike_for_both_models_that_come_with_everindex(vault, tmp_path):
    def split(model):
        resources = resources_of(vault, tmp_path / (model or "default"), embedding_model=model)
        (domain,) = resources.domains()
        return resources.ingest(domain, resources.cache(domain)).chunking

    assert split(MULTILINGUAL_MODEL) == split(None)
