"""Print walks along links for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.usecases.phrases import counted
from service.usecases.walk_phrases import nearest_first, way_to, why_kept, why_left_out

_STOPS = {
    "good_enough": "enough near notes were found",
    "no_more_links": "no more notes of the domain are linked",
    "budget_spent": "the other linked notes are more than a walk reads",
    "depth": "notes farther away are not followed",
}
_SEARCHED = "found by the search"


def print_deep(console: Console, answer: dict[str, Any], *, every: bool = False) -> None:
    """Print each domain's part, the one with the nearest note first; with both walks, side by side and whole."""
    if answer["record"]:
        console.print(Text(f"record {answer['record']}: {answer['question']}", "dim"))
    found = sorted(filter(_found, answer["domains"]), key=_nearest, reverse=True)
    if not found:
        console.print("Nothing found.")
    for part in found:
        console.print(Text(part["domain"], "bold"))
        if part["fast"] and part["deep"]:
            _print_both(console, part)
        else:
            print_walk(console, part["fast"] or part["deep"], start=_SEARCHED, every=every)
    if owed := answer["index"]["vectors_pending"]:
        passages = counted(owed, "passage is", "passages are")
        console.print(Text(f"{passages} not searched by meaning yet", "yellow"))
    for slug, reason in answer["index"]["failed"].items():
        console.print(Text(f"{slug} cannot be searched: {reason}", "red"))


def print_walk(console: Console, walk: dict[str, Any], *, start: str, every: bool = False) -> None:
    """Print the notes that a walk kept, nearest first, and its cost.

    `start` says of its first notes where they come from. With `every`, notes that are not near enough, though it
    starts at them, follow, and those that it left out, with the reason.
    """
    kept = nearest_first(walk["nodes"])
    shown = kept if every else [node for node in kept if not _is_far(node, walk)]
    for node in shown:
        line = Text(f"  {_number(node)}  ").append(node["title"], "bold").append(f"  {node['path']}", "cyan")
        line.append(f"  {way_to(node, start)}", "dim")
        if reason := why_kept(node):
            line.append(f", {reason}", "yellow")
        console.print(line, soft_wrap=True)
    for node in nearest_first(walk["dropped"]) if every else ():
        line = Text(f"  {_number(node)}  {node['path']}  left out: {why_left_out(node)}")
        console.print(line, style="dim", soft_wrap=True)
    hidden = len(kept) - len(shown) + (0 if every else len(walk["dropped"]))
    if hidden:
        notes = counted(hidden, "more note was", "more notes were")
        console.print(Text(f"  {notes} looked at; `--all` shows {'it' if hidden == 1 else 'them'}", "dim"))
    console.print(Text(_cost(walk), "dim"), soft_wrap=True)


def _is_far(node: Mapping[str, Any], walk: Mapping[str, Any]) -> bool:
    return node["similarity"] is not None and node["similarity"] < walk["prune"]


def _found(part: dict[str, Any]) -> bool:
    """Say whether a walk of a domain found a note."""
    return any(part[mode] and (part[mode]["nodes"] or part[mode]["dropped"]) for mode in ("fast", "deep"))


def _nearest(part: dict[str, Any]) -> float:
    """Return the highest similarity of a domain's notes to the question."""
    nodes = [node for mode in ("fast", "deep") if part[mode] for node in part[mode]["nodes"]]
    return max((node["similarity"] for node in nodes if node["similarity"] is not None), default=-1.0)


def _print_both(console: Console, part: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("", "note", "fast", "deep"):
        table.add_column(name)
    told = {mode: _told(part[mode]) for mode in ("fast", "deep")}
    kept = nearest_first([*part["deep"]["nodes"], *part["fast"]["nodes"]])
    for path in dict.fromkeys(node["path"] for node in kept):
        mark = "+" if path in part["added"] else "-" if path in part["lost"] else " "
        table.add_row(mark, Text(path), *(told[mode].get(path, "not reached") for mode in ("fast", "deep")))
    console.print(table)
    console.print(
        Text(f"deep adds {len(part['added'])} (+) and drops {len(part['lost'])} (-) that fast keeps", "dim")
    )
    for mode in ("fast", "deep"):
        console.print(Text(f"{mode}: {_cost(part[mode])}", "dim"), soft_wrap=True)


def _told(walk: dict[str, Any]) -> dict[str, str]:
    kept = {node["path"]: f"{_number(node)} {_distance(node)}" for node in walk["nodes"]}
    return kept | {
        node["path"]: f"{_number(node)} left out: {why_left_out(node)}" for node in walk["dropped"]
    }


def _distance(node: dict[str, Any]) -> str:
    away = f"{counted(node['hop'], 'link')} away" if node["hop"] else _SEARCHED
    return ", ".join(filter(None, (away, why_kept(node))))


def _number(node: Mapping[str, Any]) -> str:
    # Adding zero turns -0.0 into 0.0.
    return " -- " if node["similarity"] is None else f"{round(node['similarity'], 2) + 0.0:.2f}"


def _cost(walk: dict[str, Any]) -> str:
    unread = f", {counted(walk['unread'], 'linked note')} not read" if walk["unread"] else ""
    said = (
        f"{counted(len(walk['nodes']), 'note')} kept, {len(walk['dropped'])} left out{unread};"
        f" {counted(walk['embeddings_read'], 'passage')} compared in {walk['took_ms']:.0f} ms;"
        f" the walk ended because {_STOPS[walk['stopped']]}"
    )
    return said if walk["calibrated"] else f"{said}; what counts as near was not measured for this model"
