"""The state of the index and its current problems.

Finding them writes nothing, so that a full disk cannot hide itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pipelines import store
from pipelines.cache.cache import SqliteCache
from pipelines.cache.graph import may_be_broken
from pipelines.cache.passages import ChunkRow, NodeRow
from pipelines.errors import CacheError, ConfigurationError, ModelUnavailableError, StorageUnavailableError
from pipelines.indexing.ingest import chunking_of
from pipelines.indexing.reconcile import last_comparison, rules_of
from pipelines.indexing.status import domain_status, how_to_index, why
from pipelines.model import ChunkSettings, Domain
from pipelines.question import Question
from pipelines.search.names import terms_of
from pipelines.state.health import Process
from pipelines.state.jobs import History
from pipelines.state.state import (
    EMBEDDING_SPEED,
    HELD,
    REFUSED,
    STATE_FILE,
    VECTORS,
    WATCHER,
    Fact,
    RefusedMessages,
    WatcherFacts,
)
from pipelines.vault import files as vault
from pipelines.vault.ignore import IgnoreRules
from queue_config.queue import QUEUE_ERRORS, Queue
from service.schemas.links import Methods
from service.schemas.notes import Dates, NodeAnswer, NodeChunk
from service.schemas.operations import DomainHealth, Health, ReembedCost
from service.schemas.search import IndexState, UnindexedFile, place_of
from service.usecases.audience import Audience
from service.usecases.text import added, counted, moment, not_indexed
from workers.heartbeat import lives
from workers.models import chosen_chunking, recorded_model
from workers.resources import Resources

# Single notes, as the index has them, and which of them are on disk.


Backlinks = Callable[[str], list[dict[str, Any]]]


_WRITTEN = ("kind", "target", "fragment", "text", "line", "section", "property", "type")
"""What an answer shows of a link as it is written."""


def describe_note(
    domain: Domain, cache: SqliteCache, path: str, audience: Audience, backlinks: Backlinks
) -> NodeAnswer | None:
    """Return a note's row, links and chunks, or None if its domain has no such note.

    A link to a file that the asker does not see is a broken one. A community's label is made of titles and tags of
    all its notes, so only who sees all notes gets it.
    """
    node = cache.passages.node(path)
    row = cache.ledger.row(path)
    if node is None:
        return None
    rank = cache.graph.rank_of(path)
    written = cache.graph.links_of(path)
    named = audience.named({link.meant for link in written if link.meant is not None})
    return NodeAnswer(
        **asdict(node) | {"dates": dates_of(node)},
        domain=domain.slug,
        links=[{name: getattr(link, name) for name in _WRITTEN} for link in written],
        outlinks=[
            asdict(other) | {"relation": domain.relations.name(other.type)}
            for other in cache.graph.outlinks(path)
            if other.path in named
        ],
        backlinks=backlinks(path),
        unresolved=[
            asdict(replace(link, meant=None, ambiguous=False))
            for link in written
            if link.meant not in named and may_be_broken(path)
        ],
        pagerank=rank.pagerank if rank else None,
        centrality=rank.centrality if rank else None,
        community=rank.community if rank else None,
        community_label=rank.label if rank and audience.sees_all else None,
        chunks=[_chunk(row) for row in cache.passages.chunks_of(path)],
        indexed_at=row.indexed_at if row else None,
    )


def dates_of(node: NodeRow) -> Dates:
    """Return when a note was created and changed, with the sources in words."""
    return Dates(**asdict(node.dates), said=node.dates.said)


def _chunk(row: ChunkRow) -> NodeChunk:
    return NodeChunk(
        section=row.section,
        heading_path=list(row.heading_path),
        lines=(row.first_line, row.last_line),
        place=place_of(row.place),
        range=(row.start, row.end),
        text=row.text,
    )


def uncounted(resources: Resources, domain: Domain) -> set[str]:
    """Return the indexed files that count as no notes.

    These are a domain's vocabularies and review queues, and notes whose files vanished: the index keeps them for a
    while, and no answer has them.
    """
    return {*domain.configuration, *resources.vanished().waiting(domain.slug)}


def on_disk(resources: Resources, cache: store.Cache, paths: Sequence[str]) -> set[str]:
    """Return those of the paths whose files are there; all while the whole vault is unavailable."""
    if not resources.present():
        return set(paths) - resources.gone()
    files = cache.ledger.stat_of(paths).items()
    return {path for path, (raw, *_) in files if vault.look(resources.root, raw)}


MOST_IGNORED_SHOWN = 10
"""How many ignored files an answer names."""

MOST_SHARED_IDS = 20
"""How many ids that several records have an answer names."""


def record_ids(caches: Iterable[SqliteCache], identity: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield the id and the path of each record that has one, or of those with this id."""
    for cache in caches:
        with suppress(CacheError):  # a problem of its own
            yield from cache.notes.record_ids(identity)


