"""Decode a text file that need not be UTF-8, into characters that can be stored."""

from __future__ import annotations

import re

from pipelines.parsing.encodings import decode, is_utf_16

# SQLite ends a text at NUL, and half of a surrogate pair cannot be encoded; JSON and YAML can escape both.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def decode_text(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a file's bytes as a note's are, except that a binary file gives an empty text. Never raises.

    Binary is what has NUL bytes and is neither UTF-8 nor UTF-16 with its byte order mark.
    """
    if b"\0" in data and not is_utf_16(data):
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return "", ("not a text: the file is not UTF-8 and has NUL bytes",)
    return decode(data)


def storable(text: str) -> str:
    """Return a text with what cannot be stored replaced by U+FFFD: NUL and lone surrogates."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)
