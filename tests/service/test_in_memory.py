"""Answers from memory are the answers from the file."""

from __future__ import annotations

from threading import Thread

import pytest

from pipelines import lexical
from pipelines.ingest import embed_owed, index_words
from pipelines.reconcile import reconcile
from pipelines.store import postings
from pipelines.store.connection import snapshot
from pipelines.store.search import matching
from queue_config.settings import Settings
from service.in_memory import InMemory
from service.questions import Questions
from workers.resources import Resources

NOTES = {
    "Garden.md": "# Garden\n\nCompost for the tomato beds.\n\n## Winter\n\nThe garden sleeps [[Bread]].",
    "Bread.md": "# Bread\n\nFlour, yeast, and a hot oven.",
    "River.md": "# River\n\nA boat with a sail on the river.",
}
QUESTIONS = ["garden", "compost tomato", '"hot oven"', "river -boat", "bread in winter"]


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    return Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))


def index(resources, notes):
    for path, text in notes.items():
        (resources.root / path).write_text(text, encoding="utf-8")
    caches = resources.caches()
    reconcile(resources.root, resources.registry(), caches, max_bytes=10**6)
    (domain,) = resources.domains()
    for stage in (index_words, embed_owed):
        stage(caches[domain.slug], resources.ingest(domain, caches[domain.slug]))
    return caches[domain.slug]


def answers(questions):
    found = {q: questions.search(q, 10, explain=True).results for q in QUESTIONS}
    return {q: [(hit.path, pytest.approx(hit.score, rel=1e-4)) for hit in hits] for q, hits in found.items()}


def test_a_question_has_the_same_answers_from_memory_as_from_the_file(resources, monkeypatch):
    monkeypatch.setattr("service.in_memory._FEWEST", 1)
    cache = index(resources, NOTES)
    questions = Questions(resources, wait_for_model=True)
    before = answers(questions)
    assert questions._in_memory.words(cache) is questions._in_memory.codes(cache) is None
    questions.follow_commits()
    assert len(questions._in_memory.words(cache)) == len(questions._in_memory.codes(cache)) == 4
    assert answers(questions) == before
    index(resources, {"Walrus.md": "# Walrus\n\nA walrus in the garden."})
    assert questions.search("walrus", 1).results[0].path == "Walrus.md"


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_note_that_comes_while_a_question_is_asked_is_found_by_the_next(resources, monkeypatch, at):
    monkeypatch.setattr("service.in_memory._FEWEST", 1)
    index(resources, NOTES)
    questions = Questions(resources, wait_for_model=True)
    questions.load_models()
    questions.follow_commits()
    newest, calls = postings.newest_chunk, []

    def interrupted(cache):
        calls.append(1)
        if len(calls) == at:
            worker = Thread(
                target=index, args=(Resources(resources.settings), {"Later.md": "# Later\n\nA garden."})
            )
            worker.start()
            worker.join()
        return newest(cache)

    monkeypatch.setattr("pipelines.retrieval.postings.store.newest_chunk", interrupted)
    for _ in range(3):
        questions.search("garden", 10)
    assert len(calls) >= at
    (domain,) = resources.domains()
    cache = resources.reader(domain)
    with snapshot(cache.con):
        found = questions._in_memory.words(cache).scores(cache, lexical.wanted("garden")).best(10)
    expected = matching(cache, lexical.wanted("garden").expression(), 10)
    assert found == [(chunk, pytest.approx(score)) for chunk, score in expected]
    assert len(expected) == 3


def test_few_chunks_are_read_from_the_file(resources):
    cache = index(resources, NOTES)
    memory = InMemory()
    memory.follow([cache])
    assert memory.words(cache) is memory.codes(cache) is None


def test_what_no_longer_serves_is_let_go(resources, monkeypatch):
    monkeypatch.setattr("service.in_memory._FEWEST", 1)
    cache = index(resources, NOTES)
    memory = InMemory()
    memory.follow([cache])
    assert memory.words(cache) is not None
    memory.follow([])
    assert memory.words(cache) is memory.codes(cache) is None


def test_a_machine_that_cannot_multiply_bytes_still_has_words_in_memory(resources, monkeypatch):
    monkeypatch.setattr("service.in_memory._FEWEST", 1)
    monkeypatch.setattr("pipelines.retrieval.codes.VectorCodes.is_right", lambda _: False)
    cache = index(resources, NOTES)
    memory = InMemory()
    memory.follow([cache])
    assert memory.codes(cache) is None
    assert memory.words(cache) is not None
