"""Tell addresses that lead to a file of the vault from those that lead elsewhere."""

from __future__ import annotations

import re

from pipelines.parsing.links import inner_target

_QUERY = re.compile(r"^([^#?]*)\?[^#]*")
_LONGEST = 4_096


def file_at(address: str) -> tuple[str, str] | None:
    """Return the target and the fragment of a relative address, percent-decoded and without its query, or None."""
    where = inner_target(_QUERY.sub(r"\1", address.strip()[:_LONGEST]))
    return where if where is not None and where[0] else None
