"""A damaged `state.db` is replaced by what can be read of it."""

from __future__ import annotations

import random

import apsw
import pytest

from pipelines.maintenance.databases import is_damaged, salvage
from pipelines.model import Suggestion
from pipelines.state.state import State
from pipelines.state.tags import Proposals

ROWS = 2_000


@pytest.fixture
def folder(tmp_path):
    """A state folder with decisions, over many pages."""
    state = State(tmp_path)
    state.switch_cache("vault", 3)
    state.close()
    proposals = Proposals(tmp_path)
    for number in range(ROWS):
        suggested = [(Suggestion(f"tag{number}", 0.9), "group " * 5)]
        proposals.add("vault", f"note {number}.md", suggested, proposer="p", note_hash="h" * 64, at="2026")
    proposals.close()
    (tmp_path / "work").mkdir()
    return tmp_path


def rescue(folder):
    assert is_damaged(folder / "state.db")
    before = (folder / "state.db").read_bytes()
    done = salvage(folder, folder / "work")
    assert done.aside.read_bytes() == before
    assert not is_damaged(folder / "state.db")
    return done


def test_a_sound_state_is_not_damaged(folder):
    assert not is_damaged(folder / "state.db")


@pytest.mark.parametrize("seed", range(6))
def test_damaged_pages_cost_no_more_than_what_stood_on_them(folder, seed):
    chance = random.Random(seed)  # noqa: S311 - a test's choice
    con = apsw.Connection(str(folder / "state.db"))
    pages = (
        [
            page
            for (page,) in con.execute(
                "SELECT pageno FROM dbstat WHERE name = 'tag_proposal' AND pagetype = 'leaf'"
            )
        ]
        if has_dbstat(con)
        else list(range(30, 90))
    )
    size = con.execute("PRAGMA page_size").fetchall()[0][0]
    con.close()
    data = bytearray((folder / "state.db").read_bytes())
    page = chance.choice(pages)
    data[(page - 1) * size : page * size] = chance.randbytes(size)
    (folder / "state.db").write_bytes(data)
    done = rescue(folder)
    assert done.kept["tag_proposal"] > ROWS / 2
    state = State(folder)
    assert state.cache_number("vault") == 3
    state.close()


def has_dbstat(con) -> bool:
    try:
        con.execute("SELECT 1 FROM dbstat LIMIT 1").fetchall()
    except apsw.SQLError:
        return False
    return True


@pytest.mark.parametrize("content", [b"", b"garbage" * 1_000, b"SQLite format 3\0" + b"\xff" * 8_000])
def test_an_unreadable_state_is_replaced_by_a_new_one_and_kept_beside_it(folder, content):
    (folder / "state.db").write_bytes(content)
    if not content:  # SQLite takes an empty file for an empty database
        assert not is_damaged(folder / "state.db")
        return
    done = rescue(folder)
    assert done.cut == ("all of it",)
    State(folder).close()


def test_a_file_that_was_cut_keeps_what_is_left(folder):
    data = (folder / "state.db").read_bytes()
    (folder / "state.db").write_bytes(data[: len(data) * 2 // 3])
    rescue(folder)
    State(folder).close()


def test_a_second_damaged_file_does_not_replace_the_first_one(folder):
    names = []
    for _ in range(2):
        (folder / "state.db").write_bytes(b"garbage" * 1_000)
        names.append(rescue(folder).aside.name)
    assert names == ["state.db.damaged-1", "state.db.damaged-2"]
