"""A choice halves in a week; attention goes with a renamed note, and a note that is gone is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta
from pipelines.model import LOW_PRIORITY, Domain, FoundFile
from pipelines.state.attention import Attention
from workers.attention import attention_of, follow_notes, weight

DAY = 24 * 3600.0


@pytest.mark.parametrize(("days", "counts"), [(0, 1.0), (7, 0.5), (14, 0.25), (28, 0.0625)])
def test_a_choice_counts_half_as_much_after_each_week(days, counts):
    assert weight(days * DAY) == counts


def test_a_choice_by_a_clock_that_was_set_back_since_counts_as_one_made_now():
    assert weight(-DAY) == 1.0


@given(st.lists(st.floats(0, 70 * DAY), max_size=9), st.floats(0, 70 * DAY))
def test_attention_fades_but_one_more_choice_never_takes_any_away(ages, later):
    moments = [-age for age in ages]
    assert attention_of(moments, later) <= attention_of(moments, 0.0)
    assert attention_of([*moments, -later], 0.0) >= attention_of(moments, 0.0)


def test_a_domain_sets_the_half_life_and_how_long_a_session_is():
    domain = Domain("vault", "", attention_half_life_days=14, attention_session_minutes=60)
    assert [attention_of([0.0], age * DAY, domain) for age in (0, 14, 28, 56)] == [1.0, 0.5, 0.25, 0.0625]
    hour = 3600.0
    assert attention_of([0.0, hour / 2], hour / 2, domain) == 1.0
    assert attention_of([0.0, hour / 2], hour / 2) == pytest.approx(2.0, abs=0.01)
    assert attention_of([0.0, hour], hour, domain) == pytest.approx(2.0, abs=0.01)


@pytest.fixture
def store(tmp_path):
    made = Attention(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ledger(tmp_path):
    cache = SqliteCache.create(tmp_path / "cache.db", CacheMeta("m", 4, "p"))
    yield cache.ledger
    cache.close()


def seen(ledger, *gone, **hashes):
    """Record the files that are there by the hashes of their bytes, and those that are gone."""
    files = [(FoundFile(f"{name}.md", f"{name}.md", 1, 1, 1), sha) for name, sha in hashes.items()]
    ledger.record("d", files, [f"{name}.md" for name in gone], priority=LOW_PRIORITY)


def follow(store, ledger):
    return follow_notes(store, [ledger], lambda _: True)


def paths(store):
    return {one.path for one in store.choices()}


def test_a_renamed_note_keeps_its_attention_also_if_it_was_edited_before(store, ledger):
    store.add(["Soil.md"], "opened", 0.0)
    for sha in ("first", "second"):
        seen(ledger, Soil=sha)
        assert follow(store, ledger) == set()
    seen(ledger, "Soil", Earth="second", Other="third")
    assert follow(store, ledger) == set()
    assert paths(store) == {"Earth.md"}


def test_a_note_that_is_gone_is_named_and_keeps_its_attention_for_the_caller_to_decide(store, ledger):
    store.add(["Soil.md", "River.md"], "opened", 0.0)
    seen(ledger, Soil="s", River="r")
    follow(store, ledger)
    seen(ledger, "Soil")
    assert follow(store, ledger) == {"Soil.md"}
    assert paths(store) == {"Soil.md", "River.md"}


def test_a_note_is_not_guessed_among_several_with_the_same_bytes(store, ledger):
    store.add(["Monday.md"], "opened", 0.0)
    seen(ledger, Monday="template")
    follow(store, ledger)
    seen(ledger, "Monday", Tuesday="template", Wednesday="template")
    assert follow(store, ledger) == {"Monday.md"}


def test_a_note_moves_to_another_domain(store, ledger, tmp_path):
    store.add(["Soil.md"], "opened", 0.0)
    seen(ledger, Soil="s")
    follow(store, ledger)
    other = SqliteCache.create(tmp_path / "other.db", CacheMeta("m", 4, "p"))
    seen(ledger, "Soil")
    seen(other.ledger, Soil2="s")
    assert follow_notes(store, [ledger, other.ledger], lambda _: True) == set()
    other.close()
    assert paths(store) == {"Soil2.md"}


def test_notes_of_other_ledgers_are_left_alone(store, ledger):
    store.add(["elsewhere/Soil.md"], "opened", 0.0)
    assert follow_notes(store, [ledger], lambda path: not path.startswith("elsewhere/")) == set()
