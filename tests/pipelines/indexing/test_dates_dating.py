"""Notes are dated by the commits of their vault, and again when HEAD or the order of sources is another one."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from pipelines.indexing.dates import date_notes, dates_are_behind
from pipelines.model import DateOrder, Domain
from pipelines.sqlite import one
from pipelines.vault.obsidian import read_daily_format
from tests.working import commit_all

ON_BOTH_STORES = True

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
BY_PROPERTY = DateOrder(("created",), ("updated",))
VAULT = Domain("vault", "", legacy=True)


def commit(root, day):
    commit_all(root, f"{day}T12:00:00Z")


@pytest.fixture
def committed(house):
    house.write("a.md", "Bread.")
    house.write("sub/b.md", "---\ncreated: 2015-01-01\n---\nSoil.")
    house.write("sub/picture.png", "no note")
    for name in ("a.md", "sub/b.md"):
        os.utime(house.root / name, (1_500_000_000, 1_500_000_000))  # not the second of what a test saves
    commit(house.root, "2019-05-04")
    house.index()
    return house


def said(house, path):
    return house.cache.passages.node(path).dates.said


def test_notes_have_the_dates_of_their_commits_once_these_are_read(committed):
    house, order = committed, DateOrder()
    assert dates_are_behind(house.root, house.cache, order)
    date_notes(house.root, house.cache, VAULT, order)
    assert not dates_are_behind(house.root, house.cache, order)
    assert said(house, "a.md") == "created 2019-05-04 by git; changed 2019-05-04 by git"
    assert said(house, "sub/b.md") == "created 2015-01-01 by its property created; changed 2019-05-04 by git"
    assert one(house.cache.con, "SELECT count(*) FROM vault_git") == (2,)

    house.save("a.md", "Bread and salt.")
    assert said(house, "a.md").startswith("created 2019-05-04 by git; changed 2")
    assert said(house, "a.md").endswith("by its file")
    commit(house.root, "2020-06-07")
    assert dates_are_behind(house.root, house.cache, order)
    date_notes(house.root, house.cache, VAULT, order)
    assert said(house, "a.md") == "created 2019-05-04 by git; changed 2020-06-07 by git"


def test_a_domain_knows_the_commits_of_its_own_folder_alone(committed):
    date_notes(committed.root, committed.cache, Domain("sub", "sub"), DateOrder())
    assert committed.cache.con.execute("SELECT path FROM vault_git").fetchall() == [("sub/b.md",)]


def test_git_is_not_asked_where_no_date_is_to_come_from_it(committed):
    date_notes(committed.root, committed.cache, VAULT, DateOrder())
    assert date_notes(committed.root, committed.cache, VAULT, BY_PROPERTY) == 0
    assert committed.cache.con.execute("SELECT * FROM vault_git").fetchall() == []
    assert re.fullmatch(r"created \S+ by its file; changed \S+ by its file", said(committed, "a.md"))
    only = DateOrder(("created", "git"), ("updated",))
    date_notes(committed.root, committed.cache, VAULT, only)
    assert said(committed, "a.md").startswith("created 2019-05-04 by git")
    assert said(committed, "a.md").endswith("by its file")


def test_a_vault_without_a_repository_is_never_behind(house):
    house.save("a.md", "Bread.")
    assert not dates_are_behind(house.root, house.cache, DateOrder())


@pytest.mark.parametrize(
    ("settings", "daily"),
    [
        ('{"format": "DD-MM-YYYY", "folder": "Daily"}', "[Daily/]DD-MM-YYYY"),
        ('{"format": "DD-MM-YYYY", "folder": "/"}', "DD-MM-YYYY"),
        ('{"format": "DD-MM-YYYY", "folder": "a [b]"}', "DD-MM-YYYY"),
        ('{"folder": "Daily"}', None),
        ('{"format": ""}', None),
        ('{"format": 3}', None),
        ("[]", None),
        ("{", None),
        ("[" * 100_000, None),
        ("\ufffe", None),
    ],
)
def test_the_format_of_daily_notes_is_what_obsidian_wrote(tmp_path, settings, daily):
    (tmp_path / ".obsidian").mkdir()
    (tmp_path / ".obsidian" / "daily-notes.json").write_text(settings)
    assert read_daily_format(tmp_path) == daily


def test_without_obsidian_there_is_no_format(tmp_path):
    assert read_daily_format(tmp_path) is None
