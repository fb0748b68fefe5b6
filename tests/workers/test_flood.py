"""A save is found soon however long the queue is: no step reads the whole queue, or waits for its turn."""

from __future__ import annotations

import os
from dataclasses import asdict

import pytest

from pipelines.indexing.reconcile import check_paths
from pipelines.model import SAVE_PRIORITY, DiffEvent
from queue_config.inspect import COUNTED, OTHERS, PEEKED, waiting, waiting_by_task
from workers.run import make_upkeep_tasks, sweep_upkeep
from workers.tasks import announce, hint, make_tasks, sweep

FLOOD = 1_500


@pytest.fixture
def tasks(resources, queue):
    return make_tasks(queue, resources)


def notice(resources, *paths):
    """What the watcher does with paths that settled, up to the ledger."""
    (domain,) = resources.domains()
    reports = check_paths(
        resources.root,
        resources.registry(),
        resources.caches(),
        paths,
        max_bytes=1_000_000,
    )
    return reports[domain.slug].events


def gone(slug: str, number: int) -> list[dict]:
    return [asdict(DiffEvent(slug, f"gone {number}.md", "deleted", "hash", None, 2))]


def flood(tasks, slug: str, kind: str) -> None:
    for number in range(FLOOD):
        match kind:
            case "index_notes":
                tasks.index_notes(slug, gone(slug, number))
            case "index_notes of a domain that went":
                tasks.index_notes("was here", gone("was here", number))
            case "drain":
                tasks.drain(slug)
            case "retry_parked":
                tasks.retry_parked("nothing.md")
            case "reconcile_vault":
                tasks.reconcile_vault(f"request {number}", False)  # noqa: FBT003 - a task's argument


KINDS = ["index_notes", "drain", "retry_parked", "reconcile_vault"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_job_finds_a_save_whatever_waits_before_it(resources, queue, tasks, kind):
    (domain,) = resources.domains()
    flood(tasks, domain.slug, kind)
    (resources.root / "saved.md").write_text("Compost for the tomato.")
    announce(queue, tasks, domain, resources.cache(domain), notice(resources, "saved.md"))
    queue.execute(queue.dequeue())
    counts = resources.cache(domain).counts()
    assert (counts.notes, counts.pending) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_of_a_long_queue_is_read_than_of_a_short_one(resources, queue, tasks, monkeypatch, kind):
    (domain,) = resources.domains()
    upkeep = make_upkeep_tasks(queue, resources)
    flood(tasks, domain.slug, kind)
    read = []
    deserialize = queue.serializer.deserialize
    monkeypatch.setattr(queue.serializer, "deserialize", lambda data: read.append(data) or deserialize(data))
    (resources.root / "saved.md").write_text("Compost for the tomato.")
    events = notice(resources, "saved.md")
    for step in (
        lambda: announce(queue, tasks, domain, resources.cache(domain), events),
        lambda: hint(queue, tasks, domain, resources.cache(domain)),
        lambda: sweep(queue, tasks, resources),
        lambda: sweep_upkeep(queue, upkeep, resources),
        lambda: queue.execute(queue.dequeue()),
    ):
        read.clear()
        step()
        assert len(read) <= 4 * PEEKED


def test_a_long_queue_is_counted_without_being_read(queue, tasks, monkeypatch):
    flood(tasks, "vault", "drain")
    tasks.index_notes("vault", gone("vault", 1))
    read = []
    deserialize = queue.serializer.deserialize
    monkeypatch.setattr(queue.serializer, "deserialize", lambda data: read.append(data) or deserialize(data))
    found = [(one.task, one.count) for one in waiting_by_task(queue, 0.0)]
    assert found == [("index_notes", 1), ("drain", COUNTED), (OTHERS, FLOOD - COUNTED)]
    assert len(read) == COUNTED + 1


def test_saves_that_no_worker_takes_up_do_not_lengthen_the_queue(resources, queue, tasks):
    (domain,) = resources.domains()
    for number in range(100):
        (resources.root / f"{number}.md").write_text("Compost for the tomato.")
        announce(queue, tasks, domain, resources.cache(domain), notice(resources, f"{number}.md"))
    assert [one.priority for one in waiting(queue)] == [SAVE_PRIORITY]
    while resources.cache(domain).counts().pending:
        queue.execute(queue.dequeue())
    assert resources.cache(domain).counts().notes == 100


def test_a_save_comes_before_older_pending_saves_and_deletions(resources, queue, tasks):
    (domain,) = resources.domains()
    cache = resources.cache(domain)
    for number in range(200):
        (resources.root / f"gone {number}.md").write_text(f"Bread {number}.")
    notice(resources, *(f"gone {number}.md" for number in range(200)))
    while cache.counts().pending:
        tasks.index_notes(domain.slug, [])
        queue.execute(queue.dequeue())
    for number in range(200):
        (resources.root / f"gone {number}.md").unlink()
        (resources.root / f"{number}.md").write_text(f"Compost {number}.")
    notice(
        resources, *(f"gone {number}.md" for number in range(200)), *(f"{number}.md" for number in range(200))
    )
    written, moved_here = resources.root / "written.md", resources.root / "moved here.md"
    written.write_text("Just written.")
    moved_here.write_text("Old, and moved here.")
    os.utime(moved_here, (1, 1))
    notice(resources, "written.md", "moved here.md")
    taken = {row.path for row in cache.leases.take("words", 8, "a worker", "saves")}
    assert {"written.md", "moved here.md"} <= taken
    assert not any(path.startswith("gone") for path in taken)


def test_a_save_of_a_domain_is_found_while_another_domains_jobs_wait(resources, queue, tasks):
    (resources.root / "_domains.yaml").write_text("soil: {path: Soil}\nbread: {path: Bread}\n")
    for folder in ("Soil", "Bread"):
        (resources.root / folder).mkdir()
    by_slug = {domain.slug: domain for domain in resources.domains()}
    for _ in range(PEEKED + 1):
        tasks.index_notes("soil", gone("soil", 1))
    (resources.root / "Bread" / "saved.md").write_text("Flour.")
    check_paths(
        resources.root, resources.registry(), resources.caches(), ["Bread/saved.md"], max_bytes=1_000_000
    )
    announce(queue, tasks, by_slug["bread"], resources.cache(by_slug["bread"]), [])
    queue.execute(queue.dequeue())
    assert resources.cache(by_slug["bread"]).counts().pending == 0
