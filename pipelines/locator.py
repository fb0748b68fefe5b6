"""The parts of a document, and where in its file each is: a page, a slide, rows, a key, a cell, a card."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, Self, get_args

LocatorKind = Literal["page", "slide", "rows", "key", "cell", "card", "symbol"]
KINDS: tuple[LocatorKind, ...] = get_args(LocatorKind)


@dataclass(frozen=True, slots=True)
class Locator:
    """A place in a document. Numbers count from 1; a kind without numbers has 0 in both.

    `name` is the sheet of rows (empty where a file has only one), the path of a key (`thesis.summary`; empty for what
    is at the top of a record), the first words of a card, or the name of a symbol. The numbers of a symbol are its
    lines, those of a key both the line of the file on which it begins (0: unknown).
    """

    kind: LocatorKind
    name: str = ""
    first: int = 0
    last: int = 0

    def shown(self) -> str:
        """Return the place as a person writes it after a file's name: `p. 3`, `[Costs] rows 21-40`, `thesis`."""
        numbers = f"{self.first}-{self.last}" if self.last > self.first else str(self.first)
        if self.kind == "page":
            return f"{'pp.' if self.last > self.first else 'p.'} {numbers}"
        if self.kind == "rows":
            rows = f"row{'s' if self.last > self.first else ''} {numbers}"
            return f"[{self.name}] {rows}" if self.name else rows
        if self.kind in ("slide", "cell"):
            return f"{self.kind}{'s' if self.last > self.first else ''} {numbers}"
        if self.kind == "key":
            return self.name or "top level"
        return self.name or self.kind

    def as_json(self) -> str:
        """Return the place as it is stored."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return a stored place. Raises ValueError if the text is not one."""
        stored = json.loads(text)
        if not isinstance(stored, dict) or stored.keys() != cls.__dataclass_fields__.keys():
            raise ValueError(f"not a place in a document: {text[:100]!r}")
        return cls(**stored)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document that is never merged with another: a page, a slide, twenty rows, a function.

    It is the document's `text[start:end]`. `label` names it as a heading does, and `headings` are those that enclose
    it, outermost first, its own included; both may be empty. `place` is None where lines say where it is.
    """

    start: int
    end: int
    label: str = ""
    headings: tuple[str, ...] = ()
    place: Locator | None = None
