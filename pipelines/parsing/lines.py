r"""The lines of a Markdown text: `\n`, `\r\n` and `\r` end a line."""

import re
from itertools import pairwise

LINE_END = re.compile(r"\r\n?|\n")


def line_starts(text: str) -> list[int]:
    """Return the offset at which each line of a text starts."""
    return [0, *(end.end() for end in LINE_END.finditer(text))]


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, each with its end."""
    return [text[start:end] for start, end in pairwise([*line_starts(text), len(text)]) if end > start]


def line_start(text: str, at: int) -> int:
    """Return the offset at which the line around another offset starts."""
    start = text.rfind("\n", 0, at) + 1
    # Only from there: most texts have no `\r`, and looking for one would read from here to their beginning.
    return max(start, text.rfind("\r", start, at) + 1)
