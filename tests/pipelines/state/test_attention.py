"""Of a note's choices within half an hour one is kept, for ten weeks; what is deleted leaves no trace."""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.maintenance.databases import copy, forget_choices
from pipelines.state.attention import KEPT_S, WINDOW_S, Attention, Chosen
from pipelines.state.state import STATE_FILE

ON_BOTH_STORES = True

NOTES = ("Soil.md", "River.md")


@pytest.fixture
def store(place):
    made = Attention(place)
    yield made
    made.close()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NOTES), st.floats(0, 6 * WINDOW_S), st.sampled_from(["opened", "read", "cited"])
        ),
        max_size=30,
    )
)
def test_a_note_counts_once_in_a_window_and_no_window_goes_unseen(choices):
    with tempfile.TemporaryDirectory() as folder:
        store = Attention(Path(folder))
        for path, at, how in choices:
            store.add([path], how, at)
        kept = store.choices()
        store.close()
    for one, other in combinations(kept, 2):
        assert one.path != other.path or abs(one.at - other.at) >= WINDOW_S
    for path, at, _ in choices:
        assert any(one.path == path and abs(one.at - at) < WINDOW_S for one in kept)
    assert set(kept) <= {Chosen(*choice) for choice in choices}


def test_choices_are_kept_for_ten_weeks(store):
    store.add(["Soil.md"], "opened", 0.0)
    store.add(["River.md"], "read", KEPT_S)
    assert [one.path for one in store.choices()] == ["River.md", "Soil.md"]
    store.add(["River.md"], "read", KEPT_S + WINDOW_S)
    assert {one.path for one in store.choices()} == {"River.md"}


def test_the_choices_of_one_note_are_deleted_or_those_of_all(store):
    store.add(["Soil.md", "River.md", "Boat.md"], "cited", 0.0)
    assert store.delete("Soil.md") == 1
    assert store.delete("Soil.md") == 0
    assert store.delete() == 2
    assert store.choices() == []


@pytest.mark.of_sqlite
def test_what_is_deleted_is_in_no_file_though_another_connection_is_open(store, tmp_path):
    other = Attention(tmp_path)
    store.add(["wherry.md"], "opened", 0.0)
    assert any(b"wherry" in file.read_bytes() for file in tmp_path.iterdir())
    store.delete("wherry.md")
    assert not [file for file in tmp_path.iterdir() if b"wherry" in file.read_bytes()]
    other.close()


def test_a_choice_counts_from_its_moment_on(store):
    store.add(["Soil.md"], "opened", 10.0)
    store.add(["Soil.md"], "opened", 10.0 + WINDOW_S)
    assert store.moments(["Soil.md", "River.md"], 9.0) == {}
    assert store.moments(["Soil.md", "River.md"], 10.0) == {"Soil.md": [10.0]}
    assert store.moments(["Soil.md"], 10.0 + WINDOW_S) == {"Soil.md": [10.0, 10.0 + WINDOW_S]}


def test_a_moved_note_shares_a_moment_with_the_note_that_was_there(store):
    store.add(["Soil.md", "Earth.md"], "opened", 0.0)
    store.add(["Soil.md"], "read", WINDOW_S)
    store.move("Soil.md", "Earth.md")
    assert [(one.path, one.at) for one in store.choices()] == [("Earth.md", WINDOW_S), ("Earth.md", 0.0)]


@pytest.mark.of_sqlite
def test_a_copy_without_choices_has_no_trace_of_them(store, tmp_path):
    names = [f"Secret diary {number}.md" for number in range(500)]
    store.add(names, "opened", 0.0)
    store.delete(names[0])
    copied = tmp_path / "copy" / STATE_FILE
    copied.parent.mkdir()
    copy(tmp_path / STATE_FILE, copied)
    assert b"Secret diary 1.md" in copied.read_bytes()
    assert b"Secret diary 0.md" not in copied.read_bytes()
    forget_choices(copied)
    assert b"Secret diary" not in copied.read_bytes()
    assert len(store.choices()) == 499


def test_a_copy_of_an_earlier_version_is_left_as_it_is(tmp_path):
    apsw.Connection(str(tmp_path / STATE_FILE)).execute("CREATE TABLE fact (key TEXT)")
    forget_choices(tmp_path / STATE_FILE)
