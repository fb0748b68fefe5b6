"""The tags of a document that is not Markdown: those of its parts, and the keywords that its properties state."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipelines.parsing.frontmatter import is_tag
from pipelines.parsing.privacy import PRIVATE

INSIDE = "_inside"
"""The property with what parts of a document say about privacy, so that it holds for the whole document."""
_MOST_TAGS = 10_000
"""Characters of all tags; the wire takes 65,536 bytes of properties."""
_BETWEEN = re.compile(r"[,;\n]")


def keywords(text: str) -> list[str]:
    """Return the keywords in a property that lists them, separated by commas or semicolons."""
    return [word.strip().removeprefix("#").strip("/") for word in _BETWEEN.split(text) if word.strip()]


def tags_metadata(tags: Iterable[str], others: Iterable[str] = ()) -> dict[str, object]:
    """Return the property with a document's tags; where they are too many, it counts as private.

    Keywords of several words, and `others`, are none of its tags, but decide about privacy as a note's `tags` do.
    """
    distinct = dict.fromkeys(tags)
    proper = [tag for tag in distinct if is_tag(tag)]
    inside = [*(tag for tag in distinct if not is_tag(tag)), *dict.fromkeys(others)]
    if sum(len(tag) + 1 for tag in (*proper, *inside)) > _MOST_TAGS:
        return {PRIVATE: True}
    return ({"tags": proper} if proper else {}) | ({INSIDE: {"tags": inside}} if inside else {})
