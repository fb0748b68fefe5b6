"""Read a text file: one block, whose lines are the file's."""

from __future__ import annotations

from pipelines.documents.decoding import decode_text
from pipelines.documents.document import Document
from pipelines.locator import Block


def read(data: bytes) -> Document:
    """Return the text of a file. Never raises."""
    text, warnings = decode_text(data)
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return Document(text, (Block(start, end),) if start < end else (), warnings=warnings)
