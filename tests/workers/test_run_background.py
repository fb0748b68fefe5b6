"""What makes answers better follows by itself, once no indexing is pending."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipelines.errors import ModelUnavailableError
from pipelines.graph.ranking import rank_domain
from pipelines.model import LOW_PRIORITY, DateOrder, FoundFile
from queue_config.inspect import waiting
from tests.consumer import work
from workers.models import MANY_TEXTS
from workers.run import _load_second_models, make_upkeep_tasks, sweep_upkeep
from workers.tasks import load_models, make_tasks, reconcile_now


@pytest.fixture
def upkeep(resources, queue):
    return make_upkeep_tasks(queue, resources)


@pytest.fixture
def tasks(resources, queue):
    return make_tasks(queue, resources)


@pytest.fixture
def cache(resources, queue, tasks):
    """The cache of a vault with two notes, indexed whole."""
    (resources.root / "a.md").write_text("Compost for the tomato. [[b]]")
    (resources.root / "b.md").write_text("Bread wants flour.")
    reconcile_now(queue, tasks, resources)
    work(queue)
    load_models(queue, tasks, resources)
    work(queue)
    (domain,) = resources.domains()
    return resources.cache(domain)


def test_sentences_are_prepared_after_indexing(resources, queue, upkeep, cache):
    assert cache.passages.pending_sentences(1)
    sweep_upkeep(queue, upkeep, resources)
    sweep_upkeep(queue, upkeep, resources)
    assert [w.task for w in waiting(queue)].count("prepare_sentences") == 1
    work(queue)
    assert not cache.passages.pending_sentences(1)
    sweep_upkeep(queue, upkeep, resources)
    assert "prepare_sentences" not in [w.task for w in waiting(queue)]


@pytest.mark.usefixtures("cache")
def test_torch_is_asked_for_when_the_sentences_of_many_texts_wait(
    resources, queue, tasks, upkeep, monkeypatch
):
    """After a restart they may be all of the vault's, which numpy would compute for hours."""
    asked = []
    bulk = resources.embedders.bulk

    def watched(model, texts=lambda: 0):
        asked.append(texts())
        return bulk(model)

    for n in range(MANY_TEXTS):
        (resources.root / f"{n}.md").write_text(f"Letter number {n}.")
    reconcile_now(queue, tasks, resources)
    work(queue)
    monkeypatch.setattr(resources.embedders, "bulk", watched)
    upkeep.prepare_sentences("vault")
    queue.execute(queue.dequeue())
    assert asked == [MANY_TEXTS]


def test_passages_are_prepared_for_a_second_model_after_their_sentences(
    resources, queue, upkeep, tasks, cache
):
    (resources.root / "_domains.yaml").write_text(
        "vault: {legacy: true, rerank: {model: multilingual-e5-small}}"
    )
    sweep_upkeep(queue, upkeep, resources)
    assert len(cache.second.pending(9)) == 2
    work(queue)
    assert not cache.passages.pending_sentences(1)
    assert len(cache.second.pending(9)) == 2  # the model is loaded beside the tasks, not in one
    _load_second_models(resources)
    sweep_upkeep(queue, upkeep, resources)
    work(queue)
    assert not cache.second.pending(1)
    sweep_upkeep(queue, upkeep, resources)
    assert "prepare_sentences" not in [w.task for w in waiting(queue)]
    (resources.root / "c.md").write_text("Sleep and dream.")
    reconcile_now(queue, tasks, resources)
    work(queue)
    assert list(cache.second.pending(9).values()) == ["Sleep and dream."]
    (resources.root / "_domains.yaml").write_text("vault: {legacy: true}")
    sweep_upkeep(queue, upkeep, resources)
    assert not cache.second.pending(1)


def test_a_second_model_that_cannot_be_loaded_is_a_problem_and_holds_nothing_up(
    resources, queue, upkeep, cache, monkeypatch
):
    (resources.root / "_domains.yaml").write_text(
        "vault: {legacy: true, rerank: {model: multilingual-e5-small}}"
    )
    sweep_upkeep(queue, upkeep, resources)

    def fail(_):
        raise ModelUnavailableError("its weights are gone")

    with monkeypatch.context() as patched:
        patched.setattr(resources.embedders, "get", fail)
        _load_second_models(resources)
    (problem,) = resources.problems().reported()
    assert (problem.kind, problem.subject) == ("rerank", "vault")
    assert "its weights are gone" in problem.message
    work(queue)
    assert not cache.passages.pending_sentences(1)


def test_another_order_of_dates_is_taken_up_in_the_background(resources, queue, upkeep, cache):
    (resources.root / ".obsidian").mkdir()
    sweep_upkeep(queue, upkeep, resources)
    assert "date_notes" not in [w.task for w in waiting(queue)]
    (resources.root / ".obsidian" / "daily-notes.json").write_text('{"format": "DD-MM-YYYY", "folder": ""}')
    sweep_upkeep(queue, upkeep, resources)
    sweep_upkeep(queue, upkeep, resources)
    assert [w.task for w in waiting(queue)].count("date_notes") == 1
    work(queue)
    assert cache.dates.order() == DateOrder(daily="DD-MM-YYYY")
    sweep_upkeep(queue, upkeep, resources)
    assert "date_notes" not in [w.task for w in waiting(queue)]


