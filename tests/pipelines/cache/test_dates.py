"""The date that counts for a note: by itself, by git, or by its file; in filters, lists and rows."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest

from pipelines.filters import parse_filters
from pipelines.indexing.dates import date_again
from pipelines.model import DateOrder
from pipelines.sqlite import one

ON_BOTH_STORES = True

FIRST, LAST = "2018-01-01T00:00:00+00:00", "2019-01-01T00:00:00+00:00"
NOTES = {
    "stated.md": "---\ncreated: 2021-03-04\nupdated: 2022-05-06T10:00\n---\nBread.",
    "2020-02-29 Leap.md": "Soil.",
    "plain.md": "Water.",
}
FILE = datetime(2024, 6, 7, tzinfo=UTC)


@pytest.fixture
def dated(house):
    for path, text in NOTES.items():
        set_time(house.write(path, text), FILE)
    house.index()
    return house


def set_time(file, moment):
    os.utime(file, (moment.timestamp(), moment.timestamp()))


def said(house):
    return {path: house.cache.passages.node(path).dates.said for path in NOTES}


def days(house, *parameters):
    return {row.path: row.day for row in house.cache.filters.matching_notes(parse_filters(parameters))}


def commits(house):
    seconds = int(FILE.timestamp())
    house.cache.dates.keep_commits("head", [(path, FIRST, LAST, seconds) for path in NOTES])


def test_a_note_is_dated_by_itself_or_else_by_its_file(dated):
    assert said(dated) == {
        "stated.md": "created 2021-03-04 by its property created; changed 2022-05-06 by its property updated",
        "2020-02-29 Leap.md": "created 2020-02-29 by its file name; changed 2024-06-07 by its file",
        "plain.md": "created 2024-06-07 by its file; changed 2024-06-07 by its file",
    }


def test_git_comes_before_the_file_and_its_last_commit_counts_until_the_file_changes(dated):
    commits(dated)
    assert said(dated) == {
        "stated.md": "created 2021-03-04 by its property created; changed 2022-05-06 by its property updated",
        "2020-02-29 Leap.md": "created 2020-02-29 by its file name; changed 2019-01-01 by git",
        "plain.md": "created 2018-01-01 by git; changed 2019-01-01 by git",
    }
    set_time(dated.root / "plain.md", datetime(2025, 1, 1, tzinfo=UTC))
    dated.reconcile()
    assert said(dated)["plain.md"] == "created 2018-01-01 by git; changed 2025-01-01 by its file"


def test_filters_lists_and_layers_use_the_date_that_counts(dated):
    commits(dated)
    expected = {"stated.md": "2021-03-04", "2020-02-29 Leap.md": "2020-02-29", "plain.md": "2018-01-01"}
    assert days(dated) == expected
    assert days(dated, ("since", "2020-02-29")).keys() == {"stated.md", "2020-02-29 Leap.md"}
    assert days(dated, ("until", "2020-02-28")).keys() == {"plain.md"}
    facts = dated.cache.passages.note_facts(list(NOTES))
    assert {path: (one.created[:10], one.changed[:10]) for path, one in facts.items()} == {
        "stated.md": ("2021-03-04", "2022-05-06"),
        "2020-02-29 Leap.md": ("2020-02-29", "2019-01-01"),
        "plain.md": ("2018-01-01", "2019-01-01"),
    }
    assert dated.cache.notes.recently_changed(9) == [
        ("stated.md", "stated", "2022-05-06T10:00:00+00:00"),
        ("2020-02-29 Leap.md", "2020-02-29 Leap", LAST),
        ("plain.md", "plain", LAST),
    ]


def test_a_change_in_the_future_is_none_in_the_list_of_changes(dated):
    set_time(dated.write("later.md", "---\nupdated: 2190-01-01\n---\nx"), FILE)
    dated.index()
    assert ("later.md", "later", FILE.isoformat()) in dated.cache.notes.recently_changed(9)


@pytest.mark.parametrize(
    ("created", "day", "source"),
    [
        (("git", "created"), "2018-01-01", "git"),
        (("file name", "git", "created"), "2018-01-01", "git"),
        (("created", "git"), "2021-03-04", "property created"),
        (("updated",), "2022-05-06", "property updated"),
        (("nothing",), "2024-06-07", "file"),
    ],
)
def test_an_order_takes_effect_without_reading_a_file_and_equals_an_index_made_with_it(
    dated, created, day, source
):
    order = DateOrder(created, ("git",))
    (dated.root / "stated.md").rename(dated.root.parent / "away.md")
    date_again(dated.cache, order)
    if "git" in created:
        commits(dated)
    row = dated.cache.passages.node("stated.md").dates
    assert (row.created[:10], row.created_by) == (day, source)
    assert dated.cache.dates.order() == order
    (dated.root.parent / "away.md").rename(dated.root / "stated.md")
    dated.files = type(dated.files)(dated.sandbox, dates=order)
    assert dated.picture()["nodes"] == dated.scratch_picture()["nodes"]
    date_again(dated.cache, DateOrder())
    dated.files = type(dated.files)(dated.sandbox)
    assert dated.picture()["nodes"] == dated.scratch_picture()["nodes"]


def test_another_order_replaces_the_warnings_of_the_one_before(dated):
    dated.save("odd.md", "---\ndate: soon\nborn: late\ntags: [a b!]\n---\nx")
    other = json.loads(one(dated.cache.con, "SELECT warnings FROM vault_node WHERE path = 'odd.md'")[0])
    assert "date is not a date: 'soon'" in other
    date_again(dated.cache, DateOrder(("born",), ("git",)))
    found = dated.cache.passages.node("odd.md").warnings
    assert found == [one for one in other if "date is not" not in one] + ["born is not a date: 'late'"]


def test_commits_are_replaced_whole(dated):
    commits(dated)
    dated.cache.dates.keep_commits("next", [("plain.md", LAST, LAST, None)])
    assert dated.cache.con.execute("SELECT * FROM vault_git").fetchall() == [("plain.md", LAST, LAST, None)]
    assert dated.cache.dates.commit() == "next"
