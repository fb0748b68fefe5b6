"""Folders, tags and kinds that a filter names and no note has, each with the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, takewhile

from pipelines.cache.cache import Cache
from pipelines.cache.filters import values_in_use
from pipelines.filters import Filters, fold

_CLAUSES = {
    "folder": "no note is in the folder {}",
    "tag": "no note has the tag {}",
    "kind": "no note is of the kind {}",
}
_NESTED = ("folder", "tag")
_LONGEST = 4_096  # characters of a value
_ALIKE = 3  # a value that is alike is not longer than this times the wanted one


def unknown_values(caches: Iterable[tuple[Cache, Collection[str]]], filters: Filters) -> list[str]:
    """Return a clause for each folder, tag and kind of the filters, also nested ones, that no note has.

    With a cache come the paths that are hidden. Raises CacheError.
    """
    wanted: dict[str, tuple[str, ...]] = {"folder": (), "tag": (), "kind": ()}
    for one in _required(filters):
        for name, values in (("folder", one.folders), ("tag", one.tags), ("kind", one.kinds)):
            wanted[name] += values
    longest = {
        name: min(_LONGEST, _ALIKE * max(map(len, values), default=0)) for name, values in wanted.items()
    }
    in_use: dict[str, dict[str, str]] = {name: {} for name in wanted}
    if any(longest.values()):
        for cache, hidden in caches:
            for name, value, _ in values_in_use(cache, dict.fromkeys(wanted, _LONGEST), hidden):
                in_use[name] |= {fold(one): one for one in _levels(name, value, longest[name])}
    return [
        _clause(name, value, in_use[name])
        for name, values in wanted.items()
        for value in values
        if value not in in_use[name]
    ]


def _required(filters: Filters) -> Iterator[Filters]:
    """Yield filters and those nested in them, without the negated ones."""
    yield filters
    for one in (*filters.scopes, *filters.either):
        yield from _required(one)


def _levels(name: str, value: str, longest: int) -> Iterator[str]:
    """Yield a value and what contains it, as far as they may be alike to what is wanted."""
    levels = accumulate(value.split("/"), "{}/{}".format) if name in _NESTED else iter([value])
    return takewhile(lambda level: len(level) <= longest, levels)


def _clause(name: str, value: str, in_use: dict[str, str]) -> str:
    near = difflib.get_close_matches(value, in_use, 1)
    return _CLAUSES[name].format(value) + (f"; did you mean {in_use[near[0]]}?" if near else "")
