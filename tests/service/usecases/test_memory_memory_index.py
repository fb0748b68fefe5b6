"""Answers from memory are the answers from the file."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.search import SqliteSearch
from pipelines.errors import CacheCorruptError
from pipelines.indexing.ingest import embed_pending, index_words
from pipelines.indexing.reconcile import reconcile
from pipelines.question import read_question
from pipelines.search.bm25 import WordPostings
from queue_config.settings import Settings
from service.runtime.lock import only_one
from service.usecases.maintenance import describe, verify_caches
from service.usecases.memory import InMemory, memory_counts
from service.usecases.search import View
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
    cache = caches[domain.slug]
    while cache.counts().pending:  # a slice ends after a time, which a slow machine needs for one note
        index_words(cache, resources.ingest(domain, cache))
    while cache.counts().vectors_pending:
        embed_pending(cache, resources.ingest(domain, cache))
    return cache


def answers(questions):
    found = {q: questions.search(read_question(q), 10, explain=True).results for q in QUESTIONS}
    return {q: [(hit.path, pytest.approx(hit.score, rel=1e-4)) for hit in hits] for q, hits in found.items()}


def test_a_question_has_the_same_answers_from_memory_as_from_the_file(resources, monkeypatch):
    monkeypatch.setattr("service.usecases.memory._FEWEST", 1)
    cache = index(resources, NOTES)
    questions = View(resources, wait_for_model=True)
    before = answers(questions)
    assert questions.memory.words(cache) is questions.memory.quantized(cache) is None
    questions.follow_commits()
    assert len(questions.memory.words(cache)) == len(questions.memory.quantized(cache)) == 4
    assert answers(questions) == before
    index(resources, {"Walrus.md": "# Walrus\n\nA walrus in the garden."})
    assert questions.search(read_question("walrus"), 1).results[0].path == "Walrus.md"


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_note_that_comes_while_a_question_is_asked_is_found_by_the_next(resources, monkeypatch, at):
    monkeypatch.setattr("service.usecases.memory._FEWEST", 1)
    index(resources, NOTES)
    questions = View(resources, wait_for_model=True)
    questions.load_models()
    questions.follow_commits()
    newest, calls = SqliteSearch.newest_chunk, []

    def interrupted(self):
        calls.append(1)
        if len(calls) == at:
            worker = Thread(
                target=index, args=(Resources(resources.settings), {"Later.md": "# Later\n\nA garden."})
            )
            worker.start()
            worker.join()
        return newest(self)

    monkeypatch.setattr(SqliteSearch, "newest_chunk", interrupted)
    for _ in range(3):
        questions.search(read_question("garden"), 10)
    assert len(calls) >= at
    (domain,) = resources.domains()
    cache = resources.reader(domain)
    with cache.snapshot():
        found = questions.memory.words(cache).look_up(cache, read_question("garden").wanted).scores().best(10)
    expected = cache.search.matching(read_question("garden").wanted, 10)
    assert found == [(chunk, pytest.approx(score)) for chunk, score in expected]
    assert len(expected) == 3


def test_few_vectors_are_read_from_the_file(resources):
    cache = index(resources, NOTES)
    memory = InMemory()
    memory.follow([cache])
    assert memory.quantized(cache) is None
    assert len(memory.words(cache)) == 4


def test_vectors_beyond_the_memory_for_them_are_read_from_the_file(resources, monkeypatch):
    monkeypatch.setattr("service.usecases.memory._FEWEST", 1)
    index(resources, NOTES)
    (domain,) = resources.domains()
    cache = resources.reader(domain)
    size = cache.search.count_vectors() * cache.meta.dimension
    memory = InMemory(most_bytes=size)
    memory.follow([cache])
    assert len(memory.quantized(cache)) == 4
    index(resources, {"Walrus.md": "# Walrus\n\nA walrus in the garden."})
    memory.follow([cache])
    assert memory.quantized(cache) is None
    assert len(memory.words(cache)) == 5
    # It has to fit with room to spare before all are read into memory again.
    for path, is_held in (("Walrus.md", False), ("River.md", True)):
        (resources.root / path).unlink()
        index(resources, {})
        memory.follow([cache])
        assert (memory.quantized(cache) is not None) == is_held


def test_what_no_longer_serves_is_let_go(resources, monkeypatch):
    monkeypatch.setattr("service.usecases.memory._FEWEST", 1)
    cache = index(resources, NOTES)
    memory = InMemory()
    memory.follow([cache])
    assert memory.words(cache) is not None
    memory.follow([])
    assert memory.words(cache) is memory.quantized(cache) is None


def test_a_machine_that_cannot_multiply_bytes_still_has_words_in_memory(resources, monkeypatch):
    monkeypatch.setattr("service.usecases.memory._FEWEST", 1)
    monkeypatch.setattr("pipelines.search.vectors.QuantizedVectors.is_right", lambda _: False)
    cache = index(resources, NOTES)
    memory = InMemory()
    memory.follow([cache])
    assert memory.quantized(cache) is None
    assert memory.words(cache) is not None


# What is held is compared with the cache


def damage_words(memory, cache):
    words = memory._words[cache.path]
    garden = words._postings["garden"]
    words._postings["garden"] = replace(garden, rows=garden.rows[:-1], counts=garden.counts[:-1])


def damage_vectors(memory, cache):
    quantized = memory._quantized[cache.path]
    quantized._table.quantized[next(iter(quantized._rows.values()))] = 0


@pytest.fixture
def checked(resources, monkeypatch):
    """Questions over three notes from memory, and their cache."""
    monkeypatch.setattr("service.usecases.memory._FEWEST", 1)
    index(resources, NOTES)
    questions = View(resources, wait_for_model=True)
    answers(questions)
    questions.follow_commits()
    answers(questions)
    (domain,) = resources.domains()
    return questions, resources.reader(domain)


def counts(resources):
    return memory_counts(resources.state())["vault"]


@pytest.mark.parametrize("damage", [damage_words, damage_vectors])
def test_what_differs_in_memory_is_counted_reported_and_read_again(resources, checked, damage):
    questions, cache = checked
    before = answers(questions)
    questions.check_memory()
    assert (counts(resources).checked > 0, counts(resources).differing) == (True, 0)
    damage(questions.memory, cache)
    questions.check_memory()
    assert counts(resources).differing == 1
    (problem,) = resources.problems().reported()
    assert problem.subject == "vault"
    assert "were reloaded" in problem.message
    assert questions.health(resources.queue()).status == "degraded"
    assert questions.memory.words(cache) is questions.memory.quantized(cache) is None
    questions.follow_commits()
    assert answers(questions) == before
    questions.check_memory()
    assert counts(resources).differing == 1
    assert resources.problems().reported() == []


def test_all_that_is_held_is_compared_part_by_part(monkeypatch, checked):
    questions, cache = checked
    monkeypatch.setattr("service.usecases.memory._CHUNKS_AT_ONCE", 1)
    ends = [questions.memory.compare(cache)[1] for _ in range(8)]
    assert ends == [False, False, False, True] * 2
    damage_words(questions.memory, cache)
    found = [questions.memory.compare(cache)[0].differing for _ in range(4)]
    assert sum(found) == 1


def test_counts_go_on_where_a_query_worker_before_left_them(resources, checked):
    questions, _ = checked
    questions.check_memory()
    before = counts(resources).checked
    later = View(resources, wait_for_model=True)
    later.load_models()
    later.follow_commits()
    later.check_memory()
    assert counts(resources).checked > before


def test_another_file_of_the_same_name_is_read_from_its_beginning(checked):
    questions, cache = checked
    questions.memory.follow([cache])
    other = SqliteCache.open(cache.path)
    words = questions.memory.words(cache)
    questions.memory.follow([other])
    assert questions.memory.words(other) is not words
    other.close()


def test_a_cache_that_cannot_be_read_keeps_no_other_from_being_followed(checked, monkeypatch):
    _, cache = checked
    broken = SqliteCache.open(cache.path)
    broken.path = cache.path.with_name("cache-broken.1.db")
    follow, memory = WordPostings.follow, InMemory()

    def fails_for_one(words, followed):
        if followed is broken:
            raise CacheCorruptError("it is damaged")
        return follow(words, followed)

    monkeypatch.setattr(WordPostings, "follow", fails_for_one)
    with pytest.raises(CacheCorruptError):
        memory.follow([broken, cache])
    assert memory.words(cache) is not None
    assert memory.words(broken) is memory.quantized(broken) is None
    broken.close()


def test_verify_says_what_a_running_service_compared(resources, checked):
    questions, cache = checked
    damage_words(questions.memory, cache)
    questions.check_memory()
    with only_one(resources.place.state):
        lines = describe(verify_caches(resources))
    assert f"{counts(resources).checked} lists held in memory" in lines[-1]
    assert lines[-1].endswith("1 differed")
    assert "memory" not in describe(verify_caches(resources))[-1]
