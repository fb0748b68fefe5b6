"""Pending work gets one hint, however much it is; models are loaded, and notes rehashed, besides the jobs."""

from __future__ import annotations

import os

from pipelines.model import LOW_PRIORITY, FoundFile
from pipelines.state.state import REHASHED
from tests.consumer import work
from workers.tasks import load_models, make_tasks, reconcile_now, rehash_share, sweep

DAY = 24 * 3600.0


def make_pending(resources, count: int) -> None:
    (domain,) = resources.domains()
    seen = [(FoundFile(f"{n}.md", f"{n}.md", 1, 1, n), "hash") for n in range(count)]
    resources.cache(domain).ledger.record(domain.slug, seen, [], priority=LOW_PRIORITY)


def test_the_queue_does_not_grow_with_pending_work(resources, queue):
    tasks = make_tasks(queue, resources)
    make_pending(resources, 10_000)
    for _ in range(50):
        sweep(queue, tasks, resources)
    assert queue.pending_count() == 1


def test_a_wiped_queue_gets_its_hint_again(resources, queue):
    tasks = make_tasks(queue, resources)
    make_pending(resources, 1)
    sweep(queue, tasks, resources)
    queue.flush()
    assert queue.pending_count() == 0
    sweep(queue, tasks, resources)
    assert queue.pending_count() == 1


def test_without_pending_work_nothing_is_queued(resources, queue):
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
    assert not resources.embedders.has_loaded(resources.cache(domain).meta.model)
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


def test_a_vault_that_is_not_there_is_left_alone(resources, queue):
    tasks = make_tasks(queue, resources)
    make_pending(resources, 1)
    resources.root.rename(resources.root.with_name("away"))
    sweep(queue, tasks, resources)
    assert queue.pending_count() == 0
    resources.root.with_name("away").rename(resources.root)
    sweep(queue, tasks, resources)
    assert queue.pending_count() == 1


def edit_behind_the_clock(file):
    """Change a note so that only its content shows it: size and times stay."""
    before = file.stat()
    file.write_text(file.read_text().swapcase())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_change_that_only_the_content_shows_is_found_within_a_day(resources, queue):
    tasks = make_tasks(queue, resources)
    names = [f"{n}.md" for n in range(4)]
    for name in names:
        (resources.root / name).write_text(f"Note {name} on compost.")
    reconcile_now(queue, tasks, resources)
    work(queue)
    (domain,) = resources.domains()
    edit_behind_the_clock(resources.root / names[-1])
    reconcile_now(queue, tasks, resources)
    found = []
    for _ in range(2):
        rehash_share(queue, tasks, resources, DAY / 2)
        found.append(resources.cache(domain).ledger.pending()[0])
    assert found == [0, 1]
    assert queue.pending_count() == 1


def test_the_share_goes_on_where_the_last_one_ended(resources, queue):
    tasks = make_tasks(queue, resources)
    make_pending(resources, 4)
    for n in range(4):
        (resources.root / f"{n}.md").write_text("Compost.")
    cursors = []
    for _ in range(3):
        rehash_share(queue, tasks, resources, DAY / 4)
        cursors.append(resources.state().get(REHASHED, "vault").value)
    assert cursors == ["0.md", "1.md", "2.md"]
