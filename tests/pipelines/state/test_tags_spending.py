"""What proposals cost is added up by day."""

from __future__ import annotations

from pipelines.state.state import State
from pipelines.state.tags import Proposals

ON_BOTH_STORES = True


def test_a_days_spend_is_its_own_and_counts_every_proposer(place):
    State(place).close()
    proposals = Proposals(place)
    for proposer, dollars in (("haiku", 0.25), ("haiku", 0.25), ("sonnet", 0.5)):
        proposals.spending.add("2026-11-21", proposer, dollars)
    proposals.spending.add("2026-11-22", "haiku", 0.125)
    assert proposals.spending.of_day("2026-11-21") == (3, 1.0)
    assert proposals.spending.of_day("2026-11-22") == (1, 0.125)
    assert proposals.spending.of_day("2026-11-23") == (0, 0.0)
    proposals.close()
