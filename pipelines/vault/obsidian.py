"""What Obsidian shares: its excluded files (`userIgnoreFilters` in `.obsidian/app.json`), daily notes, and links."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import re2

from pipelines.errors import UnsafePathError
from pipelines.vault import paths
from pipelines.vault.files import path_on_disk

# Compile JavaScript's regular expressions, ignoring case, for RE2: any pattern costs a bounded step per character.
#
# What RE2 writes differently is translated; what it cannot match (lookaround, backreferences) is refused.


MOST_CHARACTERS = 500
MOST_SIZE = 8_000
"""Upper bound on RE2's instructions for a pattern; it takes each at most once per byte of a text."""
_MOST_MEMORY = 2**19
"""Bytes that RE2 may take for a pattern; where they do not suffice, it is slower."""

_ESCAPE = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|c[a-zA-Z]|.)"
_TOKEN = re.compile(
    rf"""
      (?P<opens>  \( (?: \?: | \?<[^=!>][^>]*> | (?!\?) ) )
    | (?P<closes> \) )
    | (?P<keeps>  [|^$] | \\[bB] )
    | (?P<repeats> (?: [*+?] | \{{[0-9]+(?:,[0-9]*)?\}} ) \?? )
    | (?P<dot>    \. )
    | (?P<set>    \[ \^? (?: \\. | [^\]\\] )* \] )
    | (?P<refused> \(\? | \[ | \\[1-9k] | \\\Z )
    | (?P<letter> {_ESCAPE} | . )
    """,
    re.DOTALL | re.VERBOSE,
)
_RANGE = re.compile(rf"({_ESCAPE}|.)(?:-({_ESCAPE}|.))?", re.DOTALL)
_REFUSED = {
    "(?": "it looks ahead or behind, or a group's name is not closed",
    "[": "it has a `[` without a `]`",
    "\\": "it ends with a backslash",
}
_REFERS_BACK = "it refers back to a group"

_ANYTHING = r"\x{0}-\x{10ffff}"
_NOT_A_LINE_END = r"[^\n\r\x{2028}\x{2029}]"
_CLASSES = {name: name for name in (r"\d", r"\D", r"\w", r"\W")} | {
    r"\s": r"\t-\r\pZ\x{feff}",
    # All others, because RE2 has no complement within a set.
    r"\S": (
        r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
        r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}"
    ),
}
_LETTERS = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\f": "\f", r"\v": "\v", r"\0": "\0", r"\b": "\b"}
_SURROGATES = range(0xD800, 0xE000)


class PatternError(ValueError):
    """A pattern cannot be used; the message is the reason, as a clause."""


def compiled(pattern: str, most_size: int = MOST_SIZE) -> Any:
    """Return a pattern of RE2's for text in UTF-8. Raises PatternError with the reason, as a clause."""
    if len(pattern) > MOST_CHARACTERS:
        raise PatternError(f"it has more than {MOST_CHARACTERS} characters")
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        regex = re2.compile("".join(_translated(pattern)), options)
    except re2.error as error:
        reason = error.args[0].decode().partition(":")[0]  # after the colon is a part of the translation
        raise PatternError(f"RE2 says {reason!r}") from None
    if regex.programsize > most_size:
        raise PatternError("it is too large, with its repetitions expanded")
    return regex


def _translated(pattern: str) -> Iterator[str]:
    before: str | None = "opens"
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        if kind == "refused":
            raise PatternError(_REFUSED.get(text, _REFERS_BACK))
        if kind == "repeats":
            if before in ("opens", "keeps", "repeats"):
                raise PatternError(f"its `{text}` follows nothing that can be repeated")
            yield re.sub(r"\b0+(?=[0-9])", "", text)  # RE2 takes {01} literally
        elif kind == "opens":
            yield "(?:"
        elif kind == "dot":
            yield _NOT_A_LINE_END
        elif kind == "set":
            yield _set(text)
        elif kind == "letter":
            yield f"[{_class_or_letter(text)}]"
        else:
            yield text
        before = kind


def _set(text: str) -> str:
    negated = text[1] == "^"
    parts = []
    for ends in _RANGE.findall(text[2 if negated else 1 : -1]):
        low, high = (_class_or_letter(end) if end else "" for end in ends)
        is_range = high and not _CLASSES.keys() & ends
        parts.append(f"{low}-{high}" if is_range else f"{low}\\-{high}" if high else low)
    if not parts:  # RE2 would take the bracket that ends it as one of its letters
        negated, parts = not negated, [_ANYTHING]
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _class_or_letter(text: str) -> str:
    """Return what RE2 writes within brackets for a letter or an escape."""
    if text in _CLASSES:
        return _CLASSES[text]
    kind, digits = text[1:2], text[2:]
    if kind and kind in "123456789k":
        raise PatternError(_REFERS_BACK)
    if not digits:
        code = ord(_LETTERS.get(text, text[-1]))
    elif kind == "c":
        code = ord(digits) % 32
    else:
        code = int(digits, 16)
    if code in _SURROGATES:
        raise PatternError("it names half a character; write the character itself")
    return f"\\x{{{code:x}}}"


