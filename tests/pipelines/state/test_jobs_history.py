"""What a worker did can be looked up for a while, and counted for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.errors import StorageUnavailableError
from pipelines.state.jobs import PATHS_KEPT, History, JobFilter, Result, saved_of
from pipelines.state.state import State

ON_BOTH_STORES = True

NOON = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


class Clock:
    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def history(place, clock):
    State(place).close()
    opened = History(place, clock)
    yield opened
    opened.close()


def begin(history, *paths, task="index_notes", domain="vault", worker="here:1/5"):
    return history.start("id", task, domain, worker=worker, paths=paths, waited_ms=12.34)


def done(history, *paths, state="done", **fields):
    number = begin(history, *paths, **{k: fields.pop(k) for k in ("task", "domain") if k in fields})
    history.finish(number, Result(state=state, ran_ms=fields.pop("ran_ms", 5.0), **fields))
    return number


def shown(text):
    """Return a text as the history shows it: control characters that a row cannot contain become symbols."""
    return text.replace("\0", "␀").replace("\x1f", "␟")


def ids(jobs):
    return [job.id for job in jobs]


# One job


def test_a_job_that_runs_is_seen_and_says_what_it_does(history):
    number = begin(history, "a.md")
    (job,) = history.running()
    assert job == history.get(number)
    assert (job.task, job.domain, job.path, job.paths, job.notes) == (
        "index_notes",
        "vault",
        "a.md",
        ("a.md",),
        1,
    )
    assert (job.state, job.waited_ms, job.started_at) == ("running", 12.3, "2026-05-04T12:00:00.000+00:00")
    assert (job.finished_at, job.ran_ms, job.error, job.log) == (None, None, None, ())


def test_a_job_that_ended_says_what_came_of_it(history, clock):
    number = begin(history, "a.md")
    clock.now += timedelta(seconds=2)
    history.finish(
        number,
        Result(
            state="failed",
            ran_ms=2000.04,
            attempt=2,
            error="no",
            log=["one", "two"],
            saved_ms={"vault": [900.04]},
        ),
    )
    job = history.get(number)
    assert history.running() == []
    assert (job.state, job.ran_ms, job.attempt, job.error, job.log) == (
        "failed",
        2000.0,
        2,
        "no",
        ("one", "two"),
    )
    assert job.saved_ms == (900.0,)
    assert job.finished_at == "2026-05-04T12:00:02.000+00:00"


def test_a_job_about_many_notes_names_the_first_and_counts_all(history):
    paths = [f"{n}.md" for n in range(64)]
    job = history.get(begin(history, *paths))
    assert (job.path, job.paths, job.notes) == (None, tuple(paths[:PATHS_KEPT]), 64)


def test_an_unknown_job_is_none(history):
    assert history.get(1) is None


@given(text=TEXT, line=TEXT)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_kept_and_found_again(history, text, line):
    number = done(history, f"{text}x.md", state="failed", error=f"!{text}%", log=[line])
    job = history.get(number)
    assert job.path == f"{shown(text)}x.md"
    assert job.log == (shown(line),)
    assert number in ids(history.page(JobFilter(path=f"{text}x.md"), limit=1))
    assert number in ids(history.page(JobFilter(error=f"!{text}%"), limit=1))


def test_bytes_that_are_no_text_in_an_error_are_replaced(history):
    job = history.get(done(history, "a.md", state="failed", error="bad \udcff", log=["\udcff"]))
    assert (job.error, job.log) == ("bad ?", ("?",))


# Jobs whose end was not recorded


def test_a_running_job_of_a_dead_worker_is_lost_and_that_of_a_living_one_runs_on(history):
    dead, living = begin(history, worker="dead"), begin(history, worker="living")
    assert history.lose(lambda worker: worker == "living") == 1
    assert (history.get(dead).state, history.get(living).state) == ("lost", "running")
    assert history.get(dead).error
    assert history.counts() == {("index_notes", "lost"): 1}
    assert history.lose(lambda worker: worker == "living") == 0


def test_a_job_that_ends_after_it_was_believed_lost_says_how(history):
    number = begin(history, "a.md")
    history.lose(lambda _: False)
    history.finish(number, Result(state="done", ran_ms=1))
    assert (history.get(number).state, history.get(number).error) == ("done", None)


def test_an_end_is_written_once(history):
    number = done(history, "a.md", state="failed", error="no")
    history.finish(number, Result(state="done", ran_ms=1))
    assert history.get(number).state == "failed"
    assert history.counts() == {("index_notes", "failed"): 1}


# Pages


@given(
    jobs=st.lists(
        st.tuples(
            st.sampled_from(["drain", "index_notes"]),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["done", "failed"]),
            st.sampled_from(["Soil.md", "so_l.md", "x%y.md", 'quo"te.md', "Ümlaut.md"]),
        ),
        max_size=12,
    ),
    wanted=st.builds(
        JobFilter,
        task=st.none() | st.sampled_from(["drain", "index_notes"]),
        domain=st.none() | st.sampled_from(["a", "b"]),
        state=st.none() | st.sampled_from(["done", "failed"]),
        path=st.none() | st.sampled_from(["o_l", "%", '"', "soil", "Ü", "\\", "["]),
        error=st.none() | st.sampled_from(["_", "FAILED"]),
    ),
    limit=st.integers(1, 5),
)
@settings(max_examples=60)
def test_pages_put_together_are_the_jobs_of_the_filter_newest_first(tmp_path_factory, jobs, wanted, limit):
    folder = tmp_path_factory.mktemp("state")
    State(folder).close()
    history = History(folder)
    expected = []
    for task, domain, state, path in jobs:
        error = "it failed" if state == "failed" else None
        number = done(history, path, task=task, domain=domain, state=state, error=error)
        if (
            wanted.task in (None, task)
            and wanted.domain in (None, domain)
            and wanted.state in (None, state)
            and (wanted.path or "").lower() in path.lower()
            and (wanted.error is None or wanted.error.lower() in (error or ""))
        ):
            expected.insert(0, number)
    found, before = [], None
    while page := history.page(wanted, before=before, limit=limit):
        assert len(page) <= limit
        found += ids(page)
        before = page[-1].id
    history.close()
    assert found == expected


@pytest.mark.of_sqlite
def test_a_page_needs_one_index_and_no_row(history):
    plan = list(
        history._con.execute(
            "EXPLAIN QUERY PLAN SELECT id FROM job_history INDEXED BY job_history_page WHERE id < 9"
            " AND domain = 'a' AND paths LIKE '%x%' ORDER BY id DESC LIMIT 5"
        )
    )
    assert [row[3] for row in plan] == ["SEARCH job_history USING COVERING INDEX job_history_page (id<?)"]


# Pruning


def test_old_jobs_go_and_young_ones_stay(history, clock):
    old = done(history)
    clock.now += timedelta(days=10)
    young = done(history)
    clock.now += timedelta(days=5)
    assert history.prune(14, 1000) == 1
    assert (history.get(old), history.get(young).id) == (None, young)


def test_all_but_the_newest_rows_go(history):
    numbers = [done(history) for _ in range(30)]
    assert history.prune(14, 10) == 20
    assert ids(history.page(JobFilter(), limit=100)) == numbers[:-11:-1]
    assert history.prune(14, 10) == 0


def test_a_job_that_runs_is_never_pruned(history, clock):
    number = begin(history)
    for _ in range(5):
        done(history)
    clock.now += timedelta(days=30)
    assert history.prune(14, 1) == 5
    assert ids(history.page(JobFilter())) == [number]


def test_an_empty_history_is_pruned_of_nothing(history):
    assert history.prune(14, 10) == 0


def test_counts_and_observations_never_fall_when_history_is_pruned(history, clock):
    for n in range(5):
        done(history, saved_ms={"vault": [400.0, 90_000.0]}, embedded=n)
    before = (history.counts(), history.histogram("saved_seconds"), history.histogram("embedded_texts"))
    clock.now += timedelta(days=30)
    history.prune(14, 1)
    assert (
        history.counts(),
        history.histogram("saved_seconds"),
        history.histogram("embedded_texts"),
    ) == before
    assert history.counts() == {("index_notes", "done"): 5}
    assert history.page(JobFilter()) == []


# What was observed


@given(values=st.lists(st.floats(0, 1e6, allow_nan=False), max_size=20))
@settings(max_examples=50)
def test_a_histogram_counts_each_observation_in_every_bucket_that_holds_it(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("state")
    State(folder).close()
    history = History(folder)
    done(history, saved_ms={"vault": [value * 1000 for value in values]})
    found = history.histogram("saved_seconds")
    history.close()
    seconds = [value * 1000 / 1000 for value in values]
    assert found.at_most == {le: sum(value <= le for value in seconds) for le in found.at_most}
    assert found.at_most[float("inf")] == len(values)
    assert found.total == pytest.approx(sum(values))


def test_the_series_has_every_span_and_what_ended_in_it(history, clock):
    since = NOON.isoformat()
    done(history, "a.md", "b.md", ran_ms=10)
    done(history, "c.md", ran_ms=30)
    done(history, state="failed", ran_ms=80, error="no")
    clock.now += timedelta(minutes=2)
    done(history, state="put off", ran_ms=1, error="later")
    begin(history)
    first, between, last = history.series(since, 60)
    assert (first.start, first.done, first.failed, first.median_ms, first.notes) == (
        "2026-05-04T12:00:00.000+00:00",
        2,
        1,
        30.0,
        3,
    )
    assert (between.done, between.median_ms) == (0, None)
    assert (last.start, last.done, last.failed) == ("2026-05-04T12:02:00.000+00:00", 0, 0)


def test_saves_are_returned_by_domain_for_a_span_of_time(history, clock):
    done(history, saved_ms={"vault": [9000.0]})
    clock.now += timedelta(hours=2)
    done(history, saved_ms={"vault": [400.0, 500.0]})
    done(history, domain="work", saved_ms={"work": [1000.0], "fitness": [300.0]})
    done(history)
    since = (clock.now - timedelta(hours=1)).isoformat(timespec="milliseconds")
    assert history.saved_seconds(since) == {"vault": [0.4, 0.5], "work": [1.0], "fitness": [0.3]}


def test_the_saves_of_a_job_that_an_earlier_version_recorded_are_those_of_its_domain():
    assert saved_of("[400.0, 500.0]", "work") == {"work": [400.0, 500.0]}
    assert saved_of(None, "work") == {}


# A full disk


@pytest.mark.of_sqlite
def test_a_full_disk_says_that_a_later_try_may_go_well_and_loses_no_row(history):
    number = begin(history, "a.md")
    (pages,) = next(iter(history._con.execute("PRAGMA page_count")))
    history._con.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageUnavailableError) as caught:
        begin(history, "b" * 100_000)
    assert caught.value.retry_helps
    assert history.get(number).state == "running"
