"""What is owed gets one hint, however much it is; whatever happens to the queue."""

from __future__ import annotations

from pipelines.model import LOW_PRIORITY, FoundFile
from tests.consumer import work
from workers.tasks import load_models, make_tasks, reconcile_now, sweep


def owe(resources, count: int) -> None:
    (domain,) = resources.domains()
    seen = [(FoundFile(f"{n}.md", f"{n}.md", 1, 1, n), "hash") for n in range(count)]
    resources.cache(domain).ledger.record(domain.slug, seen, [], priority=LOW_PRIORITY)


def test_the_queue_does_not_grow_with_what_is_owed(resources, queue):
    tasks = make_tasks(queue, resources)
    owe(resources, 10_000)
    for _ in range(50):
        sweep(queue, tasks, resources)
    assert queue.pending_count() == 1


def test_a_wiped_queue_gets_its_hint_again(resources, queue):
    tasks = make_tasks(queue, resources)
    owe(resources, 1)
    sweep(queue, tasks, resources)
    queue.flush()
    assert queue.pending_count() == 0
    sweep(queue, tasks, resources)
    assert queue.pending_count() == 1


def test_nothing_owed_is_nothing_queued(resources, queue):
    sweep(queue, make_tasks(queue, resources), resources)
    assert queue.pending_count() == 0


def test_words_do_not_wait_for_the_model_and_vectors_follow_when_it_is_there(resources, queue):
    tasks = make_tasks(queue, resources)
    (resources.root / "a.md").write_text("Compost for the tomato.")
    reconcile_now(queue, tasks, resources)
    work(queue)
    (domain,) = resources.domains()
    counts = resources.cache(domain).counts()
    assert (counts.pending, counts.vectors_pending) == (0, 1)
    assert not resources.has_loaded(resources.cache(domain).meta.model)
    load_models(queue, tasks, resources)
    work(queue)
    assert resources.cache(domain).counts().vectors_pending == 0


def test_what_cannot_be_worked_on_yet_is_not_hinted_at_without_a_pause(resources, queue):
    tasks = make_tasks(queue, resources)
    (resources.root / "a.md").write_text("Compost for the tomato.")
    reconcile_now(queue, tasks, resources)
    work(queue)
    sweep(queue, tasks, resources)
    assert queue.pending_count() == 1
    work(queue)
    assert queue.pending_count() == 0
