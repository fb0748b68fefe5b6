"""Print walks along links for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.usecases.phrases import counted

_STOPS = {
    "good_enough": "enough good notes",
    "no_more_links": "no more links",
    "budget_spent": "embedding limit reached",
    "depth": "maximum depth reached",
}


def print_deep(console: Console, answer: dict[str, Any]) -> None:
    """Print each domain's part; with both walks, side by side."""
    if answer["record"]:
        console.print(Text(f"record {answer['record']}: {answer['question']}", "dim"))
    for part in answer["domains"]:
        console.print(Text(part["domain"], "bold"))
        if part["fast"] and part["deep"]:
            _print_both(console, part)
        else:
            print_walk(console, part["fast"] or part["deep"])
    if owed := answer["index"]["vectors_pending"]:
        passages = counted(owed, "passage is", "passages are")
        console.print(Text(f"{passages} not searched by meaning yet", "yellow"))
    for slug, reason in answer["index"]["failed"].items():
        console.print(Text(f"{slug} cannot be searched: {reason}", "red"))


def print_walk(console: Console, walk: dict[str, Any]) -> None:
    """Print the notes that a walk kept, nearest first, then those that it dropped with the reason, and its cost."""
    for node in walk["nodes"]:
        line = Text(f"  hop {node['hop']}  {_number(node)}  ").append(node["title"], "bold")
        line.append(f"  {node['path']}", "cyan").append(_way(node), "dim")
        console.print(line.append(_decay(node), "yellow"), soft_wrap=True)
    for node in walk["dropped"]:
        line = Text(f"  hop {node['hop']}  {_number(node)}  {node['path']}")
        console.print(line.append(f"  dropped: {node['drop_reason']}"), style="dim", soft_wrap=True)
    console.print(Text(_cost(walk), "dim"))


def _print_both(console: Console, part: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("", "note", "fast", "deep"):
        table.add_column(name)
    told = {mode: _told(part[mode]) for mode in ("fast", "deep")}
    kept = [node["path"] for node in part["deep"]["nodes"]]
    for path in dict.fromkeys([*kept, *(node["path"] for node in part["fast"]["nodes"])]):
        mark = "+" if path in part["added"] else "-" if path in part["lost"] else " "
        table.add_row(mark, Text(path), *(told[mode].get(path, "not reached") for mode in ("fast", "deep")))
    console.print(table)
    console.print(
        Text(f"deep adds {len(part['added'])} and drops {len(part['lost'])} that fast keeps", "dim")
    )
    for mode in ("fast", "deep"):
        console.print(Text(f"{mode}: {_cost(part[mode])}", "dim"))


def _told(walk: dict[str, Any]) -> dict[str, str]:
    kept = {node["path"]: f"hop {node['hop']} {_number(node)}{_decay(node)}" for node in walk["nodes"]}
    return kept | {node["path"]: f"{_number(node)} {node['drop_reason']}" for node in walk["dropped"]}


def _number(node: dict[str, Any]) -> str:
    return " -- " if node["similarity"] is None else f"{node['similarity']:.2f}"


def _decay(node: dict[str, Any]) -> str:
    return "" if node["decay_weight"] == 1 else f"  decay {node['decay_weight']:g}"


def _way(node: dict[str, Any]) -> str:
    edge = node["edge"]
    if not edge:
        return ""
    if edge["source"] == node["path"]:
        return f"  {edge['kind']} to {edge['target']}"
    return f"  {edge['kind']} from {edge['source']}"


def _cost(walk: dict[str, Any]) -> str:
    said = (
        f"{len(walk['nodes'])} kept, {len(walk['dropped'])} dropped, {walk['unread']} not read; "
        f"{walk['embeddings_read']} embeddings read in {walk['took_ms']:.0f} ms; "
        f"stopped: {_STOPS[walk['stopped']]}"
    )
    return said if walk["calibrated"] else f"{said}; the thresholds are not this model's own"
