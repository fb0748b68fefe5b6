"""The problems that processes report and withdraw."""

import pytest

from pipelines.state.health import Problems
from pipelines.state.state import State

ON_BOTH_STORES = True


@pytest.fixture
def problems(place):
    State(place).close()
    opened = Problems(place)
    yield opened
    opened.close()


def test_a_problem_stays_until_it_is_withdrawn(problems):
    problems.report("model", "finance", "the model cannot be loaded")
    assert [(p.kind, p.subject, p.message) for p in problems.reported()] == [
        ("model", "finance", "the model cannot be loaded")
    ]
    problems.clear("model", "finance")
    assert problems.reported() == []


def test_a_problem_that_changes_its_words_keeps_the_time_at_which_it_began(problems):
    problems.report("model", "", "first")
    began = problems.reported()[0].since
    problems.report("model", "", "second")
    assert [(p.message, p.since) for p in problems.reported()] == [("second", began)]


@pytest.mark.of_sqlite
def test_the_same_report_twice_writes_once(problems, tmp_path):
    problems.report("model", "", "the same")
    before = (tmp_path / "state.db-wal").stat().st_mtime_ns
    problems.report("model", "", "the same")
    problems.clear("another", "")
    assert (tmp_path / "state.db-wal").stat().st_mtime_ns == before


def test_every_process_sees_what_another_one_reported(problems, place):
    problems.report("model", "", "reported there")
    other = Problems(place)
    assert [p.message for p in other.reported()] == ["reported there"]
    other.close()
