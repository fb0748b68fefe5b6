"""What Obsidian shares: its excluded files (`userIgnoreFilters` in `.obsidian/app.json`), daily notes, and links."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from pipelines.disk import beneath
from pipelines.disk.regex import MOST_PLACES, Regex
from pipelines.disk.regex_syntax import PatternError
from pipelines.disk.vault import path_on_disk
from pipelines.errors import UnsafePathError

OBSIDIAN_SETTINGS = ".obsidian/app.json"
_DAILY_NOTES = ".obsidian/daily-notes.json"
_MOST_BYTES = 1_000_000
_MOST_FILTERS = 1_000


@dataclass(frozen=True, slots=True)
class Filters:
    """The files that Obsidian excludes; `complaints` are sentences about filters that cannot be used."""

    prefixes: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, Regex], ...] = ()
    complaints: tuple[str, ...] = ()

    def excluding(self, path: str) -> str | None:
        """Return the filter that excludes a path (a folder's ends with `/`), or None."""
        if self.prefixes:
            lowered = path.lower()
            for text, prefix in self.prefixes:
                if lowered.startswith(prefix):
                    return text
        for text, regex in self.expressions:
            if regex.finds(path):
                return text
        return None


def is_vault(root: Path) -> bool:
    """Say whether Obsidian has opened a folder as a vault."""
    return (root / OBSIDIAN_SETTINGS).parent.is_dir()


def open_link(root: Path, key: str) -> str:
    """Return the link that opens the file with this key in Obsidian."""
    file = root.resolve() / path_on_disk(root, key)
    return f"obsidian://open?path={quote(os.fsencode(file), safe='')}"


def read_filters(root: Path) -> Filters:
    """Read a vault's filters, which are path prefixes, or regular expressions between slashes."""
    try:
        data = beneath.read_file(root, OBSIDIAN_SETTINGS, _MOST_BYTES)
    except UnsafePathError as error:
        return Filters(complaints=(f"Obsidian's excluded files are not applied: {error}",))
    except OSError:
        return Filters()  # no settings
    return _parse(data)


def read_daily_format(root: Path) -> str | None:
    """Return the format of the names of daily notes, below their folder, if the vault states one."""
    try:
        settings = json.loads(beneath.read_file(root, _DAILY_NOTES, _MOST_BYTES).decode("utf-8"))
        form, folder = settings.get("format"), settings.get("folder")
    except (OSError, UnsafePathError, ValueError, AttributeError, RecursionError):
        return None  # no settings, or not written by Obsidian
    if not isinstance(form, str) or not form.strip():
        return None
    folder = folder.strip("/ ") if isinstance(folder, str) else ""
    # Brackets quote in such a format; a name that has some itself cannot be quoted.
    return f"[{folder}/]{form}" if folder and not set("[]") & set(folder) else form


@lru_cache(maxsize=4)
def _parse(data: bytes) -> Filters:
    try:
        settings = json.loads(data.decode("utf-8"))
        filters = settings.get("userIgnoreFilters") or []
    except (ValueError, AttributeError):
        return Filters()  # not written by Obsidian
    except RecursionError:
        return Filters(
            complaints=(f"Obsidian's excluded files are not applied: {OBSIDIAN_SETTINGS} is nested too deep",)
        )
    if not isinstance(filters, list):
        return Filters()
    texts = [text for text in filters if isinstance(text, str) and text]
    complaints: list[str] = []
    if len(texts) > _MOST_FILTERS:
        complaints.append(
            f"Obsidian's excluded files: there are more than {_MOST_FILTERS}, and the rest are not applied; "
            "use .everindexignore"
        )
    texts = texts[:_MOST_FILTERS]
    is_regex = {text: len(text) > 1 and text[0] == text[-1] == "/" for text in texts}
    return Filters(
        tuple((text, unicodedata.normalize("NFC", text).lower()) for text in texts if not is_regex[text]),
        tuple(_compiled([text for text in texts if is_regex[text]], complaints)),
        tuple(complaints),
    )


def _compiled(texts: list[str], complaints: list[str]) -> Iterator[tuple[str, Regex]]:
    left = MOST_PLACES  # of all together, because each path is matched against all of them
    for text in texts:
        try:
            regex = Regex(text[1:-1], left)
        except PatternError as error:
            complaints.append(
                f"Obsidian's excluded files: {text[:200]!r} is not applied: {error}; use .everindexignore"
            )
        else:
            left -= regex.size
            yield text, regex
