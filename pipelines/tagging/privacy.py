"""May a note leave the machine? Pure; where it cannot be known, it may not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from pipelines.frontmatter import LARGEST_BLOCK
from pipelines.model import Privacy

_NO = frozenset({"", "false", "no", "off", "n", "0", "null", "~"})
# Frontmatter that is never closed, or is not the first thing in the file, is text to the parser, not to its author.
_WRITTEN = re.compile(r"""^["']?private["']?[ \t]*::?[ \t]*(.*)$""", re.IGNORECASE | re.MULTILINE)


def may_leave(
    privacy: Privacy,
    *,
    path: str,
    text: str,
    frontmatter: Mapping[str, object],
    tags: Iterable[str],
    warnings: Sequence[str],
) -> str | None:
    """Return why a note must not leave the machine, in words for its owner; None where it may.

    The values are the parsed note's; `text` is the whole file, since frontmatter may have been taken for text.
    """
    if not privacy.llm:
        return "its domain has `llm: off`"
    if any("frontmatter" in warning for warning in warnings):
        return "its frontmatter cannot be read, so it may be private"
    said = [value for name, value in frontmatter.items() if _plain(name) == "private"]
    if any(map(_means_yes, said)) or any(map(_means_yes, _written(text))):
        return "it says that it is private"
    for tag in tags:
        for listed in privacy.tags:
            if _lies_in(_plain(tag), _plain(listed)):
                return f"the tag {listed!r} is private"
    for folder in privacy.folders:
        if _lies_in(_plain(path), _plain(folder)):
            return f"the folder {folder!r} is private"
    return None


def _written(text: str) -> list[str]:
    return [value.partition(" #")[0].strip(" \t\r\"',") for value in _WRITTEN.findall(text[:LARGEST_BLOCK])]


def _means_yes(value: object) -> bool:
    """Say whether a value may mean yes: whatever is not plainly no."""
    if isinstance(value, Mapping):
        return bool(value)
    if isinstance(value, (list, tuple)):
        return any(map(_means_yes, value))
    if value is None or isinstance(value, (bool, int, float)):
        return bool(value)
    return str(value).strip().casefold() not in _NO


def _plain(name: str) -> str:
    """Return a tag or path for comparison: composed, without case, `#`, slashes at the ends, `./` or `/**`."""
    folded = unicodedata.normalize("NFC", name.strip().replace("\\", "/")).casefold()
    return unicodedata.normalize("NFC", folded).removeprefix("#").removeprefix("./").rstrip("*").strip("/")


def _lies_in(name: str, place: str) -> bool:
    return place in {"", ".", name} or name.startswith(f"{place}/")
