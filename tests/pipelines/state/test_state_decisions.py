"""An operator's decisions: paused domains and dismissed notes."""

from __future__ import annotations

import pytest

from pipelines.state.state import OperatorDecisions, open_state

ON_BOTH_STORES = True


@pytest.fixture
def decisions(place):
    con = open_state(place)
    yield OperatorDecisions(con)
    con.close()


def test_a_domain_is_paused_until_it_is_resumed(decisions):
    decisions.pause("garden", "2026-05-04T12:00:00+00:00")
    decisions.pause("garden", "2026-05-05T12:00:00+00:00")
    assert decisions.paused_since("garden") == "2026-05-04T12:00:00+00:00"
    assert decisions.paused_since("work") is None
    decisions.resume("garden")
    assert decisions.paused_since("garden") is None


def test_the_dismissed_notes_of_one_domain_are_replaced(decisions):
    decisions.replace_dismissed("garden", {"a.md": 1, "b.md": 2})
    decisions.replace_dismissed("work", {"c.md": 3})
    decisions.replace_dismissed("garden", {"b.md": 4})
    assert decisions.dismissed("garden") == {"b.md": 4}
    assert decisions.dismissed("work") == {"c.md": 3}
