"""What a walk along links made of a note, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from service.usecases.phrases import counted

_REASONS = {
    "below_prune_threshold": "not near enough",
    "beam_overflow": "nearer notes at this distance came first",
    "decay_zero": "newer notes replace it",
    "no_vector": "not searched by meaning yet",
}
_EDGES = {"citation": "cited in {}", "embed": "embedded in {}", "wikilink": "linked from {}"}
_BACK_EDGES = {"citation": "cites {}", "embed": "embeds {}", "wikilink": "links to {}"}
_REPLACED = "although newer notes replace it"


def nearest_first(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the notes of a walk by their similarity, the highest first; those that cannot be compared come last."""
    return sorted(nodes, key=lambda node: -(-1.0 if node["similarity"] is None else node["similarity"]))


def way_to(node: Mapping[str, Any], start: str) -> str:
    """Return how a walk came to a note: `2 links away, linked from Garden/Soil.md`; `start` for its first notes."""
    edge = node["edge"]
    if edge is None:
        return start
    back = edge["source"] == node["path"]
    phrase = (_BACK_EDGES if back else _EDGES)[edge["kind"]]
    return f"{counted(node['hop'], 'link')} away, {phrase.format(edge['target'] if back else edge['source'])}"


def why_kept(node: Mapping[str, Any]) -> str:
    """Return why a walk kept a note, if its similarity does not show it; else an empty string."""
    if node["retain_reason"] == "kept_despite_decay_zero":
        return _REPLACED
    weight = node["decay_weight"]
    return "" if weight == 1 else f"counts {weight:.2g} because there are newer notes"


def why_left_out(node: Mapping[str, Any]) -> str:
    """Return why a walk left out a note."""
    return _REASONS[node["drop_reason"]]
