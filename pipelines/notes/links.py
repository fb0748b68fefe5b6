"""Resolve links to files, by the rules observed in Obsidian 1.13. Pure: no disk, no tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from rapidfuzz import fuzz, process

from pipelines.model import Link
from pipelines.notes.lexical import normal_form

# Which files an import in a source file means: `a.b` is `a/b.py` or `a/b/__init__.py`.
#
# Imports are stored as links with the path of one of these files. Pure: no disk, no tables.


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


NOTE_SUFFIXES = (".md", ".markdown")
# What Obsidian embeds besides notes.
_MEDIA_SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".svg", ".webp"}
    | {".flac", ".m4a", ".mp3", ".ogg", ".wav", ".3gp", ".mkv", ".mov", ".mp4", ".ogv", ".webm"}
    | {".pdf", ".canvas", ".base"}
)
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_NAMES_OF_ONE = 4
_FOLDERS = ("", ".", "..")
_ALIKE = 75.0  # of 100: allows one or two wrong letters in ten


@dataclass(frozen=True, slots=True)
class Resolved:
    """The file that a link means; `ambiguous`: other files of that name would fit if the rules did not decide."""

    path: str
    ambiguous: bool


def name_key(path: str) -> str:
    """Return the key under which links find a file: its last part, without case and in one Unicode form.

    Diacritics and punctuation count, unlike in questions that name notes (`pipelines.search.names.words_of_name`).
    """
    return _lower(normal_form("NFC", path.rpartition("/")[2]))


def _lower(text: str) -> str:
    # The lower case of a capital sigma depends on the next character, and so on whether `.md` is written.
    return text.lower().replace("\u03c2", "\u03c3")


def lookup_key(path: str) -> str:
    """Return the key by which `resolve` looks up a path: `name_key`, and for `a/b/__init__.py` its folder's as well.

    A vault may have thousands of files with that name.
    """
    folder, _, name = path.rpartition("/")
    key = name_key(name)
    return f"{name_key(folder)}/{key}" if folder and key in OF_FOLDERS else key


def target_name(target: str) -> str:
    """Return the key under which a link finds its target."""
    return name_key(target.strip().rstrip("/"))


def inner_target(address: str) -> tuple[str, str] | None:
    """Return target and fragment of a Markdown link's address; None if it is empty or leads out of the vault."""
    if _EXTERNAL.match(address):
        return None
    target, _, fragment = address.partition("#")
    target, fragment = unquote(target), unquote(fragment)
    return (target, fragment) if target.strip() or fragment.strip() else None


def link_names_of(path: str) -> tuple[str, ...]:
    """Return the name keys of the targets that may mean a file, to be resolved again when it is added or removed."""
    name = name_key(path)
    without = (name.removesuffix(suffix) for suffix in NOTE_SUFFIXES if name.endswith(suffix))
    imports = names_for(_lower(normal_form("NFC", path)))
    return tuple(dict.fromkeys((name, *without, *imports)))


def resolve(target: str, source: str, named: Callable[[str], Sequence[str]]) -> Resolved | None:
    """Return the file that a link in the note `source` means, or None.

    `named` returns the vault's files that have a `lookup_key`; all that have its name, if it is only a name. The
    first rule that applies decides: the source itself for an empty target; the path as written from the vault's root;
    the path from the source's own folder; among all files whose path ends with the target, the one with the shortest
    path. A target that begins with `./`, `../` or `/` means only that one place, and one that ends with `/`, `.` or
    `..` is a folder, so it means no file. If the target is a path that no file has, an import in a source file means
    another file of the same module.
    """
    target = normal_form("NFC", target.strip())
    if not target:
        return Resolved(source, ambiguous=False)
    if target.rpartition("/")[2] in _FOLDERS:
        return None
    folder = source.rpartition("/")[0]
    rooted = target.startswith("/")
    relative = target.startswith(("./", "../"))
    place = _join("" if rooted or not relative else folder, target)
    anywhere = not (rooted or relative)
    others = other_files(place, source)
    for written in (*(place + suffix for suffix in ("", *NOTE_SUFFIXES)), *others):
        found = _ending(named(lookup_key(written)), _lower(written), anywhere=anywhere)
        if found:
            return Resolved(_best(found, written, folder if anywhere else ""), ambiguous=len(found) > 1)
    return None


def _ending(paths: Sequence[str], wanted: str, *, anywhere: bool) -> list[str]:
    lower = {path: _lower(path) for path in paths}
    return [path for path, low in lower.items() if low == wanted or (anywhere and low.endswith("/" + wanted))]


def _best(found: Sequence[str], written: str, folder: str) -> str:
    wanted = _lower(written)
    beside = _lower(f"{folder}/{written}").lstrip("/")

    def rank(path: str) -> tuple[bool, bool, int, bool, str]:
        # Of two names that differ only in case, prefer the one as written.
        low = _lower(path)
        return low != wanted, low != beside, len(path), not path.endswith(written), path

    return min(found, key=rank)


def _join(folder: str, target: str) -> str:
    """Return a target's path from the vault's root; `..` cannot lead out of the root."""
    parts = folder.split("/") if folder else []
    for part in target.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in _FOLDERS:
            parts.append(part)
    return "/".join(parts)


LONGEST_TYPE = 100
"""Characters of a type of links."""
_MOST_TYPES = 100  # of a note


def type_of(key: str) -> str | None:
    """Return the type of the links under a key: without case, with `_` for spaces; None if it cannot be a type."""
    name = normal_form("NFC", "_".join(key.casefold().split()))
    return name if 0 < len(name) <= LONGEST_TYPE and name.isprintable() else None


def types_of(keys: Iterable[str]) -> frozenset[str]:
    """Return the types that are asked for; a key that cannot be a type stays as it is, and no link has it."""
    return frozenset(type_of(key) or key for key in keys)


def with_few_types(links: Iterable[Link]) -> Iterator[Link]:
    """Yield a note's links; those of further types than the first hundred have none."""
    known: set[str | None] = {None}
    for link in links:
        if link.type not in known and len(known) > _MOST_TYPES:
            yield replace(link, type=None)
        else:
            known.add(link.type)
            yield link


def suggest(target: str, names: Sequence[tuple[str, str]], limit: int, own: str = "") -> list[str]:
    """Return up to `limit` paths that a broken link may mean, the most similar of (lower-case name, path) first.

    A bare alias is such a link, because Obsidian resolves only file names. For a missing picture no note is
    suggested, and the note with the link (`own`) is never suggested.
    """
    wanted = target_name(target)
    if PurePosixPath(wanted).suffix in _MEDIA_SUFFIXES:
        return []
    for suffix in NOTE_SUFFIXES:
        wanted = wanted.removesuffix(suffix)
    found = process.extract(
        wanted,
        [name for name, _ in names],
        scorer=fuzz.ratio,
        score_cutoff=_ALIKE,
        limit=2 * limit + _NAMES_OF_ONE,
    )
    paths = dict.fromkeys(names[index][1] for _, _, index in found)
    return [path for path in paths if path != own][:limit]
