"""Which files an import in a source file means: `a.b` is `a/b.py` or `a/b/__init__.py`.

Imports are stored as links with the path of one of these files. Pure: no disk, no tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class _Family(NamedTuple):
    """Suffixes of files that import each other, and the name of the file that stands for its folder."""

    suffixes: tuple[str, ...]
    of_folder: str


_FAMILIES = (
    _Family((".py", ".pyi"), "__init__"),
    _Family((".ts", ".tsx", ".js", ".jsx", ".mjs"), "index"),
    _Family((".rs",), "mod"),
)
_BY_SUFFIX = {suffix: family for family in _FAMILIES for suffix in family.suffixes}
OF_FOLDERS = frozenset(family.of_folder + suffix for family in _FAMILIES for suffix in family.suffixes)
"""The names of the files that stand for their folders."""


def other_files(target: str, source: str) -> tuple[str, ...]:
    """Return the paths that an import in `source` may mean if there is no file of the path that it names.

    The first one that exists is meant. In a file of another language, and in a note, a path means only itself.
    """
    module, family = _split(target)
    if family is None or _split(source)[1] is not family:
        return ()
    beside = (module + suffix for suffix in family.suffixes)
    inside = (f"{module}/{family.of_folder}{suffix}" for suffix in family.suffixes)
    return tuple(path for path in (*beside, *inside) if path != target)


def names_for(path: str) -> tuple[str, ...]:
    """Return the names that an import may state and mean this file by `other_files`; `path` is in lower case."""
    module, family = _split(path)
    if family is None:
        return ()
    folder, _, stem = module.rpartition("/")
    stems = (stem, folder.rpartition("/")[2]) if stem == family.of_folder else (stem,)
    return tuple(stem + suffix for stem in stems if stem for suffix in family.suffixes)


def folders_for(names: Iterable[str]) -> frozenset[str]:
    """Return the names of the folders that imports of these names may mean."""
    found = map(_split, names)
    return frozenset(stem for stem, family in found if family is not None)


def _split(path: str) -> tuple[str, _Family | None]:
    """Return a path without its suffix, and the family of the suffix."""
    module, dot, suffix = path.rpartition(".")
    family = _BY_SUFFIX.get(dot + suffix.lower()) if module and module[-1] != "/" else None
    return module, family
