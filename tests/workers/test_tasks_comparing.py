"""A comparison is recorded in one shape and releases the deletions it should, whichever process asks for it."""

from __future__ import annotations

import pytest

from pipelines.indexing.reconcile import last_comparison
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from service.usecases.status import find_problems
from workers.resources import Resources
from workers.tasks import compare, make_tasks, reconcile_now

DOMAINS = "took_ms:\n  path: took_ms\n"


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    for n in range(30):
        (vault / f"{n}.md").write_text(f"Note {n} on compost.")
    return Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))


def lose(resources, count):
    for n in range(count):
        (resources.root / f"{n}.md").unlink()


def problems(resources):
    return find_problems(resources, resources.queue())


def by_a_task(resources, *, confirmed=False):
    queue = resources.queue()
    reconcile_now(queue, make_tasks(queue, resources), resources, confirmed=confirmed)


def by_a_command(resources, *, confirmed=False):
    index_once(resources, lambda *_: None, confirmed=confirmed)


@pytest.mark.parametrize("compare_once", [by_a_task, by_a_command])
def test_confirmed_deletions_are_held_no_more(resources, compare_once):
    compare_once(resources)
    lose(resources, 25)
    compare_once(resources)
    assert any("25 notes vanished at once" in problem for problem in problems(resources))
    compare_once(resources, confirmed=True)
    assert problems(resources) == []
    (cache,) = resources.caches().values()
    assert cache.ledger.known() == 5


@pytest.mark.parametrize("compare_once", [by_a_task, by_a_command])
def test_notes_that_came_back_are_held_no_more(resources, compare_once):
    compare_once(resources)
    lose(resources, 25)
    compare_once(resources)
    for n in range(25):
        (resources.root / f"{n}.md").write_text(f"Note {n} on compost.")
    compare_once(resources)
    assert problems(resources) == []


@pytest.mark.parametrize("compare_once", [by_a_task, by_a_command])
def test_a_domain_may_have_the_name_of_the_time_that_a_comparison_takes(vault, resources, compare_once):
    (vault / "took_ms").mkdir()
    (vault / "took_ms" / "a.md").write_text("Compost for the tomato.")
    (vault / "_domains.yaml").write_text(DOMAINS)
    compare_once(resources)
    compared = last_comparison(resources.state())
    assert compared.found["took_ms"]["new"] == 1
    assert isinstance(compared.took_ms, int)


def test_a_comparison_is_as_old_as_it_is(resources):
    assert last_comparison(resources.state()) is None
    compare(resources)
    compared = last_comparison(resources.state())
    assert compared.age_s < 60
    assert set(compared.found) == {domain.slug for domain in resources.domains()}


@pytest.mark.parametrize("compare_once", [by_a_task, by_a_command])
def test_rules_that_do_not_count_are_a_problem_until_they_are_mended(resources, compare_once):
    rule_file = resources.root / ".gitignore"
    rule_file.write_text("*x" * 20_000)
    for n in range(7):
        (resources.root / f"in{n}").mkdir()
        (resources.root / f"in{n}/.gitignore").symlink_to("/etc/passwd")
    compare_once(resources)
    (problem,) = problems(resources)
    assert "the rules of '.gitignore' are not applied from line 1 on" in problem
    assert "and 3 more like these" in problem
    rule_file.write_text("*x")
    for n in range(7):
        (resources.root / f"in{n}/.gitignore").unlink()
    compare_once(resources)
    assert problems(resources) == []
