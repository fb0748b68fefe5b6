"""The steps of an answer are timed where they are done."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from threading import Thread

import pytest

from pipelines.model import Decay, Domain
from pipelines.question import read_question
from pipelines.search.fusion import STAGES, stage, timing
from pipelines.search.rank import Source, depth_for, rank_notes


@pytest.fixture
def clock(monkeypatch):
    """Let each look at the clock be one second later."""
    seconds = count()
    monkeypatch.setattr("pipelines.search.fusion.time.perf_counter", lambda: float(next(seconds)))


@pytest.mark.usefixtures("clock")
def test_a_stage_within_another_is_counted_once():
    with timing() as seconds, stage("fusion"):
        with stage("words"):
            pass
        with stage("words"):
            pass
    assert seconds == {"fusion": 3.0, "words": 2.0}


@pytest.mark.usefixtures("clock")
def test_a_stage_that_fails_ends():
    with timing() as seconds:
        with pytest.raises(OSError, match="disk"), stage("knn"):
            raise OSError("disk")
        with stage("fusion"):
            pass
    assert seconds == {"knn": 1.0, "fusion": 1.0}


def test_another_thread_is_not_timed():
    with timing() as seconds:
        thread = Thread(target=lambda: stage("knn")(len)("x"))
        thread.start()
        thread.join()
    assert seconds == {}


def test_each_step_of_a_ranking_is_timed(house):
    for n in range(12):
        house.write(
            f"{n}.md", f"---\nauthor: Ann\npublished_at: 2020-01-{n + 1:02}\n---\nriver [[{n + 1}]] [[{n}]]"
        )
    house.index()
    domain = Domain("vault", "", legacy=True, decay=Decay(mode="ranked_grouped"))
    source = Source(domain, house.cache, house.embedder._embedder.encode_query("river"))
    with timing() as seconds:
        rank_notes(source, read_question("river"), depth_for(10), datetime.now(UTC))
    assert list(seconds) == ["words", "knn", "fusion", "decay", "graph"]
    assert all(seconds[name] > 0 for name in STAGES if name in seconds)
