"""Escape text for a terminal, so that a note or name cannot move the cursor, set the title or hide text."""

from __future__ import annotations

import re

# C0 except tab and line feed, DEL, C1, characters that change the writing direction, and lone surrogates: Python
# reads file names that are not UTF-8 as these, and no stream can encode them.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return a text with every control and bidirectional character as its escape: `\x1b`, `\u202e`."""
    return _HIDDEN.sub(_escape, text)


def visible_json(text: str) -> str:
    """Return the same JSON with these characters written as JSON escapes."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"  # noqa: PLR2004 - what two digits can say
