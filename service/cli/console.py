"""The consoles of the commands. Data is printed as plain text, without control characters or markup."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from queue_config.visible import visible, visible_json

_UNLIMITED = 10_000
"""Columns of what is no terminal."""


class Terminal(Console):
    """A console that escapes control and bidirectional characters and does not interpret markup.

    rich adds styles around the text afterwards, so that printed data cannot forge them.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = _UNLIMITED  # a file or another program reads it: nothing may be wrapped or cut

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as styled text; without this, rich drops a few of these characters."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of anything that is printed, each safe to show."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def say(self, text: str, style: str | None = None) -> None:
        """Print a text without wrapping: a wrapped path cannot be copied."""
        self.print(text, style=style, soft_wrap=True)


out = Terminal()
err = Terminal(stderr=True)


def complain(message: str) -> None:
    """Print an error, in one line on standard error."""
    err.print(Text("error:", "red"), message, soft_wrap=True)


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as JSON, for programs; without indentation it is one line, printed at once."""
    sys.stdout.write(visible_json(json.dumps(value, ensure_ascii=False, indent=indent)) + "\n")
    if indent is None:
        sys.stdout.flush()
