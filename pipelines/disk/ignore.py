"""Decide which files of a vault are not notes: default rules, `.gitignore`, `.everindexignore`, Obsidian's list."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipelines.disk import beneath
from pipelines.disk.globs import MOST_WILDCARD_CHARACTERS, Globs, Rule, read_globs
from pipelines.disk.obsidian import read_filters
from pipelines.documents.formats import MARKDOWN, FormatName, format_of, is_wanted
from pipelines.errors import UnsafePathError

RULE_FILES = (".gitignore", ".everindexignore")
DEEPEST_FOLDER = 128
"""Folders nested deeper are not read. The longest path that Linux opens, 4,096 bytes, has room for 2,047, but such a
depth is usually an unpacked archive."""
MOST_BYTES = 1_000_000
"""A larger rule file is not applied."""

_OTHER_FORMAT = "its format is not indexed here"

_MOST_ALONG_A_PATH = 2 * MOST_WILDCARD_CHARACTERS
_MOST_COMPLAINTS = 100
_FOLDERS = ("@eaDir",)
_CONFIGURATION = frozenset({"_domains.yaml", "_scopes.yaml", "_contexts.yaml", "_queries.yaml"})
_OUTSIDE = "outside the vault"
_FILES = ("._*", ".DS_Store", "*.tmp", "~$*", "*.sync-conflict-*")
# Few files match any of these, and a scan tests every file.
_ANY_OF_THEM = re.compile("|".join(map(fnmatch.translate, _FILES)))


@dataclass(frozen=True, slots=True)
class _RuleFile:
    """The patterns of a rule file; `start` is the index where the path relative to its folder begins."""

    origin: str
    start: int
    globs: Globs


Scope = tuple[_RuleFile, ...]
"""The rule files that apply in a folder, those of the vault's own folder first."""


