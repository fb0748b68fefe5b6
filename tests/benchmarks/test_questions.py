"""The caches that the benchmark of questions compares, and what it asks them."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.questions import MIXES, Arc, Lru, Mix, hit_rate, trace

INTENTS = [[f"intent {n} wording {m}" for m in range(3)] for n in range(20)]
SCANNED = [f"one-off {n}" for n in range(2000)]


@given(st.lists(st.sampled_from("abcdefghij"), max_size=80), st.integers(1, 6))
def test_an_lru_keeps_what_was_asked_last(asked, capacity):
    cache = Lru(capacity)
    for number, key in enumerate(asked):
        last = list(dict.fromkeys(reversed(asked[:number])))[:capacity]
        assert cache.ask(key) == (key in last)


@given(st.lists(st.sampled_from("abcdefghij"), max_size=80), st.integers(1, 6))
def test_an_arc_stays_within_its_capacity_and_keeps_no_key_twice(asked, capacity):
    cache = Arc(capacity)
    for key in asked:
        kept = {*cache.once, *cache.often}
        assert cache.ask(key) == (key in kept)
        held = [*cache.once, *cache.often, *cache.once_gone, *cache.often_gone]
        assert len(held) == len(set(held))
        assert len(cache.once) + len(cache.often) <= capacity
        assert len(cache.once_gone) + len(cache.often_gone) <= 2 * capacity
        assert 0 <= cache.target <= capacity
        assert key in cache.once or key in cache.often


def test_a_scan_empties_an_lru_and_leaves_an_arc_what_came_twice():
    asked = ["a", "a", "b", "b", *SCANNED[:50], "a", "b"]
    assert [hit_rate(cache, asked) * len(asked) for cache in (Lru(4), Arc(4))] == pytest.approx([2, 4])


def test_a_key_that_comes_back_soon_after_it_was_evicted_moves_the_target():
    cache = Arc(2)
    for key in ("a", "a", "b", "c", "d"):
        cache.ask(key)
    assert "b" in cache.once_gone
    before = cache.target
    assert not cache.ask("b")
    assert cache.target > before
    assert "b" in cache.often


def test_a_seed_gives_one_trace():
    first, again, other = (
        list(islice(trace(INTENTS, SCANNED, MIXES["some repeats"], seed), 300)) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_session_stays_with_its_intent_and_a_scan_asks_nothing_twice():
    mix = Mix(zipf=1.0, repeats=0.3, scans=0.5, turns=(4, 4), scan=(3, 3))
    asked = list(islice(trace(INTENTS, SCANNED, mix, 3), 400))
    scanned = [one for one in asked if one.startswith("one-off")]
    assert len(scanned) == len(set(scanned)) > 50
    sessions = [one.split(" wording")[0] for one in asked if one.startswith("intent")]
    assert all(len(set(sessions[at : at + 4])) == 1 for at in range(0, len(sessions) - 3, 4))
