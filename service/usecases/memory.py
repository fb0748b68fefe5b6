"""Data of the caches held in memory, kept up to date with the commits of other processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import structlog

from pipelines.cache.cache import SqliteCache
from pipelines.errors import CacheError, StateError
from pipelines.model import Domain, NoteName
from pipelines.search.bm25 import Compared, WordPostings
from pipelines.search.code import SymbolNames
from pipelines.search.names import NameIndex, NoteNames, OtherNames, equivalents, names_of
from pipelines.search.vectors import Nearest, QuantizedVectors, StoredVectors
from pipelines.state.state import MEMORY, VECTORS, State
from pipelines.tagging.vocabulary import TaxonomyFile, load
from pipelines.vault.files import path_on_disk
from workers.resources import Resources

if TYPE_CHECKING:
    from pipelines.cache.pgvector import VectorTable

# With fewer chunks a scan of the file is faster than reading the candidates' vectors.
_FEWEST = 4_000
# The size of one comparison: a few milliseconds, and all chunks of a large vault within minutes.
_CHUNKS_AT_ONCE = 1_000
_WORDS_AT_ONCE = 30
_VECTORS_AT_ONCE = 100
_END = 2**63 - 1
# What no longer fitted into memory has to fit with room to spare before it is read into it again.
_FITS_AGAIN = 0.9

log = structlog.get_logger()

Held = TypeVar("Held", QuantizedVectors, WordPostings)


def _if_many(held: Held | None) -> Held | None:
    return held if held is not None and len(held) >= _FEWEST else None


class InMemory:
    """Vectors, words and names by cache file. One fixed thread calls `follow` and `compare`; any thread may read.

    Vectors or words that are not there (yet), or of few chunks, are None: the file is read instead. Vectors beyond
    the memory for them are in PostgreSQL, if `table_of` returns a table.
    """

    def __init__(
        self,
        most_bytes: float | None = None,
        table_of: Callable[[SqliteCache], VectorTable | None] = lambda _: None,
    ) -> None:
        self._quantized: dict[Path, QuantizedVectors] = {}
        self._words: dict[Path, WordPostings] = {}
        self._names: dict[Path, NoteNames] = {}
        self._symbols: dict[Path, SymbolNames] = {}
        # A version is valid only for one connection; another one may have opened another file.
        self._followed: dict[Path, tuple[SqliteCache, int]] = {}
        self._compared: dict[Path, int] = {}
        self._multiplies = True
        self._most_bytes = most_bytes
        self._table_of = table_of
        self._bytes: dict[Path, int] = {}
        self._outgrown: dict[Path, VectorTable | None] = {}

    def quantized(self, cache: SqliteCache) -> Nearest | None:
        """Return a cache's vectors."""
        if table := self._outgrown.get(cache.path):
            return StoredVectors(table) if table.is_complete else None
        return _if_many(self._quantized.get(cache.path))

    def words(self, cache: SqliteCache) -> WordPostings | None:
        """Return a cache's words, even if few: merging several domains needs them."""
        return self._words.get(cache.path)

    def names(self, cache: SqliteCache) -> NoteNames:
        """Return the names of a cache's notes; the first question reads them where `follow` did not."""
        return self._names.setdefault(cache.path, NoteNames())

    def symbols(self, cache: SqliteCache) -> SymbolNames:
        """Return the symbols of a cache's source files, which questions read and follow."""
        return self._symbols.setdefault(cache.path, SymbolNames())

    def tables(self) -> dict[Path, VectorTable]:
        """Return the tables in PostgreSQL that are asked instead of memory."""
        return {path: table for path, table in self._outgrown.copy().items() if table}

    def follow(self, caches: Sequence[SqliteCache]) -> bool:
        """Take in what was committed to these caches, and let go of those that are no longer among them.

        Say whether all that is read ahead is there. Raises CacheError after the others were followed where one of
        them cannot be read; that one is let go of.
        """
        failed = None
        for cache in caches:
            try:
                self._follow(cache)
                if table := self._outgrown.get(cache.path):
                    table.follow(cache)
            except CacheError as error:
                self._let_go(cache.path)
                failed = error
        for path in self._words.keys() - {cache.path for cache in caches}:
            self._let_go(path)
        if failed is not None:
            raise failed
        return self._followed.keys() >= {cache.path for cache in caches}

    def _follow(self, cache: SqliteCache) -> None:
        now = (cache, cache.data_version())
        last = self._followed.get(cache.path)
        if last == now:
            return
        if last is not None and last[0] is not cache:
            self._let_go(cache.path)
        self._follow_vectors(cache)
        self.names(cache).follow(cache)
        words = self._words.setdefault(cache.path, WordPostings())
        if words.follow(cache):
            self._followed[cache.path] = now

    def _let_go(self, path: Path) -> None:
        for held in (
            self._quantized,
            self._words,
            self._names,
            self._symbols,
            self._followed,
            self._compared,
            self._bytes,
            self._outgrown,
        ):
            held.pop(path, None)

    def compare(self, cache: SqliteCache) -> tuple[Compared, bool]:
        """Compare a part of what is held with the cache, the next part each time; say whether it was the last one.

        What differs is let go of, and read again by the next `follow`. Raises CacheError.
        """
        words, quantized = self._words.get(cache.path), self._quantized.get(cache.path)
        if words is None:
            return Compared(0, 0), False
        after = self._compared.get(cache.path, 0)
        upto = words.window(after, _CHUNKS_AT_ONCE)
        end = _END if upto is None else upto
        found = words.compare(cache, after, end, _WORDS_AT_ONCE)
        if quantized is not None:
            found += quantized.compare(cache, after, end, _VECTORS_AT_ONCE)
        self._compared[cache.path] = upto or 0
        if found.differing:
            self._let_go(cache.path)
        return found, upto is None

    def _follow_vectors(self, cache: SqliteCache) -> None:
        if not self._fits(cache):
            self._quantized.pop(cache.path, None)
            return
        if not (self._multiplies and cache.meta.embeds):
            return
        quantized = self._quantized.get(cache.path)
        if quantized is None:
            quantized = QuantizedVectors(cache.meta.dimension)
            self._multiplies = quantized.is_right()
            if not self._multiplies:
                log.warning(
                    "vectors are read from the file for each question: this machine cannot multiply bytes"
                )
                return
        quantized.follow(cache)
        # Only now: the vectors of half of a cache would hide the other half.
        self._quantized[cache.path] = quantized

    def _fits(self, cache: SqliteCache) -> bool:
        """Say whether the memory for vectors holds those of a cache; if not, it gets a table in PostgreSQL."""
        if self._most_bytes is None:
            return True
        path = cache.path
        self._bytes[path] = cache.search.count_vectors() * cache.meta.dimension
        needed = sum(self._bytes[held] for held in {*self._quantized, path})
        fits = needed <= self._most_bytes * (_FITS_AGAIN if path in self._outgrown else 1)
        if fits:
            self._outgrown.pop(path, None)
        elif path not in self._outgrown:
            self._outgrown[path] = self._table_of(cache)
        return fits