OBSIDIAN_SETTINGS = ".obsidian/app.json"
_DAILY_NOTES = ".obsidian/daily-notes.json"
_MOST_BYTES = 1_000_000
_MOST_FILTERS = 1_000


@dataclass(frozen=True, slots=True)
class ExcludedFiles:
    """The files that Obsidian excludes; `complaints` are sentences about filters that cannot be used."""

    prefixes: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, Any], ...] = ()
    complaints: tuple[str, ...] = ()

    def excluding(self, path: str) -> str | None:
        """Return the filter that excludes a path (a folder's ends with `/`), or None."""
        if self.prefixes:
            lowered = path.lower()
            for text, prefix in self.prefixes:
                if lowered.startswith(prefix):
                    return text
        # A name that is not Unicode has characters that UTF-8 lacks.
        encoded = path.encode("utf-8", "replace")
        for text, regex in self.expressions:
            if regex.search(encoded):
                return text
        return None


def is_vault(root: Path) -> bool:
    """Say whether Obsidian has opened a folder as a vault."""
    return (root / OBSIDIAN_SETTINGS).parent.is_dir()


def open_link(root: Path, key: str) -> str:
    """Return the link that opens the file with this key in Obsidian."""
    file = root.resolve() / path_on_disk(root, key)
    return f"obsidian://open?path={quote(os.fsencode(file), safe='')}"


def read_filters(root: Path) -> ExcludedFiles:
    """Read a vault's filters, which are path prefixes, or regular expressions between slashes."""
    try:
        data = paths.read_file(root, OBSIDIAN_SETTINGS, _MOST_BYTES)
    except UnsafePathError as error:
        return ExcludedFiles(complaints=(f"Obsidian's excluded files are not applied: {error}",))
    except OSError:
        return ExcludedFiles()  # no settings
    return _parse(data)


def read_daily_format(root: Path) -> str | None:
    """Return the format of the names of daily notes, below their folder, if the vault states one."""
    try:
        settings = json.loads(paths.read_file(root, _DAILY_NOTES, _MOST_BYTES).decode("utf-8"))
        form, folder = settings.get("format"), settings.get("folder")
    except (OSError, UnsafePathError, ValueError, AttributeError, RecursionError):
        return None  # no settings, or not written by Obsidian
    if not isinstance(form, str) or not form.strip():
        return None
    folder = folder.strip("/ ") if isinstance(folder, str) else ""
    # Brackets quote in such a format; a name that has some itself cannot be quoted.
    return f"[{folder}/]{form}" if folder and not set("[]") & set(folder) else form


@lru_cache(maxsize=4)
def _parse(data: bytes) -> ExcludedFiles:
    try:
        settings = json.loads(data.decode("utf-8"))
        filters = settings.get("userIgnoreFilters") or []
    except (ValueError, AttributeError):
        return ExcludedFiles()  # not written by Obsidian
    except RecursionError:
        return ExcludedFiles(
            complaints=(f"Obsidian's excluded files are not applied: {OBSIDIAN_SETTINGS} is nested too deep",)
        )
    if not isinstance(filters, list):
        return ExcludedFiles()
    texts = [text for text in filters if isinstance(text, str) and text]
    complaints: list[str] = []
    if len(texts) > _MOST_FILTERS:
        complaints.append(
            f"Obsidian's excluded files: there are more than {_MOST_FILTERS}, and the rest are not applied; "
            "use .everindexignore"
        )
    texts = texts[:_MOST_FILTERS]
    is_regex = {text: len(text) > 1 and text[0] == text[-1] == "/" for text in texts}
    return ExcludedFiles(
        tuple((text, unicodedata.normalize("NFC", text).lower()) for text in texts if not is_regex[text]),
        tuple(_compiled([text for text in texts if is_regex[text]], complaints)),
        tuple(complaints),
    )


def _compiled(texts: list[str], complaints: list[str]) -> Iterator[tuple[str, Any]]:
    left = MOST_SIZE  # of all together, because each path is matched against all of them
    for text in texts:
        try:
            regex = compiled(text[1:-1], left)
        except PatternError as error:
            complaints.append(
                f"Obsidian's excluded files: {text[:200]!r} is not applied: {error}; use .everindexignore"
            )
        else:
            left -= regex.programsize
            yield text, regex
