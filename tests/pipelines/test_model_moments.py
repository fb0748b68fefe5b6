"""Moments as text: one form, that sorts by time."""

from datetime import UTC, datetime, timedelta, timezone

from pipelines.model import as_iso, iso_ago, now_iso, seconds_since

MOMENT = datetime(2026, 11, 23, 7, 0, 0, 123456, tzinfo=UTC)


def test_a_moment_is_written_in_utc_to_the_millisecond():
    assert as_iso(MOMENT) == "2026-11-23T07:00:00.123+00:00"
    assert as_iso(MOMENT.astimezone(timezone(timedelta(hours=9)))) == as_iso(MOMENT)
    assert as_iso(MOMENT, "seconds") == "2026-11-23T07:00:00+00:00"


def test_a_whole_second_sorts_before_what_follows_within_it():
    whole = MOMENT.replace(microsecond=0)
    assert as_iso(whole) < as_iso(whole + timedelta(milliseconds=1)) < as_iso(whole + timedelta(seconds=1))


def test_an_earlier_moment_is_less_than_now_as_text():
    assert iso_ago(timedelta(minutes=1)) < now_iso()


def test_the_age_of_a_moment_is_never_negative():
    assert seconds_since(iso_ago(timedelta(hours=1))) >= 3600
    assert seconds_since(as_iso(datetime.now(UTC) + timedelta(hours=1))) == 0
