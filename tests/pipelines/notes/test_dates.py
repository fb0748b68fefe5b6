"""The dates that a note states: by its properties, and by the name of its file."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.model import DateOrder, StatedDate
from pipelines.notes.dates import daily_form, date_of_name, parse_date, read_dates

DAY, MOMENT = "2021-03-04", "2021-03-04T10:05:00"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2021-03-04", DAY),
        ("2021/3/4", DAY),
        ("2021.03.04", DAY),
        ("4.3.2021", DAY),
        ("2021年3月4日", DAY),
        ("March 4, 2021", DAY),
        ("Mar 4th, 2021", DAY),
        ("4 march 2021", DAY),
        ("20210304", DAY),
        ("2021-03-04T10:05", MOMENT),
        ("2021-03-04 10:05:00", MOMENT),
        ("202103041005", MOMENT),
        ("20210304100500", MOMENT),
        ("2021-03-04 10:05:00 +0100", f"{MOMENT}+01:00"),
        ("2021-03-04 10:05:00 UTC", f"{MOMENT}+00:00"),
        ("2021-03-04T10:05:00.000Z", f"{MOMENT}+00:00"),
        ("Thursday, March 4th 2021, 10:05:00 am", MOMENT),
        ("Thursday, March 4th 2021, 10:05:00 PM", "2021-03-04T22:05:00"),
        ("1619460500071", "2021-04-26T18:08:20+00:00"),
        ("1619460500", "2021-04-26T18:08:20+00:00"),
    ],
)
def test_a_date_is_read_as_people_and_their_tools_write_it(written, meant):
    assert parse_date(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            "soon",
            "2021",
            "2021-02-30",
            "2021-13-01",
            "20211301",
            "04/03/2021",
            "0001-01-01",
            "9999-12-31",
        ),
        *("2021-03-04T25:00", "99999999", "12", "9999999999999", "31.4.2021", "Smarch 4, 2021", "2021-3/4"),
    ],
)
def test_what_is_no_date_or_of_an_absurd_year_is_none(written):
    assert parse_date(written) is None


FIRST, LAST = (datetime.fromisoformat(day) for day in ("1000-01-01", "2199-12-31"))


@given(st.datetimes(FIRST, LAST, timezones=st.sampled_from([None, UTC])))
def test_every_iso_time_is_read_back(moment):
    assert parse_date(moment.isoformat()) == moment.isoformat()
    assert parse_date(str(moment.date())) == str(moment.date())


@given(st.text() | st.text("0123456789-/.:T Z+年月日", max_size=30))
@example("²021-03-04")
@example("\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668")
def test_no_text_is_an_error_and_each_date_can_be_read(text):
    for found in (parse_date(text), date_of_name(f"{text}.md")):
        assert found is None or 1000 <= datetime.fromisoformat(found).year <= 2199


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("2020-02-29 Leap.md", "2020-02-29"),
        ("Leap 2020-02-29.md", "2020-02-29"),
        ("journals/2020_02_29.md", "2020-02-29"),
        ("daily.journal.2020.02.29.md", "2020-02-29"),
        ("20200229.md", "2020-02-29"),
        ("20200229093012 Thought.md", "2020-02-29T09:30:12"),
        ("Thought 202002290930.md", "2020-02-29T09:30:00"),
        ("IMG_20200229_093012.pdf", "2020-02-29T09:30:12"),
        ("May 17th, 2023.md", "2023-05-17"),
        ("会议2020年2月29日.md", "2020-02-29"),
        ("2020-02-29 to 2020-03-05.md", "2020-02-29"),
        ("2021-02-29 Leap.md", None),
        ("Invoice 20231399.md", None),
        ("Call 12345678901.md", None),
        ("v2020.2.md", None),
        ("a1b20200229c3.md", None),
        ("10200229.md", None),
        ("2020-02-29/Notes.md", None),
    ],
)
def test_a_name_of_a_file_has_a_date_if_one_stands_alone_in_it(path, day):
    assert date_of_name(path) == day


@pytest.mark.parametrize(
    ("daily", "path", "day"),
    [
        ("DD-MM-YYYY", "17-05-2023.md", "2023-05-17"),
        ("[Daily/]YYYY/MM/DD", "Daily/2023/05/17.md", "2023-05-17"),
        ("[Daily/]YYYY/MM/DD", "2023/05/17.md", None),
        ("YYYY/MM-MMMM/YYYY-MM-DD", "2023/05-May/2023-05-17.md", "2023-05-17"),
        ("YYYY/MM-MMMM/YYYY-MM-DD", "2022/05-May/2023-05-17.md", "2023-05-17"),  # by its name alone
        ("dddd Do MMM YYYY", "Wednesday 17th May 2023.md", "2023-05-17"),
        ("DD-MM-YYYY", "40-05-2023.md", None),
        ("gggg-[W]ww", "2023-W20.md", None),
        ("(((", "2023.md", None),
    ],
)
def test_a_daily_note_is_dated_by_the_format_of_obsidian(daily, path, day):
    assert date_of_name(path, daily) == day


@given(st.text("YMDodw[]()*+.-/ a", max_size=40))
def test_no_format_of_daily_notes_is_an_error(daily):
    form = daily_form(daily)
    assert form is None or date_of_name("17-05-2023.md", daily) in (None, "2023-05-17")


@pytest.mark.parametrize(
    "name", ["created", "Created At", "date-created", "creation_date", "createTime", "Date"]
)
def test_the_names_of_properties_are_compared_without_case_spaces_and_signs(name):
    assert read_dates("n.md", {name: DAY}).created == StatedDate(DAY, f"property {name}")


@pytest.mark.parametrize(
    "name", ["updated", "Last-Modified", "lastmod", "date modified", "lastUpdated", "mtime"]
)
def test_a_change_has_its_own_properties(name):
    found = read_dates("n.md", {name: DAY, "created": "2020-01-01"})
    assert found.changed == StatedDate(DAY, f"property {name}")


@pytest.mark.parametrize(
    "value",
    [
        DAY,
        date(2021, 3, 4),
        [DAY, "2022-01-01"],
        [[DAY]],
        f"[[{DAY}]]",
        f"[[journal/x|{DAY}]]",
        f" {DAY} ",
        20210304,
    ],
)
def test_a_value_may_be_a_text_a_number_a_date_a_list_or_a_link(value):
    assert read_dates("n.md", {"created": value}).created.at == DAY


def test_the_first_source_that_has_a_date_counts():
    values = {"created": "2019-01-01", "published": "2021-02-30", "date": "0001-01-01"}
    found = read_dates("2020-02-29.md", values)
    assert found.created == StatedDate("2019-01-01", "property created")
    assert found.warnings == ("published is not a date: '2021-02-30'", "date is not a date: '0001-01-01'")
    assert read_dates("2020-02-29.md", {"created": "soon"}).created == StatedDate("2020-02-29", "file name")


@pytest.mark.parametrize("value", [True, "true", "No", "", None, [], {}, "[[]]", 3.5])
def test_a_flag_or_nothing_is_no_date_and_no_fault(value):
    found = read_dates("n.md", {"published": value})
    assert (found.created, found.warnings) == (None, ())


def test_an_operator_chooses_sources_and_their_order():
    values = {"created": "2019-01-01", "born": "2018-01-01", "updated": "2022-01-01"}
    order = DateOrder(("born", "created"), ("seen",))
    found = read_dates("2020-02-29.md", values, order)
    assert (found.created, found.changed) == (StatedDate("2018-01-01", "property born"), None)
    by_name = read_dates("2020-02-29.md", values, DateOrder(("file name", "git", "created")))
    assert by_name.created == StatedDate("2020-02-29", "file name")
    late = read_dates("n.md", values, DateOrder(("file name", "git", "created")))
    assert late.created == StatedDate("2019-01-01", "property created", after_git=True)


def test_a_format_that_names_the_weekday_many_times_takes_no_time():
    assert date_of_name("a" * 200 + ".md", "dddd" * 60 + "YYYYMMDD") is None
    assert date_of_name("Saturday 2020-02-29.md", "dddd YYYY-MM-DD") == "2020-02-29"