def keep_tables(resources: Resources, memory: InMemory) -> None:
    """Make what the tables in PostgreSQL lack, such as an index, which may take minutes.

    Raises ConfigurationError where pgvector cannot be used, CacheError.
    """
    state = resources.state()
    for path, table in memory.tables().items():
        known = state.get(VECTORS, path.stem)
        built = table.keep(resources.settings.vector_index, known.value if known else None)
        if built:
            state.put(VECTORS, built, path.stem)
            log.info("vectors in PostgreSQL", cache=path.stem, **built._asdict())


# The other names of tags, for domains whose questions count them.


class Vocabularies:
    """The tags of each domain's vocabulary by their names, read again when its file changes. Any thread may ask."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._known: dict[str, tuple[TaxonomyFile, OtherNames]] = {}

    def names(self, domain: Domain) -> OtherNames:
        """Return the names of each tag by each of them; of a file that cannot be read the last valid state."""
        root = self._resources.root
        last = self._known.get(domain.slug)
        raw = path_on_disk(root, domain.within(domain.taxonomy))
        found = load(root, raw, last[0] if last else None)
        if last is None or found is not last[0]:
            last = found, equivalents((entry.tag, *entry.aliases) for entry in found.taxonomy.entries)
            self._known[domain.slug] = last
        return last[1]


# Compare the data held in memory with the caches in the background; count and report differences.


_KIND = "memory"


def check_memory(
    resources: Resources, memory: InMemory, readers: Sequence[tuple[Domain, SqliteCache]]
) -> None:
    """Compare a part of each domain's data in memory with its cache. Raises CacheError.

    A difference stays a problem until all data was compared again without one.
    """
    counts = memory_counts(resources.state())
    problems = resources.problems()
    for domain, cache in readers:
        slug = domain.slug
        found, is_last = memory.compare(cache)
        counts[slug] = counts.get(slug, Compared(0, 0)) + found
        if found.differing:
            log.error("what is held in memory differed from the index", domain=slug, lists=found.differing)
            problems.report(
                _KIND,
                slug,
                f"{slug}: words or vectors held in memory differed from the index, so answers may have lacked notes;"
                " they were reloaded; please report this bug with the query worker's log",
            )
        elif is_last:
            problems.clear(_KIND, slug)
    with suppress(StateError):  # a role in PostgreSQL that only reads does not count
        resources.state().put(MEMORY, {slug: (one.checked, one.differing) for slug, one in counts.items()})


def memory_counts(state: State) -> dict[str, Compared]:
    """Return by domain how many lists in memory were compared with the cache so far, and how many differed."""
    said = state.get(MEMORY)
    return {slug: Compared(*counts) for slug, counts in said.value.items()} if said else {}


class TitleIndex:
    """The titles, aliases and paths of all notes, for names that are being typed. Any thread may ask."""

    def __init__(self) -> None:
        self._index = NameIndex()
        # What the index contains: by domain and path, title and aliases as JSON. The lock guards both.
        self._held: dict[str, dict[str, tuple[str, str]]] = {}
        self._lock = threading.Lock()
        self._own = threading.local()

    def find(
        self,
        query: str,
        limit: int,
        readers: Sequence[tuple[Domain, SqliteCache]],
        hidden: Callable[[str], frozenset[str]],
    ) -> list[NoteName]:
        """Return the names that match best, without notes that are `hidden` by now. Raises CacheError."""
        with self._lock:
            self._refresh(readers)
            return self._index.find(query, limit, {domain.slug: hidden(domain.slug) for domain, _ in readers})

    def _refresh(self, readers: Sequence[tuple[Domain, SqliteCache]]) -> None:
        """Bring the index up to date; a cache is read only if it changed since this thread last looked."""
        seen: dict[str, tuple[SqliteCache, int]] = self._own.__dict__.setdefault("seen", {})
        for gone in set(self._held) - {domain.slug for domain, _ in readers}:
            self._hold(gone, {})
            del self._held[gone]  # whatever a thread has seen, it is read again when it is back
        for domain, cache in readers:
            now = (cache, cache.data_version())
            if seen.get(domain.slug) != now or domain.slug not in self._held:
                self._hold(domain.slug, cache.notes.names())
                seen[domain.slug] = now

    def _hold(self, slug: str, names: dict[str, tuple[str, str]]) -> None:
        """Make the index hold these names of a domain, changing only what differs."""
        held = self._held.get(slug, {})
        self._held[slug] = names
        if names == held:  # most commits change no name
            return
        for path in [path for path in held.keys() | names.keys() if held.get(path) != names.get(path)]:
            for change, of in ((self._index.remove, held), (self._index.add, names)):
                if path in of:
                    title, aliases = of[path]
                    for name in names_of(slug, path, title, json.loads(aliases)):
                        change(name)
