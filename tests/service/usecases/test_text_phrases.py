"""Counts and times in sentences."""

from __future__ import annotations

import time

import pytest

from service.usecases.text import counted, moment


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 notes"), (1, "1 note"), (2, "2 notes"), (1200, "1,200 notes")]
)
def test_a_noun_has_the_number_of_its_count(number, said):
    assert counted(number, "note") == said
    assert counted(1, "note waits", "notes wait") == "1 note waits"
    assert counted(2, "note waits", "notes wait") == "2 notes wait"


def test_a_time_is_shown_to_the_minute_in_the_users_time_zone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment("2026-11-22T14:13:54.137+00:00") == "2026-11-22 23:13"
    finally:
        monkeypatch.undo()
        time.tzset()