def shared_ids(root: Path, records: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the paths of each id that several of these records have, without those whose files are gone."""
    paths: dict[str, list[str]] = {}
    for found, path in records:
        paths.setdefault(found, []).append(path)
    several = {found: _there(root, of_id) for found, of_id in paths.items() if len(of_id) > 1}
    return {found: there for found, there in sorted(several.items()) if len(there) > 1}


def _there(root: Path, paths: Sequence[str]) -> list[str]:
    return sorted(path for path in paths if vault.look(root, vault.path_on_disk(root, path)))


# Files that are not indexed, but whose names have the words of a question: told where no note answers it.


_MOST_SHOWN = 3
_MOST_EXAMINED = 20
_MOST_WORDS = 32
_LEAST_SHARED = 2
_LEAST_SHARE = 0.5
_BY_DESIGN = (IgnoreRules.CONFIGURES, IgnoreRules.GENERATED, "default rule")
"""How the rules begin that ignore files which are never notes."""


def files_called(
    resources: Resources,
    audience: Audience,
    readers: Sequence[tuple[Domain, SqliteCache]],
    question: Question,
) -> list[UnindexedFile]:
    """Return up to three files that are ignored or parked and whose names have the words of a question.

    None for who does not see all notes: whether such a file is private is not known. The files are those that the
    last comparisons found, so that no folder is read.
    """
    caches = {domain.slug: cache for domain, cache in readers} if audience.sees_all else {}
    asked = frozenset(list(terms_of(question.text))[:_MOST_WORDS])
    if question.is_list or not asked or not caches:
        return []
    with suppress(CacheError):  # a problem of its own
        first, *others = caches.values()  # each knows the files of the whole vault
        named = _nearest(asked, first.notes.files_without_note(asked))
        indexed = [cache.notes.names(named) for cache in others]
        found = [path for path in named if not any(path in one for one in indexed)]
        return list(islice(_not_indexed(resources, caches, found[:_MOST_EXAMINED]), _MOST_SHOWN))
    return []


def unindexed(
    resources: Resources,
    audience: Audience,
    readers: Sequence[tuple[Domain, SqliteCache]],
    question: Question,
) -> dict[str, Any]:
    """Return the fields of an answer about files that are not indexed; empty for who does not see all notes."""
    if not audience.sees_all:
        return {}
    ignored, others = left_out(resources, readers)
    return {
        "unindexed": files_called(resources, audience, readers, question),
        "not_indexed": not_indexed(len(ignored), others) or None,
    }


def left_out(
    resources: Resources, readers: Sequence[tuple[Domain, SqliteCache]]
) -> tuple[dict[str, str], dict[str, int]]:
    """Return the ignored files with their rules, and how many files have each format that is not indexed.

    They are those that the last comparison found.
    """
    ignored: dict[str, str] = {}
    for _, cache in readers:
        with suppress(CacheError):  # a problem of its own
            ignored |= cache.ignored()
    with suppress(StorageUnavailableError):  # told as why saves wait
        if compared := last_comparison(resources.state()):
            return ignored, added(compared.others.values())
    return ignored, {}


def _nearest(asked: frozenset[str], paths: Collection[str]) -> list[str]:
    """Return the paths of files that are called as it is asked, those that share most words first."""
    shared: list[tuple[int, int, str]] = []
    for path in paths:
        name = terms_of(PurePosixPath(path).stem).keys()
        both = len(asked & name)
        is_called = both in (len(asked), len(name)) or (
            both >= _LEAST_SHARED and both >= _LEAST_SHARE * len(name)
        )
        if both and is_called and vault.is_note(path):
            shared.append((-both, len(name), path))
    return [path for *_, path in sorted(shared)]


def _not_indexed(
    resources: Resources, caches: Mapping[str, SqliteCache], paths: Collection[str]
) -> Iterator[UnindexedFile]:
    root, registry = resources.root, resources.registry()
    rules = rules_of(root, registry)
    for path in paths:
        known = why(path, root, registry, rules, caches)
        is_meant = known["state"] in ("ignored", "parked") and not str(known["reason"]).startswith(_BY_DESIGN)
        if is_meant and vault.look(root, vault.path_on_disk(root, path)) is not None:
            yield UnindexedFile(path=path, state=known["state"], reason=known["reason"])


# The state of one domain's index, with what `everindex reembed` would change in it and what that costs.


def state_of(resources: Resources, domain: Domain, cache: SqliteCache) -> dict[str, Any]:
    """Return what `pipelines.indexing.status.domain_status` does, how it was ranked, and what `reembed` costs."""
    by = cache.graph.ranked_by()
    return domain_status(cache, resources.state(), domain.slug, uncounted(resources, domain)) | {
        "vectors_in_postgresql": vectors_in_postgresql(resources, cache),
        "reembed": _reembed_cost(resources, domain, cache),
        "methods": by and Methods.model_validate(by),
    }


def vectors_in_postgresql(resources: Resources, cache: SqliteCache) -> str | None:
    """Say what finds the nearest passages of a cache in PostgreSQL; None where that is not asked."""
    if isinstance(resources.store, Path) or resources.settings.memory_bytes is None:
        return None
    built = resources.state().get(VECTORS, cache.path.stem)
    if built is None:
        return None
    kind, _, recall = built.value
    return kind if kind == "exact" else f"{kind}, recall@10 {recall:.2f}"


def _reembed_cost(resources: Resources, domain: Domain, cache: SqliteCache) -> ReembedCost | None:
    """Return what differs between an index and the settings; None if nothing does.

    Its model is left out: a service does not start with another. The number of texts is that of the passages now.
    """
    try:
        wanted = _wanted(resources, domain, cache)
    except (ModelUnavailableError, ConfigurationError):
        return None  # a problem of its own
    change = describe_change(chunking_of(cache.meta.pipeline), wanted)
    if change is None:
        return None
    texts = cache.counts().chunks
    speed = resources.state().get(EMBEDDING_SPEED, domain.slug)
    rate = speed.value.texts_per_s if speed else 0.0
    return ReembedCost(change=change, texts=texts, seconds=round(texts / rate) if rate else None)


def passages_problems(resources: Resources) -> Iterator[str]:
    """Yield why the settings cannot split the notes of a domain, whose index keeps the passages that it has."""
    for domain in resources.domains():
        try:
            with suppress(CacheError, ModelUnavailableError):  # problems of their own
                _wanted(resources, domain, resources.reader(domain))
        except ConfigurationError as error:
            yield f"{domain.slug}: {error}; until then its index keeps the passages that it has"


def _wanted(resources: Resources, domain: Domain, cache: SqliteCache) -> ChunkSettings:
    """Return how the settings split a domain's notes. Raises ModelUnavailableError, ConfigurationError."""
    info = recorded_model(resources.settings, cache.meta, resources.root)
    return chosen_chunking(resources.settings, info, domain)


def describe_change(indexed: ChunkSettings | None, wanted: ChunkSettings) -> str | None:
    """Return what differs between the ways in which an index and the settings split and embed; None: nothing."""
    if indexed is None or indexed == wanted:
        return None
    parts = []
    if indexed.context != wanted.context:
        parts.append(f"embedding_context {indexed.context}, and the settings say {wanted.context}")
    cuts = [(one.target_words, one.overlap_words) for one in (indexed, wanted)]
    if cuts[0] != cuts[1]:
        (words, shared), (other, others) = cuts
        parts.append(
            f"passages of {words} words with {shared} in common, and the settings say {other} with {others}"
        )
    return f"the index has {'; and '.join(parts)}" if parts else None


_LITTLE_SPACE = 5_000_000
# The watcher reports every five seconds, unless it is busy with a first scan.
_SILENCE_SECONDS = 60.0
# Every process sends a heartbeat every five seconds, even when busy.
_SILENT_SECONDS = 20.0
STARVED_SECONDS = 25.0
"""Time within which pending work progresses, unless something is wrong."""

# A large model takes long to load and to embed its first passages.
_NO_VECTORS_SECONDS = 90.0


class DomainIndex(NamedTuple):
    """How far a domain's index is behind the disk: seconds of the longest wait, vectors that wait, its generation.

    `refining`: sentences wait for vectors, which may change the order of close notes.
    """

    pending: int
    oldest: float
    vectors: int
    ready: bool
    embeds: bool
    generation: str
    refining: bool


def index_of(
    resources: Resources, domain: Domain, cache: SqliteCache, audience: Audience, *, ready: bool
) -> DomainIndex:
    """Return how far a domain's index is behind the disk, for the notes that the asker sees. Raises CacheError.

    A new note counts until it is indexed, because only then its privacy is known. `ready`: the model is loaded.
    """
    if audience.sees_all:
        behind = (*cache.ledger.pending(), cache.vectors.pending())
        endpoints = resources.settings.endpoints_of(cache.meta.model)
        reads_sentences = not endpoints or any(one.local for one in endpoints)
        refining = reads_sentences and cache.search.is_refining()
        return DomainIndex(*behind, ready, cache.meta.embeds, cache.search.generation(), refining)
    with cache.snapshot():
        hidden = audience.hidden(domain.slug)
        pending = cache.ledger.pending(audience.known_private(domain.slug))
        name = cache.search.visible_generation(hidden)
        vectors = cache.vectors.pending(hidden)
        return DomainIndex(*pending, vectors, ready, cache.meta.embeds, name, refining=False)


def describe_index(resources: Resources, states: Sequence[DomainIndex], failed: dict[str, str]) -> IndexState:
    """Say whether the index is behind the disk; while the state cannot be read, that is why saves wait."""
    names = "-".join(f"{one.generation}.{one.ready}" for one in states)
    try:
        waits = vault_problem(resources) or storage_problem(resources.place.state)
        problem, held = model_problem(resources), _held(resources)
    except StorageUnavailableError as error:
        waits, problem, held = str(error), None, None
    return IndexState(
        pending=sum(one.pending for one in states),
        oldest_pending_s=round(max((one.oldest for one in states), default=0.0), 1),
        vectors_pending=sum(one.vectors for one in states),
        model_ready=all(one.ready for one in states),
        by_words=bool(states) and not any(one.embeds for one in states),
        generation=blake2b(names.encode(), digest_size=6).hexdigest(),
        refining=any(one.refining for one in states),
        failed=failed,
        waits=waits,
        model_problem=problem,
        held=held,
    )


def _held(resources: Resources) -> str | None:
    """Return the sentence about notes that vanished at once and are kept, or None if there are none."""
    held = [resources.state().get(HELD, domain.slug) for domain in resources.domains()]
    count = sum(one.value.count for one in held if one)
    if not count:
        return None
    return f"{counted(count, 'note')} vanished at once, and no answer has them; `everindex status` says more"


def without_counts(state: IndexState) -> IndexState:
    """Return a state in which 1 stands for any number of notes and vectors that wait, and which counts no others."""
    one = {"pending": min(state.pending, 1), "vectors_pending": min(state.vectors_pending, 1), "held": None}
    return state.model_copy(update=one)


def count_notes(resources: Resources, readers: Sequence[tuple[Domain, SqliteCache]]) -> int:
    """Return the number of notes in all domains that can be read."""
    total = 0
    for domain, cache in readers:
        with suppress(CacheError):  # the health names it
            total += cache.counts(uncounted(resources, domain)).notes
    return total


def describe_health(
    resources: Resources,
    queue: Queue,
    domains: Mapping[str, Mapping[str, Any]],
    index: IndexState,
    shared: Mapping[str, list[str]],
    readers: Sequence[tuple[Domain, SqliteCache]],
) -> Health:
    """Describe the vault, its caches and the problems."""
    state = resources.state()
    compared = last_comparison(state)
    problems = [*index.failed.values(), *find_problems(resources, queue)]
    watcher = state.get(WATCHER)
    refused = state.get(REFUSED)
    return Health(
        status="ok" if not problems else "degraded",
        version=version("everindex"),
        vault=str(resources.root),
        vault_present=resources.present(),
        model_ready=index.model_ready,
        domains={slug: DomainHealth(**facts) for slug, facts in domains.items()},
        pending=index.pending,
        oldest_pending_s=index.oldest_pending_s,
        vectors_pending=index.vectors_pending,
        refining=index.refining,
        attention=resources.settings.attention,
        last_reconcile=(
            {"age_s": round(compared.age_s, 1), "took_ms": compared.took_ms, "found": compared.found}
            if compared
            else None
        ),
        watcher=asdict(watcher.value) | {"said_s": round(watcher.age_s, 1)} if watcher else None,
        refused_messages=asdict(refused.value if refused else RefusedMessages()),
        problems=problems,
        other_files=added(compared.others.values()) if compared else {},
        to_index_other_files=how_to_index(resources.root, resources.registry(), compared.others)
        if compared and any(compared.others.values())
        else [],
        ignored_files=dict(islice(left_out(resources, readers)[0].items(), MOST_IGNORED_SHOWN)),
        shared_ids=dict(islice(shared.items(), MOST_SHARED_IDS)),
    )


def find_problems(resources: Resources, queue: Queue) -> list[str]:
    """Return one sentence per problem: what happened, to what, and what to do."""
    reported = (problem.message for problem in resources.problems().reported())
    found = (
        *_of_the_vault(resources),
        *_of_the_machine(resources, queue),
        *reported,
        *passages_problems(resources),
        *_of_waiting_notes(resources),
    )
    return list(dict.fromkeys(found))


def model_problem(resources: Resources) -> str | None:
    """Return why the model cannot be used, or None if no problem is known."""
    reported = resources.problems().reported()
    return next((problem.message for problem in reported if problem.kind == "model"), None)


def _of_the_vault(resources: Resources) -> Iterator[str]:
    if error := resources.registry().error:
        yield f"{error} (the last valid version stays in force)"
    if problem := vault_problem(resources):
        yield problem
    for domain in resources.domains():
        if paused := resources.state().decisions.paused_since(domain.slug):
            yield (
                f"{domain.slug} is paused since {moment(paused)}: saves are recorded, and"
                " indexed when an operator resumes it (`/ops/queue`)"
            )
        if held := resources.state().get(HELD, domain.slug):
            yield (
                f"{domain.slug}: {counted(held.value.count, 'note')} vanished at once, or within minutes"
                f" ({held.value.examples[0]!r} is one); they are kept until `everindex index --confirm-deletions`, or"
                " until nothing about them has changed for an hour while Everindex runs"
            )


def vault_problem(resources: Resources) -> str | None:
    """Return the sentence about a vault that is unavailable, or None if it is there."""
    if resources.present() or resources.is_elsewhere:
        return None
    return f"the vault {resources.root} is not there; answers show what was indexed last, nothing is deleted"


def storage_problem(folder: Path) -> str | None:
    """Return why the state folder cannot be written now, or None if it can."""
    if shutil.disk_usage(folder).free < _LITTLE_SPACE:
        return f"the disk of {folder} is full: saves wait until there is space again"
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"the state folder {folder} cannot be written: saves wait until it can"
    return None


def _of_the_machine(resources: Resources, queue: Queue) -> Iterator[str]:
    if problem := storage_problem(resources.place.state):
        yield problem
    try:
        queue.storage.queue_size()
    except QUEUE_ERRORS as error:
        if resources.settings.redis_url:
            yield f"the queue cannot be reached ({error}): saves wait until it can"
        else:
            yield f"the queue's file cannot be used ({error}): it is created again soon, and no save is lost"
    yield from _of_the_processes(resources)


def _of_the_processes(resources: Resources) -> Iterator[str]:
    """Report processes that exited or hang, and what prevents all of them from reporting."""
    state, heard = resources.state(), resources.processes().recent()
    silent = [(one, age) for one, age in heard if age >= _SILENT_SECONDS]
    if len(silent) > 1 and state.is_locked():
        yield (
            f"{resources.place.state / STATE_FILE} is locked by another program for more than {_SILENT_SECONDS:.0f}"
            " s, so nothing can be written; end it (`fuser` or `lsof` names it)"
        )
    newest = {one.role: (one, age) for one, age in heard}
    workers = resources.workers()
    if workers and not any(workers.values()):
        yield (
            f"the worker ({list(workers)[-1]}) exited unexpectedly: saves are recorded, and indexed when a worker"
            " runs again; `up` or systemd restarts it, and says how it ended"
        )
    for one, age in heard:
        if age >= _SILENT_SECONDS and lives(one.name, age):
            yield (
                f"the {one.role} ({one.name}) is alive, but has sent no heartbeat for {age:.0f} s: it hangs or is"
                " stopped, and its work waits. Kill it (kill -9), and `up` or systemd restarts it"
            )
    yield from _of_the_watcher(state.get(WATCHER), newest.get("watcher"))


def _of_the_watcher(said: Fact[WatcherFacts] | None, process: tuple[Process, float] | None) -> Iterator[str]:
    if process and not lives(process[0].name, process[1]):
        yield (
            f"the watcher ({process[0].name}) exited unexpectedly: saves go unnoticed until a watcher runs"
            " again; `up` or systemd restarts it, and says how it ended"
        )
    elif said and said.age_s > _SILENCE_SECONDS:
        yield f"the watcher has said nothing for {said.age_s:.0f} s: is `everindex watch` running?"
    elif said and said.value.mode == "polling":
        yield f"the vault is compared every few seconds instead of watched: {said.value.polling_because}"


def _of_waiting_notes(resources: Resources) -> Iterator[str]:
    """Report work that waits although no known problem prevents it."""
    state, no_model = resources.state(), model_problem(resources) is not None
    history = partial(resources.stores.of, History)
    for domain in resources.domains():
        try:
            waiting = resources.reader(domain).leases.waiting()
        except CacheError:
            continue  # its own problem says so
        if waiting and waiting.kept:
            yield (
                f"{domain.slug}: {counted(waiting.kept, 'private note')} found by words only: no endpoint that may"
                " have them can be used; mark one on this machine `local: true`"
            )
        if waiting is None or waiting.is_leased or state.decisions.paused_since(domain.slug):
            continue
        if no_model and not waiting.words:
            continue  # the model's own problem says so
        if not waiting.words and not waiting.vectors:
            continue  # said above
        starved = (
            waiting.oldest_s > STARVED_SECONDS
            if waiting.words
            else (waiting.done_s or 0.0) > _NO_VECTORS_SECONDS
        )
        if not starved or history().was_worked_on(domain.slug, STARVED_SECONDS):
            continue
        if waiting.words and waiting.done_s is not None and waiting.done_s <= STARVED_SECONDS:
            continue
        what, since = (
            (_notes(waiting.words), waiting.oldest_s)
            if waiting.words
            else (f"the passages of {_notes(waiting.vectors)}", waiting.done_s or 0.0)
        )
        reason = waiting.reason or history().last_trouble(domain.slug, 10 * STARVED_SECONDS)
        why = (
            f"the last reason was: {reason}"
            if reason
            else "no job was started for them; is a worker running?"
        )
        yield f"{domain.slug}: {what} waiting to be indexed for {since:.0f} s, without progress; {why}"


def _notes(count: int) -> str:
    return f"{count} note{'s' if count != 1 else ''}"
