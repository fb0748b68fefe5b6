"""Tags that a filter names and no note has, with the tag that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from pipelines.filters import fold
from pipelines.store.cache import Cache
from pipelines.store.filters import values_in_use

_LONGEST = 200


def unknown_tags(caches: Iterable[tuple[Cache, Collection[str]]], wanted: Iterable[str]) -> list[str]:
    """Return a clause for each wanted tag (folded) that no note has; with a cache come the paths that are hidden.

    Raises CacheError.
    """
    in_use: dict[str, str] = {}
    for cache, hidden in caches:
        for name, value, _ in values_in_use(cache, {"tag": _LONGEST, "folder": 0, "kind": 0}, hidden):
            parts = value.split("/") if name == "tag" else []
            for end in range(1, len(parts) + 1):
                shown = "/".join(parts[:end])
                in_use[fold(shown)] = shown
    return [_clause(tag, in_use) for tag in wanted if tag not in in_use]


def _clause(tag: str, in_use: dict[str, str]) -> str:
    near = difflib.get_close_matches(tag, in_use, 1)
    return f"no note has the tag {tag}" + (f"; did you mean {in_use[near[0]]}?" if near else "")
