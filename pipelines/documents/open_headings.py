"""Follow which headings are open while a document is read from its first block to its last."""

from __future__ import annotations

from collections.abc import Iterable


class OpenHeadings:
    """The headings that enclose the part of a document that is being read."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    @property
    def path(self) -> tuple[str, ...]:
        """The open headings, outermost first."""
        return tuple(text for _, text in self._open)

    def open(self, level: int, text: str) -> tuple[str, ...]:
        """Open a heading, which closes those of its level and below; return the path."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, text))
        return self.path

    def open_all(self, headings: Iterable[tuple[int, str]]) -> tuple[str, ...]:
        """Open the headings of one block, in order; return the path that names the block.

        It ends with the block's first heading, or with the first one under it, and so on: of `# A`, `## B`, `## C` it
        is (A, B), while the blocks that follow are under C.
        """
        named: tuple[str, ...] | None = None
        deepest: int | None = None
        for level, text in headings:
            path = self.open(level, text)
            if named is None or (deepest is not None and level > deepest):
                named, deepest = path, level
            else:
                deepest = None
        return self.path if named is None else named
