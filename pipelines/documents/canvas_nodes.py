"""The nodes of a canvas: which group each lies in, and in which order a person reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

MOST_GROUPS = 500
"""Groups of a canvas whose labels are used; each card is compared with each of them."""

_TEXT_OF = {"text": "text", "file": "file", "link": "url", "group": "label"}
_LONGEST_NAME = 60
_LONGEST_LINE = 500
_LINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()]*\)")


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its text is that of a card, a file's path, an address, or a group's label; its box is in pixels.

    `labels` are those of the groups around it, outermost first, and `place` gives the reading order: the numbers of
    these groups, then from top to bottom, then from left to right.
    """

    identifier: str
    kind: str
    text: str
    fragment: str
    x: float
    y: float
    width: float
    height: float
    labels: tuple[str, ...] = ()
    place: tuple[tuple[int, ...], float, float] = ((), 0.0, 0.0)

    @property
    def name(self) -> str:
        """How the node is called: the first words of a card, a file's name, an address, a group's label."""
        if self.kind == "file":
            return self.text.rpartition("/")[2][:_LONGEST_NAME]
        lines = (line[:_LONGEST_LINE].strip(" \t#>*-") for line in self.text.splitlines())
        first = next(filter(None, lines), self.kind)
        if self.kind == "text":
            first = _LINK.sub(r"\1\2", first)
        if len(first) <= _LONGEST_NAME:
            return first
        return first[:_LONGEST_NAME].rpartition(" ")[0] or first[:_LONGEST_NAME]


def objects_in(values: Sequence[object]) -> Iterator[Mapping[str, object]]:
    """Yield the JSON objects among some values."""
    return (value for value in values if isinstance(value, dict))


def string_in(value: Mapping[str, object], name: str) -> str:
    """Return a property of a JSON object on one line; empty if it is no string."""
    found = value.get(name)
    return " ".join(found.split()) if isinstance(found, str) else ""


def nodes_of(values: Sequence[object]) -> list[Node]:
    """Return the nodes of a known type in reading order, each with the labels of its groups.

    A node without its text, path or address is left out. Only the first 500 groups give labels.
    """
    nodes = [node for value in objects_in(values) if (node := _node(value)) is not None]
    groups = sorted(
        [node for node in nodes if node.kind == "group"][:MOST_GROUPS],
        key=lambda group: group.width * group.height,
    )
    numbers = {id(group): n for n, group in enumerate(sorted(groups, key=lambda group: (group.y, group.x)))}
    boxes = [(one.x, one.x + one.width, one.y, one.y + one.height, one) for one in groups]
    around: dict[int, tuple[Node, ...]] = {}
    # From the largest to the smallest: when a group's turn comes, those around it have had theirs.
    for index in reversed(range(len(groups))):
        outer = _innermost(groups[index], boxes[index + 1 :])
        around[id(groups[index])] = (*(around[id(outer)] if outer else ()), groups[index])
    placed = []
    for node in nodes:
        inner = None if node.kind == "group" else _innermost(node, boxes)
        enclosing = around[id(inner)] if inner else ()
        labels = tuple(group.text for group in enclosing if group.text)
        place = (tuple(numbers[id(group)] for group in enclosing), node.y, node.x)
        placed.append(replace(node, labels=labels, place=place))
    return sorted(placed, key=lambda node: node.place)


def _innermost(node: Node, boxes: Iterable[tuple[float, float, float, float, Node]]) -> Node | None:
    """Return the first group, the smallest, in which the middle of a node lies: a card may stick out a little."""
    across, down = node.x + node.width / 2, node.y + node.height / 2
    for left, right, top, bottom, group in boxes:
        if left <= across <= right and top <= down <= bottom:
            return group
    return None


def _node(value: Mapping[str, object]) -> Node | None:
    kind = string_in(value, "type")
    text = value.get(_TEXT_OF.get(kind, ""), "" if kind == "group" else None)
    if kind not in _TEXT_OF or not isinstance(text, str):
        return None
    return Node(
        identifier=string_in(value, "id"),
        kind=kind,
        text=text.strip() if kind == "text" else " ".join(text.split()),
        fragment=string_in(value, "subpath").removeprefix("#") if kind == "file" else "",
        x=_number(value.get("x")),
        y=_number(value.get("y")),
        width=_number(value.get("width")),
        height=_number(value.get("height")),
    )


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) else 0.0
