"""Files that are not indexed, but whose names have the words of a question: told where no note answers it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pipelines.cache.cache import SqliteCache
from pipelines.errors import CacheError
from pipelines.indexing.reconcile import rules_of
from pipelines.indexing.status import why
from pipelines.question import Question
from pipelines.search.names import terms_of
from pipelines.vault import files
from pipelines.vault.ignore import IgnoreRules
from service.schemas.search import UnindexedFile
from workers.resources import Resources

if TYPE_CHECKING:
    from service.usecases.search import View

_MOST_SHOWN = 3
_MOST_EXAMINED = 20
_MOST_WORDS = 32
_LEAST_SHARED = 2
_LEAST_SHARE = 0.5
_BY_DESIGN = (IgnoreRules.CONFIGURES, IgnoreRules.GENERATED, "default rule")
"""How the rules begin that ignore what nobody takes for a note."""


def files_called(view: View, question: Question) -> list[UnindexedFile]:
    """Return up to three files that are ignored or parked and whose names have the words of a question.

    None for who does not see all notes: whether such a file is private is not known. The files are those that the
    last comparisons found, so that no folder is read.
    """
    caches = {domain.slug: cache for domain, cache in view.readers()} if view.audience.sees_all else {}
    asked = frozenset(list(terms_of(question.text))[:_MOST_WORDS])
    if question.is_list or not asked or not caches:
        return []
    found: list[str] = []
    with suppress(CacheError):
        first, *others = caches.values()  # each knows the files of the whole vault
        named = _nearest(asked, first.notes.files_without_note(asked))
        indexed = [cache.notes.names(named) for cache in others]
        found = [path for path in named if not any(path in one for one in indexed)]
    return list(islice(_states(view.resources, caches, found[:_MOST_EXAMINED]), _MOST_SHOWN))


def _nearest(asked: frozenset[str], paths: Collection[str]) -> list[str]:
    """Return the paths of files that are called as it is asked, those that share most words first."""
    shared: list[tuple[int, int, str]] = []
    for path in paths:
        name = terms_of(PurePosixPath(path).stem).keys()
        both = len(asked & name)
        is_called = both in (len(asked), len(name)) or (
            both >= _LEAST_SHARED and both >= _LEAST_SHARE * len(name)
        )
        if both and is_called and files.is_note(path):
            shared.append((-both, len(name), path))
    return [path for *_, path in sorted(shared)]


def _states(
    resources: Resources, caches: Mapping[str, SqliteCache], paths: Collection[str]
) -> Iterator[UnindexedFile]:
    root, registry = resources.root, resources.registry()
    rules = rules_of(root, registry)
    for path in paths:
        known = why(path, root, registry, rules, caches)
        is_meant = known["state"] in ("ignored", "parked") and not str(known["reason"]).startswith(_BY_DESIGN)
        if is_meant and files.look(root, files.path_on_disk(root, path)) is not None:
            yield UnindexedFile(path=path, state=known["state"], reason=known["reason"])
