"""What an Office file says of itself: title, author and date of creation."""

from __future__ import annotations

import re
from datetime import date

from pipelines.documents.readers.packages import Package, local

# What PowerPoint writes as the title of every presentation, in the user's language.
_DEFAULT_TITLE = re.compile(r"(?:\w+[ -])?powerpoint(?:[ -]\w+)?", re.IGNORECASE)


def core_properties(package: Package) -> tuple[str, dict[str, object]]:
    """Return the title, or an empty string, and the metadata `author` and `date`, as far as the file states them.

    Raises DocumentError if the part with the properties is damaged.
    """
    part = next((one.target for one in package.relations("").values() if one.kind == "core-properties"), "")
    if part not in package.parts:
        return "", {}
    stated = {local(one): " ".join((one.text or "").split()) for one in package.tree(part)}
    title = stated.get("title", "")
    metadata: dict[str, object] = {}
    if stated.get("creator"):
        metadata["author"] = stated["creator"]
    created = stated.get("created", "")[:10]
    if _is_date(created):
        metadata["date"] = created
    return "" if _DEFAULT_TITLE.fullmatch(title) else title, metadata


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
