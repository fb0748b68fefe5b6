"""Notes that were chosen lately count more, in domains that say so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pipelines.retrieval.hit import Hit

Attended = Callable[[Collection[str]], Mapping[str, float]]
"""Return the attention of those of the notes that were chosen (`pipelines.attention`)."""


def unattended(_paths: Collection[str]) -> Mapping[str, float]:
    """Return an empty result: no note was chosen."""
    return {}


def lift_attended(hits: Sequence[Hit], attention: Mapping[str, float], amount: float) -> list[Hit]:
    """Add `amount` of the best score, times its attention, to each note that was chosen; return the best hit first.

    Attention counts up to 1, that of one choice just now: else notes that lead because they were chosen would be
    chosen because they lead, and so on.
    """
    most = amount * max((hit.score for hit in hits), default=0.0)
    lifted = []
    for hit in hits:
        share = min(1.0, attention.get(hit.path, 0.0))
        signals = {"attention": most * share} if share else {}
        lifted.append(hit.after(signals, attention=share or None, attended=hit.score + most * share))
    return sorted(lifted, key=lambda hit: -hit.score)
