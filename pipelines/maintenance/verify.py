"""Compare a cache with the disk and with itself, report every difference by name, and repair them."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from pipelines.cache import verify as check
from pipelines.cache.cache import SqliteCache
from pipelines.cache.verify import make_pending, word_drift
from pipelines.domains import Registry
from pipelines.errors import CacheCorruptError, NoteChangedError, NoteError, NoteVanishedError
from pipelines.graph.ranking import rank_drift
from pipelines.indexing.ingest import Ingest, split_otherwise
from pipelines.indexing.reconcile import file_drift, is_below, rules_of
from pipelines.model import Chunk, FoundFile, Link, Note
from pipelines.notes.chunk import chunk_note
from pipelines.search.bm25 import Compared
from pipelines.search.excerpts import split_sentences
from pipelines.store import WritableCache
from pipelines.vault import files as vault
from pipelines.vault.scan import Scan, scan_vault

Kind = Literal[
    "damage",
    "schema",
    "path",
    "hash",
    "note",
    "chunk",
    "link",
    "edge",
    "words",
    "vector",
    "sentences",
    "second",
    "rank",
    "ledger",
    "orphan",
]
_REBUILD = "; `everindex index --rebuild` builds a new cache beside it"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference found. `path` is "" if it concerns no known note."""

    domain: str
    kind: Kind
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a comparison; `left_out` notes are known to be behind the disk and were not compared.

    `in_memory`: what a running service has compared so far of its in-memory data.
    """

    differences: tuple[Difference, ...]
    compared: int
    left_out: int
    in_memory: Compared | None = None


def verify(cache: SqliteCache, ingest: Ingest, registry: Registry) -> Verdict:
    """Compare a domain's cache with the disk and with itself, as of one moment.

    Raises VaultNotFoundError. A file that SQLite finds damaged is not examined further.
    """
    slug = ingest.domain
    try:
        broken = check.damage(cache) or check.lost_tables(cache) or check.unreadable(cache)
    except CacheCorruptError as error:
        return Verdict((Difference(slug, "damage", "", str(error)),), 0, 0)
    if broken:
        return Verdict(tuple(Difference(slug, "damage", "", text + _REBUILD) for text in broken), 0, 0)
    try:
        with check.reading(cache):
            return _compare(cache, ingest, registry)
    except CacheCorruptError as error:
        return Verdict((Difference(slug, "damage", "", str(error)),), 0, 0)


def _compare(cache: SqliteCache, ingest: Ingest, registry: Registry) -> Verdict:
    found = scan_vault(ingest.root, rules_of(ingest.root, registry))
    on_disk = {path for path in found.notes if (o := registry.owner(path)) and o.slug == ingest.domain}
    states = {state.path: state for state in check.ledger_states(cache)}
    # A note in a folder that cannot be listed may or may not exist; a note that is behind differs from the disk.
    settled = {
        path: state
        for path, state in states.items()
        if state.known and not state.behind and not is_below(path, found.unreadable)
    }
    differences = [
        *_compare_paths(ingest.domain, on_disk, states.keys(), settled.keys(), found.ignored),
        *_compare_files(ingest, found, cache),
        *_compare_ignored(ingest.domain, found.ignored, registry, cache, settled.keys()),
        *_check_ledger(ingest.domain, states.values()),
        *_compare_stat(ingest.domain, found.notes, settled, cache),
        *_check_rows(ingest.domain, cache),
        *_check_derived(ingest.domain, cache, registry),
    ]
    compared, busy = 0, 0
    if earlier := split_otherwise(cache.meta.pipeline, ingest):
        differences.append(Difference(ingest.domain, "damage", "", earlier))
    else:
        for path in sorted(settled.keys() & on_disk):
            own = _compare_note(cache, ingest, settled[path])
            differences += own or ()
            compared += own is not None
            busy += own is None
    known = sum(state.known for state in states.values())
    return Verdict(tuple(differences), compared, known - len(settled) + busy)


def _compare_paths(
    slug: str,
    on_disk: Collection[str],
    known: Collection[str],
    settled: Collection[str],
    ignored: Mapping[str, str],
) -> Iterator[Difference]:
    for path in sorted(set(on_disk) - set(known)):
        yield Difference(slug, "path", path, "is on disk, but not in the index")
    for path in sorted(set(settled) - set(on_disk)):
        rule = f"ignored ({ignored[path]})" if path in ignored else "gone from the disk"
        yield Difference(slug, "path", path, f"is in the index, but {rule}")


def _compare_files(ingest: Ingest, found: Scan, cache: SqliteCache) -> Iterator[Difference]:
    for path, detail in file_drift(cache, found, ingest.siblings):
        yield Difference(ingest.domain, "path", path, f"{detail}; run `everindex index`")


def _compare_ignored(
    slug: str, ignored: Mapping[str, str], registry: Registry, cache: SqliteCache, indexed: Collection[str]
) -> Iterator[Difference]:
    own = {p: rule for p, rule in ignored.items() if (registry.owner(p) or registry.domains[0]).slug == slug}
    for path in sorted({path for path, _ in own.items() ^ check.kept_ignored(cache).items()} - set(indexed)):
        what = "ignored, but not recorded" if path in own else "recorded as ignored, but is not"
        yield Difference(slug, "path", path, f"is {what} by this rule; run `everindex index`")


def _compare_stat(
    slug: str, found: Mapping[str, FoundFile], settled: Collection[str], cache: SqliteCache
) -> Iterator[Difference]:
    kept = check.kept_files(cache)
    for path in sorted(settled):
        if path in found and path in kept and kept[path] != found[path]:
            names = [
                f.name
                for f in fields(FoundFile)
                if getattr(kept[path], f.name) != getattr(found[path], f.name)
            ]
            yield Difference(slug, "ledger", path, f"its {', '.join(names)} differs from the disk")


def _check_ledger(slug: str, states: Collection[check.LedgerState]) -> Iterator[Difference]:
    for state in states:
        for detail in _wrong_with(state):
            yield Difference(slug, "ledger", state.path, detail)


def _wrong_with(state: check.LedgerState) -> Iterator[str]:
    if not state.known:
        yield "has a node, but no row in the ledger"
        return
    if not state.embedded <= state.applied <= state.generation:
        counters = f"generation {state.generation}, applied {state.applied}, embedded {state.embedded}"
        yield f"its generations are not in order: {counters}"
    if state.has_node != (state.indexed_hash is not None):
        yield "has a node, but no hash of what was indexed" if state.has_node else "has a hash, but no node"
    if state.parked and state.reason is None:
        yield "is parked without a reason"
    if not state.behind and state.wanted_hash != state.indexed_hash:
        yield "counts as done, but the wanted hash differs from the indexed one"
    if not state.behind and state.embedded == state.applied and state.unembedded:
        yield f"counts as embedded, but {state.unembedded} chunks have no vector"


def _check_rows(slug: str, cache: SqliteCache) -> Iterator[Difference]:
    """Compare the cache with itself: rows without an owner, words, vectors."""
    for path, detail in check.orphans(cache):
        yield Difference(slug, "orphan", path, detail)
    for chunk_id, path in word_drift(cache).items():
        lacks = f"the full-text index lacks the words of chunk {chunk_id}"
        # Such words can no longer be deleted, because FTS5 no longer knows the row.
        ghost = f"the full-text index has words of chunk {chunk_id}, which does not exist{_REBUILD}"
        yield Difference(slug, "words", path, lacks if path else ghost)
    for path in cache.edges.drift():
        yield Difference(slug, "edge", path, "its edges do not match its links and the vault's files")
    for drift in check.vector_drift(cache):
        yield Difference(slug, "vector", drift.path, drift.detail)
    bad = check.bad_vectors(cache)
    users = check.paths_of_texts(cache, bad)
    for text_hash, detail in bad.items():
        for path in users.get(text_hash, [""]):
            yield Difference(slug, "vector", path, f"text {text_hash[:12]}: {detail}")


def _check_derived(slug: str, cache: SqliteCache, registry: Registry) -> Iterator[Difference]:
    counters = list(check.counter_drift(cache))
    for detail in (*check.schema_drift(cache), *counters):
        yield Difference(slug, "schema", "", detail)
    files, notes = check.name_drift(cache)
    for path in files:
        yield Difference(slug, "schema", "", f"links to {path} are not resolved: its stored name is wrong")
    for path in notes:
        yield Difference(slug, "link", path, "the stored name of one of its links is wrong")
    for path in check.time_drift(cache):
        yield Difference(slug, "note", path, "its time differs from its file's")
    for chunk in check.unfindable(cache):
        yield Difference(
            slug, "damage", "", f"a search of the vector index does not find chunk {chunk}{_REBUILD}"
        )
    for text_hash in check.sentence_drift(cache, _count_sentences):
        yield Difference(
            slug, "sentences", "", f"text {text_hash[:12]}: the vectors of its sentences are incomplete"
        )
    for text_hash in check.second_drift(cache):
        yield Difference(
            slug, "second", "", f"text {text_hash[:12]}: its vector by a second model is missing or wrong"
        )
    domain = registry.get(slug)
    for path in rank_drift(cache, domain) if domain and not counters else ():
        what = "its rank or community is" if path else "the communities' labels are"
        yield Difference(slug, "rank", path, f"{what} not what the links give")


def _count_sentences(text: str) -> int:
    return len(split_sentences(text))


def _compare_note(cache: SqliteCache, ingest: Ingest, state: check.LedgerState) -> list[Difference] | None:
    """Compare a note's rows with what its file gives; None if the file is being written right now."""

    def differs(kind: Kind, detail: str) -> Difference:
        return Difference(ingest.domain, kind, state.path, detail)

    try:
        content = vault.read(ingest.root, os.fsdecode(state.raw), ingest.max_bytes)
    except (NoteVanishedError, NoteChangedError):
        return None
    except NoteError as error:
        return [differs("hash", str(error))]
    if content.sha256 != state.indexed_hash:
        indexed = (state.indexed_hash or "nothing")[:12]
        return [differs("hash", f"the file is {content.sha256[:12]}, but {indexed} was indexed")]
    try:
        note = ingest.files.read(state.path, content.data)
        node, chunks = check.node_of(cache, state.path), check.chunks_of(cache, state.path)
    except NoteError as error:
        return [differs("note", str(error))]
    except ValueError as error:
        return [differs("note", f"its rows cannot be read: {error}")]
    drift: dict[Kind, Iterator[str]] = {
        "note": _note_drift(node, note),
        "chunk": _drift("chunk", chunks, chunk_note(note, ingest.chunking)),
        "link": _drift("link", check.links_of(cache, state.path), note.links),
    }
    return [differs(kind, detail) for kind, details in drift.items() for detail in details]