class IgnoreRules:
    """The ignore rules of one vault; a folder's rule files are read when a walk enters it.

    `generated` are the paths of Everindex's own files; `owned` are the prefixes of paths that belong to a domain, and
    `formats_of` returns the formats that the domain of a path indexes. `complaints` are sentences about rules that
    are not applied.
    """

    SYMLINK = "symlink (not followed)"
    CONFIGURES = "configures Everindex"
    TOO_DEEP = f"deeper than {DEEPEST_FOLDER} folders (not read)"

    def __init__(
        self,
        root: Path,
        generated: Iterable[str],
        owned: Iterable[str],
        formats_of: Callable[[str], Collection[str]],
    ) -> None:
        self._root = root
        self._generated = frozenset(generated)
        self._owned = tuple(owned)
        self._formats_of = formats_of
        self._filters = read_filters(root)
        self._known: dict[str, tuple[str | None, Scope]] = {}
        self._lacking: dict[FormatName, str | None] = {}
        self.complaints: dict[str, None] = dict.fromkeys(self._filters.complaints)

    def enter(self, folder: str, names: Iterable[str], scope: Scope = ()) -> Scope:
        """Read the rule files among a folder's names; return those that apply in it. `scope` are those above it."""
        present = set(names).intersection(RULE_FILES)
        # Everindex's own file comes last, so it overrides the other.
        for name in RULE_FILES if present else ():
            path = f"{folder}/{name}" if folder else name
            if name not in present or not (globs := self._read(path)):
                continue
            if sum(file.globs.size for file in scope) + globs.size > _MOST_ALONG_A_PATH:
                self._complain(
                    f"the rules of {path!r} are not applied: with those of the folders above it, its patterns with "
                    f"wildcards have more than {_MOST_ALONG_A_PATH:,} characters; shorten them"
                )
                continue
            start = len(unicodedata.normalize("NFC", folder)) + 1 if folder else 0
            scope = (*scope, _RuleFile(path, start, globs))
        return scope

    def _read(self, path: str) -> Globs | None:
        try:
            globs = _parsed(beneath.read_file(self._root, path, MOST_BYTES))
        except UnsafePathError as error:
            self._complain(f"the rules of {path!r} are not applied: {error}")
            return None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
                self._complain(
                    f"the rules of {path!r} are not applied: it cannot be read ({error.strerror}); "
                    "correct its permissions"
                )
            return None
        if globs.refused:
            self._complain(
                f"the rules of {path!r} are not applied from line {globs.refused} on: its patterns with wildcards "
                f"have more than {MOST_WILDCARD_CHARACTERS:,} characters; shorten them, or name folders instead"
            )
        return globs

    def _complain(self, sentence: str) -> None:
        if len(self.complaints) < _MOST_COMPLAINTS:
            self.complaints[sentence] = None

    def for_folder(self, folder: str) -> str | None:
        """Return the rule that ignores a folder (itself or a parent), reading the rule files on the way.

        A folder outside the vault or behind a link is ignored, and its rule files are not read.
        """
        return self._inside(folder)[0]

    def for_file(self, path: str) -> str | None:
        """Return the rule that ignores a file, including its folders as in `for_folder`, or None."""
        folder, _, name = path.rpartition("/")
        if path.startswith("/") or name == "..":
            return _OUTSIDE
        rule, scope = self._inside(folder)
        return rule or self._link(path) or self.match(path, scope)

    def rule_of(self, path: str) -> tuple[str, Rule] | None:
        """Return the rule file and its rule that ignore a file or one of its folders; None if no rule file does."""
        parts = path.split("/")
        for depth in range(1, min(len(parts), DEEPEST_FOLDER) + 1):
            place = unicodedata.normalize("NFC", "/".join(parts[:depth]))
            scope, is_folder = self._inside("/".join(parts[: depth - 1]))[1], depth < len(parts)
            # A deeper file overrides a shallower one.
            for file in reversed(scope):
                relative = place[file.start :]
                if file.globs.verdict(relative, is_folder=is_folder) is not None:
                    if rule := file.globs.ignoring(relative, is_folder=is_folder):
                        return file.origin, rule
                    break
        return None

    def lists(self, path: str, rule: str) -> bool:
        """Say whether a file that a rule ignores would else be indexed: not one of a format that is not asked for."""
        return rule != self.CONFIGURES and is_wanted(path, self._formats_of(path))

    def above(self, folder: str) -> tuple[str | None, Scope]:
        """Return the rule that ignores a folder, as `for_folder` does, and the rule files of the folders above it."""
        return self._inside(folder)[0], self._inside(folder.rpartition("/")[0])[1] if folder else ()

    def _inside(self, folder: str) -> tuple[str | None, Scope]:
        """Return the rule that ignores a folder, and the rule files that apply in it."""
        parts = folder.split("/") if folder else []
        if folder.startswith("/") or ".." in parts:
            return _OUTSIDE, ()
        rule: str | None = None
        scope: Scope = ()
        # Everything below the first folder that is nested too deep is ignored with it.
        for depth in range(min(len(parts), DEEPEST_FOLDER + 1) + 1):
            path = "/".join(parts[:depth])
            if path not in self._known:
                rule = rule or (self.match(path, scope, is_folder=True) or self._link(path) if path else None)
                self._known[path] = rule, scope if rule else self._enter(path, scope)
            rule, scope = self._known[path]
        return rule, scope

    def _enter(self, folder: str, scope: Scope) -> Scope:
        # Not Path.is_file, which raises for a name that is too long and for a folder that may not be entered.
        present = (n for n in RULE_FILES if os.path.lexists(self._root / folder / n))
        return self.enter(folder, present, scope)

    def _link(self, path: str) -> str | None:
        return self.SYMLINK if os.path.islink(self._root / path) else None  # noqa: PTH114 - likewise

    def match(self, path: str, scope: Scope, *, is_folder: bool = False) -> str | None:
        """Return the rule that ignores exactly this path, without considering its parents, or None."""
        path = path if path.isascii() else unicodedata.normalize("NFC", path)
        name = path.rpartition("/")[2]
        rule = self._rule_for_folders(path, name) if is_folder else self._rule_for_files(path, name)
        rule = rule or self._user_rule(path, scope, is_folder=is_folder)
        return rule or (None if is_folder else self._rule_for_format(path))

    def _rule_for_folders(self, path: str, name: str) -> str | None:
        if name.startswith("."):
            return "dot-folder"
        if name in _FOLDERS:
            return f"default rule {name}"
        return self.TOO_DEEP if path.count("/") >= DEEPEST_FOLDER else None

    def _rule_for_files(self, path: str, name: str) -> str | None:
        if path in self._generated:
            return "generated by Everindex"
        if path in _CONFIGURATION:
            return self.CONFIGURES
        if _ANY_OF_THEM.match(name):
            return f"default rule {next(one for one in _FILES if fnmatch.fnmatchcase(name, one))}"
        return None if path.startswith(self._owned) else "in no domain of _domains.yaml"

    def _rule_for_format(self, path: str) -> str | None:
        form = format_of(path)
        if form is None or form.name == MARKDOWN:
            return None
        if not is_wanted(path, self._formats_of(path)):
            return f"{_OTHER_FORMAT}: {form.name}; add it to `formats:` of its domain in _domains.yaml to index it"
        # Once per scan, because it searches the disk for the reader's packages.
        if form.name not in self._lacking:
            self._lacking[form.name] = form.lacks
        if extra := self._lacking[form.name]:
            return f"no reader for {form.name} is installed: everindex[{extra}]; `everindex doctor` names the command"
        return None

    def _user_rule(self, path: str, scope: Scope, *, is_folder: bool) -> str | None:
        # A deeper file overrides a shallower one.
        for file in reversed(scope):
            ignores = file.globs.verdict(path[file.start :], is_folder=is_folder)
            if ignores is not None:
                if ignores:
                    return file.origin
                break
        text = self._filters.excluding(path + "/" if is_folder else path)
        return f"Obsidian excluded files: {text}" if text else None


def is_of_other_format(rule: str) -> bool:
    """Say whether a rule ignores a readable file only because its format is not indexed there."""
    return rule.startswith(_OTHER_FORMAT)


@lru_cache(maxsize=16)
def _parsed(data: bytes) -> Globs:
    return read_globs(data.decode("utf-8", "surrogateescape"))
