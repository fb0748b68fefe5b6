"""The list of jobs without a browser: its orders, what it folds, how it calls tasks, and whose clock it shows."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import get_args

import pytest

import workers
from pipelines.state.jobs import History, Result, SortKey
from service.web.filters import BACKGROUND, TASKS, clock, task
from tests.browser.stage import make_stage
from tests.service.web.test_ops_pages import shown, signed_in
from workers.heartbeat import process_name

JOBS = 120


@pytest.fixture(scope="module")
def stage(tmp_path_factory, tiny_model):
    return make_stage(tmp_path_factory.mktemp("jobs"), tiny_model, notes=10, jobs=JOBS)


@pytest.fixture(scope="module")
def browser(stage):
    return signed_in(stage.settings)


def tasks(browser, address):
    return Counter(re.findall(r'href="/ops/jobs/\d+" title="(\w+)"', shown(browser, address)))


@pytest.mark.parametrize("by", get_args(SortKey))
@pytest.mark.parametrize("order", ["up", "down"])
def test_in_every_order_following_next_shows_every_job_once(browser, by, order):
    address, seen = f"/ops/jobs?background=1&sort={by}&order={order}", []
    while address:
        page = shown(browser, address)
        seen += re.findall(r'href="/ops/jobs/(\d+)"', page)
        further = re.search(r'rel="next" href="([^"]+)"', page)
        address = unescape(further[1]) if further else None
    assert sorted(map(int, seen)) == list(range(1, JOBS + 2))


def test_a_heading_sorts_by_its_column_and_then_the_other_way(browser):
    page = shown(browser, "/ops/jobs?domain=notes")
    assert re.search(r'<th scope="col" aria-sort="descending"><a href="[^"]+">Began</a>', page)
    ran = re.search(r'<a href="([^"]+)">Ran</a>', page)
    assert ran
    assert "domain=notes&amp;sort=ran" in ran[1]
    longest = shown(browser, unescape(ran[1]))
    times = [float(ms) for ms in re.findall(r'data-label="ran">([\d.]+) ms<', longest)]
    assert times
    assert times == sorted(times, reverse=True)
    again = re.search(r'aria-sort="descending"><a href="([^"]+)">Ran</a>', longest)
    assert again
    shortest = shown(browser, unescape(again[1]))
    assert re.findall(r'data-label="ran">([\d.]+) ms<', shortest)[0] == f"{min(times):.0f}"


def test_background_work_that_went_well_is_folded_unless_it_is_asked_for(browser):
    assert set(tasks(browser, "/ops/jobs?state=done")) == {"index_notes", "drain"}
    assert "recompute_graph" in tasks(browser, "/ops/jobs?state=done&background=1")
    assert set(tasks(browser, "/ops/jobs?task=recompute_graph")) == {"recompute_graph"}


def test_background_work_that_failed_is_not_folded(tmp_path, tiny_model):
    stage = make_stage(tmp_path, tiny_model, notes=3, jobs=0)
    with closing(History(stage.state)) as history:
        for state in ("failed", "done"):
            number = history.start("id", "recompute_graph", "notes", worker=process_name())
            history.finish(number, Result(state, 1.0))
    assert tasks(signed_in(stage.settings), "/ops/jobs")["recompute_graph"] == 1


def test_a_job_says_how_many_notes_it_had(tmp_path, tiny_model):
    stage = make_stage(tmp_path, tiny_model, notes=3, jobs=0)
    with closing(History(stage.state)) as history:
        for notes, paths in ((1, ()), (2, ("first.md", "second.md"))):
            number = history.start("id", "drain", "notes", worker=process_name())
            history.finish(number, Result("done", 1.0, notes=notes, paths=paths))
    page = re.sub(r"<[^>]+>", "", shown(signed_in(stage.settings), "/ops/jobs"))
    assert re.findall(r"^\d notes?\b.*", page, re.MULTILINE) == ["2 notes, first.md …", "1 note"]


def test_every_task_has_a_name_for_a_person():
    (folder,) = workers.__path__
    source = "".join(file.read_text() for file in Path(folder).glob("*.py"))
    names = set(re.findall(r'huey\.task\(name="(\w+)"', source))
    assert "index_notes" in names
    assert set(TASKS) == names
    assert set(BACKGROUND) <= names
    assert task("of_another_version") == "of_another_version"


def test_a_task_goes_by_what_it_does_on_every_page_about_work(browser):
    for address in ("/ops/jobs", "/ops/jobs/1", "/ops/queue"):
        assert re.search(r"Index (saved|waiting) notes", shown(browser, address))


def test_a_time_is_that_of_the_clock_here_and_its_title_is_exact(browser, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert clock("2026-03-01T20:30:05.123+00:00") == "2 Mar 02:15:05"
        found = re.search(
            r'<time datetime="([^"]+)" title="([^"]+) UTC" data-clock>([^<]+)</time>',
            shown(browser, "/ops/jobs/5"),
        )
        assert found
        assert found[1][:19].replace("T", " ") == found[2]
        assert found[3] == clock(found[1])
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "query", ["sort=log", "order=sideways", "offset=-1", "offset=9999999", "background=x"]
)
def test_an_order_that_no_link_of_ours_asks_for_is_refused(browser, query):
    shown(browser, f"/ops/jobs?{query}", 422)
