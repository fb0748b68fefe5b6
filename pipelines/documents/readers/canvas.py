"""Read a canvas (JSON Canvas 1.0): its cards under the labels of their groups, its links, its labelled edges."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pipelines.documents.document import (
    MOST_CHARACTERS,
    Builder,
    Document,
    DocumentLink,
    decode_text,
    parse_json,
    tags_metadata,
)
from pipelines.documents.markup import read_markdown
from pipelines.errors import DocumentError
from pipelines.model import Locator

# The nodes of a canvas: which group each lies in, and in which order a person reads them.


MOST_GROUPS = 500
"""Groups of a canvas whose labels are used; each card is compared with each of them."""

_TEXT_OF = {"text": "text", "file": "file", "link": "url", "group": "label"}
_LONGEST_NAME = 60
_LONGEST_LINE = 500
_LINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()]*\)")


@dataclass(frozen=True, slots=True)
class CanvasNode:
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


def nodes_of(values: Sequence[object]) -> list[CanvasNode]:
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
    around: dict[int, tuple[CanvasNode, ...]] = {}
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


def _innermost(
    node: CanvasNode, boxes: Iterable[tuple[float, float, float, float, CanvasNode]]
) -> CanvasNode | None:
    """Return the first group, the smallest, in which the middle of a node lies: a card may stick out a little."""
    across, down = node.x + node.width / 2, node.y + node.height / 2
    for left, right, top, bottom, group in boxes:
        if left <= across <= right and top <= down <= bottom:
            return group
    return None


def _node(value: Mapping[str, object]) -> CanvasNode | None:
    kind = string_in(value, "type")
    text = value.get(_TEXT_OF.get(kind, ""), "" if kind == "group" else None)
    if kind not in _TEXT_OF or not isinstance(text, str):
        return None
    return CanvasNode(
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


MOST_NODES = 10_000
"""Each card may be Markdown, which takes about 0.5 ms to parse on a busy machine."""

MOST_EDGES = 50_000
_CONNECTIONS = "Connections"
_ARROWS = {(True, True): "↔", (True, False): "←", (False, True): "→", (False, False): "—"}


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001  (as every reader)
    """Return a block per text card, one per group with its files and addresses, and one with the connections.

    Cards come by group, then from top to bottom, then from left to right. A card's place is named by its first words.
    Raises DocumentError.
    """
    text, warnings = decode_text(data)
    if not text.strip() and not warnings:
        return Document("", (), warnings=("the canvas is empty",))
    value = parse_json(path, text)
    listed = value.get("nodes", []) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(listed, list):
        raise DocumentError(
            f"{path!r} is not a canvas: it has no list of nodes; save it again in its program"
        )
    edges = value.get("edges")
    edges = edges if isinstance(edges, list) else []
    nodes = nodes_of(listed[:MOST_NODES])
    reading = _CanvasReader(path)
    reading.add_cards(nodes)
    reading.add_connections(nodes, objects_in(edges[:MOST_EDGES]))
    left_out = min(len(listed), MOST_NODES) - len(nodes)
    groups = sum(node.kind == "group" for node in nodes)
    return reading.builder.document(
        metadata=tags_metadata(reading.tags),
        warnings=(
            *warnings,
            *_cut("nodes", MOST_NODES, len(listed)),
            *_cut("groups", MOST_GROUPS, groups, "used"),
            *_cut("edges", MOST_EDGES, len(edges)),
            *([f"nodes that are not of a known form were left out: {left_out}"] if left_out else []),
            *([f"only the first {MOST_CHARACTERS:,} characters were read"] if reading.is_full else []),
        ),
    )


def _cut(what: str, most: int, found: int, done: str = "read") -> Iterator[str]:
    if found > most:
        yield f"only the first {most:,} of {found:,} {what} were {done}"


class _CanvasReader:
    """Collects the blocks of a canvas."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.builder = Builder()
        self.tags: dict[str, None] = {}
        self.is_full = False

    def add_cards(self, nodes: Iterable[CanvasNode]) -> None:
        """Add the text cards of each group, and after them its files and addresses as the lines of one block."""
        cards = [node for node in nodes if node.kind != "group" and node.text]
        for _, group in groupby(cards, key=lambda node: node.place[0]):
            listed = []
            for card in group:
                if card.kind == "text":
                    self._add_text(card)
                else:
                    listed.append(card)
            if listed:
                self._add_list(listed)

    def _add_text(self, card: CanvasNode) -> None:
        text = self._fitting(card.text)
        inner = read_markdown(self._path, text)
        first = inner.headings[0] if inner.headings else None
        headings = (*card.labels, first.text) if first and first.start == 0 and first.text else card.labels
        start = self._add(text, headings, card.name)
        self.tags |= dict.fromkeys(inner.tags)
        for link in inner.links_from(start):
            self.builder.link(link)

    def _add_list(self, cards: Sequence[CanvasNode]) -> None:
        lines, links, size = [], [], 0
        for card in cards:
            if card.kind == "file":
                links.append(DocumentLink(card.text, size, card.fragment, embed=True))
            lines.append(f"{card.text}#{card.fragment}" if card.fragment else card.text)
            size += len(lines[-1]) + 1
        self._add_lines(lines, links, cards[0].labels, cards[0].name)

    def add_connections(self, nodes: Iterable[CanvasNode], edges: Iterable[Mapping[str, object]]) -> None:
        """Add a line for each edge that has a label or joins two files, and links to these files."""
        by_id: dict[str, CanvasNode] = {}
        for node in nodes:
            if node.identifier:
                by_id.setdefault(node.identifier, node)
        lines: list[str] = []
        links: list[DocumentLink] = []
        size = 0
        for edge in edges:
            first, second = by_id.get(string_in(edge, "fromNode")), by_id.get(string_in(edge, "toNode"))
            if first is None or second is None:
                continue
            label = string_in(edge, "label")
            joins_files = first.kind == second.kind == "file"
            if joins_files:
                links += [DocumentLink(node.text, size, node.fragment, label) for node in (first, second)]
            elif not label:
                continue
            arrow = _ARROWS[edge.get("fromEnd") == "arrow", edge.get("toEnd", "arrow") == "arrow"]
            lines.append(f"{first.name} {f'— {label} {arrow}' if label else arrow} {second.name}")
            size += len(lines[-1]) + 1
        self._add_lines(lines, links, (_CONNECTIONS,), _CONNECTIONS)

    def _add_lines(
        self, lines: Sequence[str], links: Iterable[DocumentLink], headings: tuple[str, ...], name: str
    ) -> None:
        """Add a block of lines; the offsets of the links count from its start."""
        text = self._fitting("\n".join(lines))
        start = self._add(text, headings, name)
        for link in links:
            if link.at < len(text):
                self.builder.link(replace(link, at=start + link.at))

    def _add(self, text: str, headings: tuple[str, ...], name: str) -> int:
        return self.builder.add(text, headings[-1] if headings else "", headings, Locator("card", name))

    def _fitting(self, text: str) -> str:
        """Return as much of a text as the document may still take."""
        room = max(MOST_CHARACTERS - self.builder.size, 0)
        self.is_full = self.is_full or len(text) > room
        return text[:room]