def test_they_wait_for_pending_indexing(resources, queue, upkeep, cache):
    cache.ledger.record("vault", [(FoundFile("c.md", "c.md", 1, 1, 1), "hash")], [], priority=LOW_PRIORITY)
    sweep_upkeep(queue, upkeep, resources)
    assert "prepare_sentences" not in [w.task for w in waiting(queue)]


def test_a_paused_domain_prepares_nothing(resources, queue, upkeep, cache):
    resources.state().decisions.pause("vault", "now")
    sweep_upkeep(queue, upkeep, resources)
    assert "prepare_sentences" not in [w.task for w in waiting(queue)]
    upkeep.prepare_sentences("vault")  # enqueued before the pause
    work(queue)
    assert cache.passages.pending_sentences(1)


def test_anything_else_that_waits_comes_before_the_next_sentences(resources, queue, tasks, upkeep, cache):
    for n in range(20):
        (resources.root / f"{n}.md").write_text(f"Letter number {n}.")
    reconcile_now(queue, tasks, resources)
    work(queue)
    upkeep.prepare_sentences("vault")
    upkeep.recompute_graph("vault")
    assert queue.dequeue().name.endswith("recompute_graph")
    sentences = queue.dequeue()
    upkeep.recompute_graph("vault")  # it comes while the sentences are prepared
    queue.execute(sentences)
    assert cache.passages.pending_sentences(1)
    work(queue)
    assert not cache.passages.pending_sentences(1)


def test_a_graph_is_not_asked_for_again_while_it_is_computed(resources, queue, upkeep, cache, monkeypatch):
    monkeypatch.setattr("pipelines.cache.links._QUIET_SECONDS", 0.0)
    computing, go_on = threading.Event(), threading.Event()

    def compute(*given):
        computing.set()
        go_on.wait(60)
        return rank_domain(*given)

    monkeypatch.setattr("workers.run.rank_domain", compute)
    sweep_upkeep(queue, upkeep, resources)
    with ThreadPoolExecutor(1) as queue.aside:
        queue.execute(queue.dequeue())
        computing.wait(60)
        sweep_upkeep(queue, upkeep, resources)
        assert "recompute_graph" not in [w.task for w in waiting(queue)]
        assert cache.edges.ranks_behind()
        go_on.set()
    assert not cache.edges.ranks_behind()


def test_a_change_of_the_communities_method_recomputes_the_graph_and_indexes_nothing(
    resources, queue, upkeep, cache
):
    upkeep.recompute_graph("vault")
    work(queue)
    sweep_upkeep(queue, upkeep, resources)
    assert "recompute_graph" not in [w.task for w in waiting(queue)]
    before = cache.counts()
    (resources.root / "_domains.yaml").write_text("vault: {legacy: true, graph: {communities: leiden}}")
    sweep_upkeep(queue, upkeep, resources)
    assert [w.task for w in waiting(queue)].count("recompute_graph") == 1
    work(queue)
    assert cache.graph.ranked_by().settings == "links all leiden"
    assert cache.counts() == before


@pytest.mark.usefixtures("cache")
def test_a_method_that_is_not_installed_is_a_problem_until_the_domain_asks_for_the_other(
    resources, queue, upkeep, monkeypatch
):
    monkeypatch.setitem(sys.modules, "graspologic_native", None)
    asked = resources.root / "_domains.yaml"
    asked.write_text("vault: {legacy: true, graph: {communities: leiden}}")
    upkeep.recompute_graph("vault")
    work(queue)
    (problem,) = resources.problems().reported()
    assert (problem.kind, problem.subject) == ("communities", "vault")
    assert "everindex[leiden]" in problem.message
    sweep_upkeep(queue, upkeep, resources)
    assert "recompute_graph" not in [w.task for w in waiting(queue)]
    asked.write_text("vault: {legacy: true, graph: {communities: louvain}}")
    sweep_upkeep(queue, upkeep, resources)
    work(queue)
    assert resources.problems().reported() == []


def test_a_method_that_fails_is_a_problem_until_it_works_and_is_not_tried_without_end(
    resources, queue, upkeep, cache, monkeypatch
):
    monkeypatch.setattr("pipelines.graph.louvain._FEW_PAIRS", 0)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/bin/false")
        upkeep.recompute_graph("vault")
        work(queue)
    (problem,) = resources.problems().reported()
    assert (problem.kind, problem.subject) == ("communities", "vault")
    assert cache.graph.read_labels()
    sweep_upkeep(queue, upkeep, resources)
    assert "recompute_graph" not in [w.task for w in waiting(queue)]
    monkeypatch.setattr("workers.run._AGAIN_SECONDS", 0.0)
    sweep_upkeep(queue, upkeep, resources)
    work(queue)
    assert resources.problems().reported() == []
