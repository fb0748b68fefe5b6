"""Real servers embed a vault: what they answer is indexed, found by meaning, and held to one model."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

from pipelines.errors import ModelUnavailableError
from pipelines.filters import Filters
from pipelines.question import read_question
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.servers import llama, nano, needs_llama
from workers.resources import Resources

pytestmark = pytest.mark.slow

NOTES = {
    "Garten.md": "Im Sommer brauchen die Tomaten jeden Abend Wasser.",
    "Boot.md": "Das Segelschiff liegt im Hafen und wartet auf Wind.",
    "Zins.md": "Die Bank verlangt für den Kredit vier Prozent im Jahr.",
    "Brot.md": "Der Teig ruht über Nacht und wird am Morgen gebacken.",
    "Schlaf.md": "Wer nachts wach liegt, sollte abends keinen Kaffee trinken.",
}
QUESTIONS = {
    "watering vegetables in hot weather": "Garten.md",
    "interest on a loan": "Zins.md",
    "I cannot fall asleep": "Schlaf.md",
}


@pytest.fixture(autouse=True)
def times(monkeypatch):
    """A machine that is busy with other tests is slower than the limits allow for."""
    monkeypatch.setattr("pipelines.embedding.remote.RETRY_SECONDS", (0.5, 0.5))
    monkeypatch.setattr("pipelines.embedding.remote.DOCUMENT_SECONDS", 200.0)
    monkeypatch.setattr("pipelines.embedding.remote._PROBE_SECONDS", 100.0)
    monkeypatch.setattr("pipelines.embedding.remote.QUESTION_SECONDS", 60.0)


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def world(vault, tmp_path, stack):
    """Return a function that opens the vault with a chain of servers."""

    def make(*served):
        for path, text in NOTES.items():
            (vault / path).write_text(text)
        endpoints = [
            {"name": f"e{n}", "url": one.url, "model": "any", "serves": "model"}
            for n, one in enumerate(served)
        ]
        made = Resources(
            Settings(vault=vault, state=tmp_path / "state", embedding_model="model", endpoints=endpoints)
        )
        stack.callback(made.embedders.close)
        return made

    return make


def vectors(resources):
    """Return the vector of each note's text."""
    (domain,) = resources.domains()
    cache = resources.reader(domain)
    rows = cache.con.execute("SELECT path, text_hash FROM vault_chunk ORDER BY path").fetchall()
    found = cache.vectors.of([text_hash for _, text_hash in rows])
    return {path: found.get(text_hash) for path, text_hash in rows}


def nearest(resources, question):
    view = View(resources, wait_for_model=True)
    return view.search(read_question(question, Filters()), 5)


def test_a_server_of_openais_shape_embeds_and_questions_find_by_meaning_across_languages(
    world, stack, tmp_path
):
    resources = world(stack.enter_context(nano(tmp_path)))
    index_once(resources, lambda *_: None)
    assert all(vector is not None for vector in vectors(resources).values())
    for question, path in QUESTIONS.items():
        found = nearest(resources, question)
        assert found.results[0].path == path, question
        assert found.results[0].similarity


def test_another_model_of_the_same_dimension_embeds_nothing(world, stack, tmp_path):
    right = stack.enter_context(nano(tmp_path))
    first = world(right)
    index_once(first, lambda *_: None)
    before = vectors(first)
    (first.root / "Neu.md").write_text("Der Bus fährt alle zehn Minuten.")
    both = world(stack.enter_context(nano(tmp_path, "enpt")), right)
    index_once(both, lambda *_: None)
    after = vectors(both)
    assert after.keys() == before.keys() | {"Neu.md"}
    assert all(vector is not None for vector in after.values())
    assert all(np.array_equal(after[path], before[path]) for path in before)
    said = {one.subject: one.message for one in both.problems().reported() if one.kind == "endpoint"}
    assert said.keys() == {"e0"}
    assert "it serves another model" in said["e0"]


def test_a_server_that_is_killed_in_the_middle_of_an_index_is_replaced(world, stack, tmp_path):
    dying, other = (stack.enter_context(nano(tmp_path)) for _ in range(2))
    resources = world(dying, other)
    (resources.root / "Boot.md").unlink()
    index_once(resources, lambda *_: None)
    dying.process.kill()
    dying.process.wait()
    (resources.root / "Boot.md").write_text(NOTES["Boot.md"])
    index_once(resources, lambda *_: None)
    assert vectors(resources).keys() == NOTES.keys()
    assert all(vector is not None for vector in vectors(resources).values())
    assert nearest(resources, "interest on a loan").results[0].path == "Zins.md"
    other.process.kill()
    other.process.wait()
    assert nearest(resources, "Segelschiff").results[0].path == "Boot.md"


@needs_llama
def test_llama_cpp_embeds(world, stack, tmp_path):
    resources = world(stack.enter_context(llama(tmp_path)))
    index_once(resources, lambda *_: None)
    found = vectors(resources)
    assert {len(vector) for vector in found.values()} == {640}
    lengths = [float(np.linalg.norm(vector)) for vector in found.values()]
    assert lengths == pytest.approx([1.0] * len(NOTES), abs=1e-5)
    answer = nearest(resources, "Segelschiff")
    assert answer.results[0].path == "Boot.md"
    assert answer.results[0].similarity


@needs_llama
def test_a_server_without_pooling_is_told_from_one_that_embeds(world, stack, tmp_path):
    resources = world(stack.enter_context(llama(tmp_path, "none")))
    with pytest.raises(ModelUnavailableError, match=r"a vector per token; start it with pooling"):
        index_once(resources, lambda *_: None)
