"""Read a text file: one block, whose lines are the file's."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.documents.decoding import decode_text
from pipelines.documents.document import Document
from pipelines.locator import Block


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001  (as every reader)
    """Return the text of a file. Never raises: the worker calls it in its own process."""
    text, warnings = decode_text(data)
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return Document(text, (Block(start, end),) if start < end else (), warnings=warnings)
