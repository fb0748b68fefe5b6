"""A trouble that lasts is among the problems, and leaves them when it is over."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from pipelines.errors import ModelUnavailableError
from queue_config.settings import Settings
from workers.complaints import Complaint, model_reported
from workers.resources import Resources


@pytest.fixture
def resources(vault, tmp_path):
    return Resources(Settings(vault=vault, state=tmp_path / "state"))


def said(resources):
    return [problem.message for problem in resources.problems().reported()]


def test_a_trouble_is_reported_when_it_lasts_and_no_sooner(resources, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("workers.complaints.time.monotonic", lambda: now[0])
    complaint = Complaint(resources, "the sweep")
    complaint.met("Redis is full")
    now[0] += 5
    complaint.met("Redis is full")
    assert said(resources) == []
    now[0] += 5
    complaint.met("Redis is full")
    assert said(resources) == ["the sweep fails and is retried: Redis is full"]
    complaint.over()
    assert said(resources) == []
    complaint.met("Redis is full again")
    assert said(resources) == []


def test_failures_are_logged_under_one_name_with_the_part_in_a_field(resources):
    parts = ["the sweep", "the sweep of tags"]
    with capture_logs() as lines:
        for part in parts:
            Complaint(resources, part).met("Redis is full")
    assert [line["part"] for line in lines] == parts
    assert len({line["event"] for line in lines}) == 1


def test_what_an_earlier_process_reported_goes_with_the_first_success(resources):
    resources.problems().report("part", "the sweep", "the sweep fails: an old reason")
    Complaint(resources, "the sweep").over()
    assert said(resources) == []


def test_a_model_that_cannot_be_loaded_is_reported_until_all_are_loaded(resources):
    def load(*, works, loaded=True):
        with model_reported(resources, "worker", lambda: loaded):
            if not works:
                raise ModelUnavailableError("its weights are damaged")

    with pytest.raises(ModelUnavailableError):
        load(works=False)
    (message,) = said(resources)
    assert "its weights are damaged" in message
    load(works=True, loaded=False)
    assert said(resources) == [message], "it was not tried"
    load(works=True)
    assert said(resources) == []
