"""Decode a text file: UTF-8, UTF-16 with its byte order mark, or the likeliest of the encodings before Unicode."""

from __future__ import annotations

import codecs
import re

SAMPLE = 32_768
"""Bytes of a file by which an old encoding is recognised."""

_BEFORE, _LOOKED_THROUGH = 1_000, 1_000_000
# In the order in which equally likely ones are chosen. ASCII is ASCII in each, so that `---` and `private` stay.
_NAMES = {
    "cp1252": "Windows-1252",
    "cp1251": "Windows-1251",
    "cp932": "Shift-JIS",
    "euc_jp": "EUC-JP",
    "gb18030": "GB18030",
    "cp949": "EUC-KR",
    "big5": "Big5",
    "koi8_r": "KOI8-R",
    "cp1253": "Windows-1253",
    "cp1250": "Windows-1250",
    "cp1254": "Windows-1254",
    "cp1255": "Windows-1255",
    "cp1256": "Windows-1256",
    "cp874": "Windows-874",
    "mac_roman": "Mac Roman",
    "cp850": "code page 850",
    "cp866": "code page 866",
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
}
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_OLD = [codec for codec in _NAMES if codec not in _MARKS.values()]
_BEYOND_ASCII, _BEYOND_ASCII_BYTES = re.compile("[^\0-\x7f]"), re.compile(rb"[^\0-\x7f]")
# Encodings count as equally likely if their texts are as little chaos, and as much a language, within these.
_SAME_CHAOS, _SAME_COHERENCE = 0.03, 0.1


def encoding_of(data: bytes) -> tuple[bytes, str]:
    """Return a text's byte order mark, empty without one, and the codec of what follows it.

    It is UTF-8 also if it is damaged: if it has more characters of UTF-8 than bytes that cannot be, or NUL bytes.
    """
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    if mark:
        return mark, _MARKS[mark]
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return b"", "utf-8" if b"\0" in data else _likeliest(_sample(data))
    return b"", "utf-8"


def is_utf_16(data: bytes) -> bool:
    """Say whether a file has the byte order mark of UTF-16."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def name_of(codec: str) -> str:
    """Return the usual name of a codec that `encoding_of` returns."""
    return _NAMES[codec]


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a file's bytes without their byte order mark, and report what is not UTF-8. Never raises."""
    mark, codec = encoding_of(data)
    warnings = []
    try:
        text = data[len(mark) :].decode(codec)
        damage = ""
    except UnicodeDecodeError as error:
        text = data[len(mark) :].decode(codec, "replace")
        damage = f"not {name_of(codec)} at byte {error.start + len(mark)}: unreadable bytes were replaced"
    if codec != "utf-8":
        where = "" if mark else f" at byte {_first_error(data)}"
        warnings.append(f"not UTF-8{where}: read as {name_of(codec)}")
    if damage:
        warnings.append(damage)
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
        warnings.append("NUL bytes were replaced")
    return text, tuple(warnings)


def _first_error(data: bytes) -> int:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return len(data)


def _likeliest(sample: bytes) -> str:
    """Return UTF-8 for what is UTF-8 with damage, else the likeliest old encoding, Windows-1252 if nothing is."""
    text = sample.decode("utf-8", "replace")
    damage = text.count("\ufffd")
    if len(_BEYOND_ASCII.findall(text)) >= 2 * damage:
        return "utf-8"
    import charset_normalizer  # noqa: PLC0415 - only for the few files that are not UTF-8

    likely = list(charset_normalizer.from_bytes(sample, cp_isolation=_OLD, preemptive_behaviour=False))
    if not likely:
        return _OLD[0]
    least = min(one.chaos for one in likely)
    likely = [one for one in likely if one.chaos <= least + _SAME_CHAOS]
    most = max(one.coherence for one in likely)
    names = {
        name
        for one in likely
        if one.coherence >= most - _SAME_COHERENCE
        for name in one.could_be_from_charset
    }
    return next((codec for codec in _OLD if codec in names), _OLD[0])


def _sample(data: bytes) -> bytes:
    """Return the first lines of a text that are not ASCII, as far as they tell enough."""
    first = _BEYOND_ASCII_BYTES.search(data)
    start = max(0, first.start() - _BEFORE) if first else 0
    near = data[start : start + _LOOKED_THROUGH].split(b"\n")
    sample = b"\n".join(line for line in near if not line.isascii())
    if len(sample) <= SAMPLE:
        return sample
    # A cut within a character would be an error in most encodings.
    for end in (b"\n", b" "):
        whole, _, _ = sample[:SAMPLE].rpartition(end)
        if not whole.isascii():
            return whole
    return sample[:SAMPLE]
