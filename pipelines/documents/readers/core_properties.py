"""Read the properties of an Office file: title, author, date of creation, tags, and whether it is private."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from pipelines.documents.readers.packages import Element, Package, attribute, local
from pipelines.documents.tags import keywords, tags_metadata
from pipelines.parsing.privacy import PRIVATE, named

# What PowerPoint writes as the title of every presentation, in the user's language.
_DEFAULT_TITLE = re.compile(r"(?:\w+[ -])?powerpoint(?:[ -]\w+)?", re.IGNORECASE)


def core_properties(package: Package) -> tuple[str, dict[str, object]]:
    """Return the title, or an empty string, and the metadata `author`, `date`, `tags` and `private`, if stated.

    Tags are the keywords and the category, `private` and more tags may be properties that the author added. Raises
    DocumentError if a part with properties is damaged.
    """
    stated = {  # keywords may have an element for each language
        local(one): " ".join(", ".join(one.itertext()).split())
        for one in _properties(package, "core-properties")
    }
    added = {
        attribute(one, "name"): "".join(one.itertext()) for one in _properties(package, "custom-properties")
    }
    tags = [stated.get("keywords", ""), stated.get("category", "")]
    tags += [str(value) for name in ("tags", "tag") for value in named(added, name)]
    metadata = tags_metadata(tag for text in tags for tag in keywords(text))
    if private := list(named(added, PRIVATE)):
        metadata.setdefault(PRIVATE, private)
    if stated.get("creator"):
        metadata["author"] = stated["creator"]
    created = stated.get("created", "")[:10]
    if _is_date(created):
        metadata["date"] = created
    title = stated.get("title", "")
    return "" if _DEFAULT_TITLE.fullmatch(title) else title, metadata


def _properties(package: Package, kind: str) -> Iterable[Element]:
    """Return the elements of a part with properties, none if the file has no such part."""
    part = next((one.target for one in package.relations("").values() if one.kind == kind), None)
    # An archive can have a member without a name, too.
    return package.tree(part) if part and part in package.parts else ()


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
