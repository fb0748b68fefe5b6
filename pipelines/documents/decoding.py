"""Decode a text file that need not be UTF-8, into characters that can be stored."""

from __future__ import annotations

import codecs
import re

# SQLite ends a text at NUL, and half of a surrogate pair cannot be encoded; JSON and YAML can escape both.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_MARKS_OF_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_text(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a file's bytes without their byte order mark, and report what could not be decoded. Never raises.

    UTF-16 if its byte order mark says so, otherwise UTF-8, otherwise Windows-1252. A binary file, one that is not
    UTF-8 and has NUL bytes, gives an empty text.
    """
    warnings = []
    try:
        text = data.decode("utf-16" if data.startswith(_MARKS_OF_UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        if error.encoding != "utf-8":
            text = data.decode("utf-16", "replace")
            warnings.append(f"not UTF-16 at byte {error.start}: unreadable bytes were replaced")
        elif b"\0" in data:
            return "", ("not a text: the file is not UTF-8 and has NUL bytes",)
        else:
            text = data.decode("cp1252", "replace")
            warnings.append(f"not UTF-8 at byte {error.start}: read as Windows-1252")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
        warnings.append("NUL bytes were replaced")
    return text, tuple(warnings)


def storable(text: str) -> str:
    """Return a text with what cannot be stored replaced by U+FFFD: NUL and lone surrogates."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)