def _note_drift(found: Mapping[str, Any], note: Note) -> Iterator[str]:
    for name, value in found.items():
        if value != json.loads(json.dumps(getattr(note, name), default=asdict)):
            yield f"its {name} differs from the file"


def _drift(what: str, found: Sequence[Chunk | Link], wanted: Sequence[Chunk | Link]) -> Iterator[str]:
    if len(found) != len(wanted):
        yield f"it has {len(found)} {what}s, but the file gives {len(wanted)}"
        return
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        names = [f.name for f in fields(one) if getattr(one, f.name) != getattr(other, f.name)]
        if names:
            yield f"{what} {number} differs from the file in {', '.join(names)}"


def repair(cache: WritableCache, verdict: Verdict) -> None:
    """Remove what differs from the cache and make the affected notes dirty; the pipeline then indexes them.

    Notes that are gone from the disk are left to `reconcile`, which holds mass deletions for confirmation. Of a cache
    in PostgreSQL, this host's copy, in which the differences were found, takes in everything again.
    """
    read = cache if isinstance(cache, SqliteCache) else cache.copy.cache
    gone = {d.path for d in verdict.differences if d.kind == "path"}
    distrusted = {d.text_hash for d in check.vector_drift(read) if d.in_doubt} | check.bad_vectors(
        read
    ).keys()
    users = check.paths_of_texts(read, distrusted).values()
    found = {d.path for d in verdict.differences if d.path and d.kind != "rank"}
    if not isinstance(cache, SqliteCache):
        cache.copy.follow(afresh=True)
    check.mend(read, cache, _count_sentences)
    make_pending(cache, sorted(found.union(*users) - gone), sorted(distrusted))
    if any(d.kind == "rank" for d in verdict.differences):
        cache.graph.forget_ranks()
