"""Mass deletions wait for somebody's word, or for an hour in which nothing about them changes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pipelines.reconcile import MayDelete
from pipelines.store.state import State

HOLD_SECONDS = 3600.0
_EXAMPLES = 5


def held_key(slug: str) -> str:
    """Name the fact that a domain's deletions are held."""
    return f"held:{slug}"


def hold_policy(state: State, *, confirmed: bool = False) -> MayDelete:
    """Return the policy: a mass deletion goes when it is confirmed, or was the same for an hour."""

    def may_delete(slug: str, vanished: Sequence[str]) -> bool:
        digest = hashlib.sha256("\n".join(sorted(vanished)).encode()).hexdigest()
        fact = state.heard(held_key(slug))
        same = fact is not None and fact.value["digest"] == digest
        if confirmed or (fact is not None and same and fact.age_s >= HOLD_SECONDS):
            return True
        if not same:
            said = {"digest": digest, "count": len(vanished), "examples": sorted(vanished)[:_EXAMPLES]}
            state.say(held_key(slug), said)
        return False

    return may_delete
