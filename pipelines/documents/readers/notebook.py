"""Read a Jupyter notebook: a block per cell with its source and its text outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pipelines.documents.document import (
    MOST_CHARACTERS,
    Builder,
    Document,
    OpenHeadings,
    decode_text,
    keywords,
    parse_json,
    tags_metadata,
)
from pipelines.documents.markup import InnerMarkdown, read_markdown
from pipelines.errors import DocumentError
from pipelines.model import Locator
from pipelines.notes.frontmatter import strings
from pipelines.notes.privacy import PRIVATE, named

MOST_CELLS = 20_000
MOST_OUTPUT = 2_000
"""Characters of the outputs of a cell that are read."""

_LEVELS = range(1, 7)
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# A picture pasted into Markdown; its base64 would be most of the cell's words.
_PICTURE = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[\w+/=%-]+")


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001  (as every reader)
    """Return a block per cell of a notebook in format 3 or 4. Images and HTML are left out.

    The headings of Markdown cells enclose the cells below. Raises DocumentError.
    """
    text, warnings = decode_text(data)
    value = parse_json(path, text)
    cells = _cells(value)
    if cells is None:
        raise DocumentError(f"{path!r} is not a notebook: it has no list of cells; save it again in Jupyter")
    reading = _NotebookReader(path)
    for number, cell in enumerate(cells[:MOST_CELLS], 1):
        reading.add_cell(number, cell)
        if reading.is_full:
            break
    return reading.builder.document(
        title=reading.title,
        metadata=_metadata(value, cells, reading.tags),
        warnings=(*warnings, *reading.warnings(len(cells))),
    )


class _NotebookReader:
    """Collects the cells of a notebook; its title is the first heading of the first level."""

    def __init__(self, path: str) -> None:
        self.builder = Builder()
        self.title = ""
        self.tags: dict[str, None] = {}
        self.is_full = False
        self._path = path
        self._headings = OpenHeadings()
        self._last = 0
        self._shortened = 0
        self._unknown = 0

    def add_cell(self, number: int, cell: object) -> None:
        """Add a cell as far as there is room for its text."""
        self._last = number
        self._unknown += not isinstance(cell, dict)
        source, inner = _source(self._path, cell)
        headings = self._headings.open_all((heading.level, heading.text) for heading in inner.headings)
        self.title = self.title or next((h.text for h in inner.headings if h.level == 1), "")
        self.tags |= dict.fromkeys(inner.tags)
        outputs = _outputs(cell)
        self._shortened += len(outputs) > MOST_OUTPUT
        text = "\n\n".join(filter(None, (source, outputs[:MOST_OUTPUT])))
        room = MOST_CHARACTERS - self.builder.size
        self.is_full = len(text) > room
        label = headings[-1] if headings else ""
        start = self.builder.add(text[:room], label, headings, Locator("cell", "", number, number))
        for link in inner.links_from(start):
            if link.at < self.builder.size:
                self.builder.link(link)

    def warnings(self, cells: int) -> Iterator[str]:
        """Yield what was left out."""
        if self.is_full:
            yield f"only the first {MOST_CHARACTERS:,} characters were read, up to cell {self._last:,}"
        elif self._last < cells:
            yield f"only the first {self._last:,} of {cells:,} cells were read"
        if self._unknown:
            yield f"cells that are not of a known form were left out: {self._unknown:,}"
        if self._shortened:
            yield f"outputs that were cut after {MOST_OUTPUT:,} characters: {self._shortened:,}"


def _cells(value: object) -> list[object] | None:
    """Return the cells of a notebook, in format 3 those of all worksheets; None if it has none."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("cells"), list):
        return list(value["cells"])
    sheets = value.get("worksheets")
    if not isinstance(sheets, list):
        return None
    return [
        cell
        for sheet in sheets
        if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)
        for cell in sheet["cells"]
    ]


def _source(path: str, cell: object) -> tuple[str, InnerMarkdown]:
    """Return what the author wrote into a cell, and what it contains if it is Markdown."""
    if not isinstance(cell, dict):
        return "", InnerMarkdown()
    source = _PICTURE.sub("", _joined(cell.get("source", cell.get("input")))).strip()
    if cell.get("cell_type") == "heading" and source:
        level = cell.get("level")
        source = f"{'#' * (level if isinstance(level, int) and level in _LEVELS else 1)} {source}"
    elif cell.get("cell_type") != "markdown":
        return source, InnerMarkdown()
    return source, read_markdown(path, source)


def _outputs(cell: object) -> str:
    """Return what a cell printed and the text form of its results, without colours and overwritten lines."""
    outputs = cell.get("outputs") if isinstance(cell, dict) else None
    if not isinstance(outputs, list):
        return ""
    return "\n".join(filter(None, (text for output in outputs for text in _texts(output))))


def _texts(output: object) -> Iterator[str]:
    if not isinstance(output, dict):
        return
    data = output.get("data")
    text = _joined(data.get("text/plain") if isinstance(data, dict) else output.get("text"))
    for line in _COLOURS.sub("", text).replace("\r\n", "\n").split("\n"):
        shown = line.rstrip().rpartition("\r")[2]
        if shown:
            yield shown


def _joined(value: object) -> str:
    """Return a text that a notebook stores as a string or as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _metadata(value: object, cells: list[object], tags: Iterable[str]) -> dict[str, object]:
    """Return the title, authors and tags that a notebook states, and whether it is private.

    `tags` are those in its Markdown. Those of cells say how Jupyter shows them; they decide about privacy alone.
    """
    of_cells = (
        word for cell in cells if isinstance(cell, dict) for word in _words(cell.get("metadata"), "tags")
    )
    stated = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(stated, dict):
        return tags_metadata(tags, of_cells)
    own = (word for name in ("tags", "tag", "keywords") for word in _words(stated, name))
    metadata = tags_metadata((*tags, *own), of_cells)
    title, authors = stated.get("title"), stated.get("authors")
    names = [
        author["name"]
        for author in (authors if isinstance(authors, list) else ())
        if isinstance(author, dict) and isinstance(author.get("name"), str)
    ]
    if names:
        metadata["author"] = names
    if isinstance(title, str) and title.strip():
        metadata["title"] = title
    if private := list(named(stated, PRIVATE)):
        metadata.setdefault(PRIVATE, private)
    return metadata


def _words(metadata: object, name: str) -> Iterator[str]:
    """Yield the tags in the values of that name in metadata."""
    for value in named(metadata, name):
        for text in strings(value):
            yield from keywords(text)
