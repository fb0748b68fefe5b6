"""Read a canvas (JSON Canvas 1.0): its cards under the labels of their groups, its links, its labelled edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pipelines.documents.canvas_nodes import MOST_GROUPS, Node, nodes_of, objects_in, string_in
from pipelines.documents.decoding import decode_text
from pipelines.documents.document import Builder, Document, DocumentLink
from pipelines.documents.inner_markdown import read_markdown
from pipelines.documents.json_values import parse_json
from pipelines.documents.limits import MOST_CHARACTERS
from pipelines.documents.tags import tags_metadata
from pipelines.errors import DocumentError
from pipelines.locator import Locator

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
    reading = _Reading(path)
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


class _Reading:
    """Collects the blocks of a canvas."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.builder = Builder()
        self.tags: dict[str, None] = {}
        self.is_full = False

    def add_cards(self, nodes: Iterable[Node]) -> None:
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

    def _add_text(self, card: Node) -> None:
        text = self._fitting(card.text)
        inner = read_markdown(self._path, text)
        first = inner.headings[0] if inner.headings else None
        headings = (*card.labels, first.text) if first and first.start == 0 and first.text else card.labels
        start = self._add(text, headings, card.name)
        self.tags |= dict.fromkeys(inner.tags)
        for link in inner.links_from(start):
            self.builder.link(link)

    def _add_list(self, cards: Sequence[Node]) -> None:
        lines, links, size = [], [], 0
        for card in cards:
            if card.kind == "file":
                links.append(DocumentLink(card.text, size, card.fragment, embed=True))
            lines.append(f"{card.text}#{card.fragment}" if card.fragment else card.text)
            size += len(lines[-1]) + 1
        self._add_lines(lines, links, cards[0].labels, cards[0].name)

    def add_connections(self, nodes: Iterable[Node], edges: Iterable[Mapping[str, object]]) -> None:
        """Add a line for each edge that has a label or joins two files, and links to these files."""
        by_id: dict[str, Node] = {}
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
