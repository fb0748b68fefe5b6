"""What `pipelines.store` promises, as behaviour of each store. A new store is one more entry of `STORES`."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.graph import RankedBy
from pipelines.cache.leases import LEASE_SECONDS
from pipelines.cache.schema import CacheMeta
from pipelines.cache.vectors import KEPT, VECTOR_GRACE_SECONDS
from pipelines.errors import BadVectorError, StaleWorkError
from pipelines.filters import parse_filters
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, Chunk, FileContent, FoundFile
from pipelines.notes.lexical import LexicalQuery
from pipelines.notes.markdown import parse_note

META = CacheMeta("a model", 4, "1:a/pipeline")
RANKED_BY = RankedBy("links all louvain", "degree", "leiden", 7, 1.5)


class Sqlite:
    """Connections to one cache in a file."""

    def __init__(self, folder, clock):
        self._path = folder / "cache-garden.1.db"
        self._clock = clock
        self._opened = []

    def writer(self, meta=META):
        return self._keep(SqliteCache.create(self._path, meta, clock=self._clock))

    def reader(self):
        return self._keep(SqliteCache.open(self._path))

    def _keep(self, cache):
        self._opened.append(cache)
        return cache

    def close(self):
        for cache in self._opened:
            cache.close()


STORES = [Sqlite]


class Clock:
    """A monotonic clock that moves only when it is set."""

    now = 500.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=STORES, ids=lambda store: store.__name__.lower())
def store(request, tmp_path, clock):
    made = request.param(tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
def cache(store):
    return store.writer()


@pytest.fixture
def ledger(cache):
    return cache.ledger


def file(path, size=1, mtime=1):
    return FoundFile(path, path, size, mtime, 1)


def record(ledger, *paths, sha="h1", priority=LOW_PRIORITY):
    return ledger.record("garden", [(file(path), sha) for path in paths], [], priority=priority)


def vector_of(text):
    """Return a unit vector for a text, the same each time: texts that begin alike have the same one."""
    return np.eye(4, dtype=np.float32)["abcd".find(text[:1].lower()) % 4]


def content(path, sha="h1"):
    return FileContent(b"", sha, file(path))


def cut(texts, headings=()):
    """Return a chunk for each text, whose words are embedded without a context."""
    return [
        Chunk(text, f"hash of {text}", "", headings, n, 2 * n, 2 * n + 1, n + 1, n + 1)
        for n, text in enumerate(texts)
    ]


def commit(cache, row, texts, *, sha="h1", properties="", headings=(), embedded=True):
    """Commit a note with these chunks, as a worker does; say whether all its vectors are stored."""
    note = parse_note(row.path, f"---\n{properties}\n---\n" + "\n".join(texts))
    vectors = {f"hash of {text}": vector_of(text) for text in texts} if embedded else {}
    return cache.commit_note(row, content(row.path, sha), note, cut(texts, headings), vectors)


def lease(cache, stage="words"):
    (row,) = cache.leases.take(stage, 1, "me")
    return row


def save(cache, path, *texts, **how):
    """Write a note of these texts, a chunk each; each save has content of its own."""
    sha = how.setdefault("sha", f"hash of {path} {texts} {sorted(how.items())}")
    record(cache.ledger, path, sha=sha, priority=HIGH_PRIORITY)
    cache.edges.change_paths([path], ())
    return commit(cache, lease(cache), texts, **how)


def delete(cache, path):
    cache.ledger.record("garden", [], [path], priority=HIGH_PRIORITY)
    cache.edges.change_paths((), [path])
    return cache.commit_deletion(lease(cache))


def ids(cache, path):
    return [chunk.chunk_id for chunk in cache.passages.chunks_of(path)]


def found(cache, word):
    """Return the notes that have a word."""
    chunks = [chunk for chunk, _ in cache.search.matching(LexicalQuery({word: 1}), 100)]
    return sorted(set(cache.passages.chunk_paths(chunks).values()))


def near(cache, vector):
    """Return the chunks that have this very vector."""
    return sorted(cache.search.chunks_as_near(vector, 1.0))


def edges(cache, path):
    return [(link.target, link.meant) for link in cache.graph.links_of(path)]


# The ledger: disk against index


def test_the_same_content_seen_twice_is_one_event(ledger):
    assert [e.kind for e in record(ledger, "a.md")] == ["created"]
    assert record(ledger, "a.md") == []


def test_a_touched_file_updates_its_stat_and_makes_nothing_pending(ledger):
    record(ledger, "a.md")
    ledger.record("garden", [(file("a.md", mtime=9), "h1")], [], priority=LOW_PRIORITY)
    assert ledger.compare_scan([file("a.md", mtime=9)]).changed == []


def test_events_carry_both_hashes_and_a_growing_generation(ledger):
    record(ledger, "a.md")
    (modified,) = record(ledger, "a.md", sha="h2")
    (deleted,) = ledger.record("garden", [], ["a.md"], priority=LOW_PRIORITY)
    assert (modified.kind, modified.old_hash, modified.new_hash, modified.generation) == (
        "modified",
        "h1",
        "h2",
        2,
    )
    assert (deleted.kind, deleted.old_hash, deleted.new_hash, deleted.generation) == (
        "deleted",
        "h2",
        None,
        3,
    )
    assert ledger.record("garden", [], ["a.md", "unknown.md"], priority=LOW_PRIORITY) == []


def test_pending_counts_dirty_rows_and_the_age_of_the_oldest(ledger, clock):
    record(ledger, "a.md")
    clock.now += 7
    record(ledger, "b.md")
    assert ledger.pending() == (2, 7.0)
    assert ledger.pending(["a.md"]) == (1, 0.0)


def test_a_second_change_does_not_make_a_waiting_note_look_younger(ledger, clock):
    record(ledger, "a.md")
    clock.now += 7
    record(ledger, "a.md", sha="h2")
    assert ledger.pending() == (1, 7.0)


def test_a_scan_sees_what_differs_and_what_is_gone(ledger):
    record(ledger, "a.md", "b.md", "c.md")
    difference = ledger.compare_scan([file("a.md"), file("b.md", size=2), file("new.md")])
    assert sorted(f.path for f in difference.changed) == ["b.md", "new.md"]
    assert (difference.gone, difference.unchanged) == (["c.md"], 1)
    assert [f.path for f in ledger.compare_scan([file("a.md")], suspects={"a.md"}).changed] == ["a.md"]


def test_a_scan_of_a_folder_says_nothing_of_other_folders(ledger):
    record(ledger, "x/a.md", "xy/b.md", "x.md", "x/y/c.md")
    assert ledger.compare_scan([], "x").gone == ["x/a.md", "x/y/c.md"]


def test_a_note_is_settled_when_its_words_and_vectors_are_indexed(cache):
    save(cache, "a.md", "apple", embedded=False)
    assert cache.ledger.settled() == {}
    cache.vectors.store({"hash of apple": vector_of("apple")})
    assert cache.commit_vectors(lease(cache, "vectors"))
    assert list(cache.ledger.settled()) == ["a.md"]
    record(cache.ledger, "a.md", sha="newer")
    assert cache.ledger.settled() == {}


def test_another_pipeline_wants_all_notes_again_and_they_stay_findable_until_then(store, cache):
    save(cache, "a.md", "apple")
    save(cache, "b.md", "bread")
    again = store.writer(replace(META, pipeline="2:a/pipeline"))
    assert again.ledger.want_version(None) == again.ledger.want_version("1") == ["a.md", "b.md"]
    assert (again.ledger.pending()[0], found(again, "apple")) == (2, ["a.md"])


# Leases: which worker has which pending work, and for how long


def test_saves_are_leased_before_a_scans_rows(cache):
    record(cache.ledger, "scanned.md")
    record(cache.ledger, "saved.md", priority=HIGH_PRIORITY)
    assert cache.leases.has_pending("words", "saves")
    assert [row.path for row in cache.leases.take("words", 10, "me")] == ["saved.md", "scanned.md"]


def test_a_leased_row_is_not_leased_again_until_the_lease_runs_out(cache, clock):
    record(cache.ledger, "a.md")
    assert len(cache.leases.take("words", 10, "me")) == 1
    assert (cache.leases.take("words", 10, "you"), cache.leases.has_pending("words")) == ([], False)
    clock.now += LEASE_SECONDS + 1
    assert cache.leases.has_pending("words")
    assert len(cache.leases.take("words", 10, "you")) == 1


def test_two_connections_never_lease_the_same_row(store, cache):
    record(cache.ledger, *(f"{n}.md" for n in range(10)))
    taken = [row.path for one in (cache, store.writer()) for row in one.leases.take("words", 6, "me")]
    assert len(taken) == len(set(taken)) == 10


def test_a_renewed_lease_lasts_longer(cache, clock):
    record(cache.ledger, "a.md")
    row = lease(cache)
    clock.now += LEASE_SECONDS - 1
    cache.leases.renew(row, "h1")
    clock.now += LEASE_SECONDS - 1
    assert not cache.leases.has_pending("words")


def test_a_clock_that_starts_again_after_a_reboot_leaves_no_lease_stuck(cache, clock):
    clock.now = 1_000_000.0
    record(cache.ledger, "leased.md")
    cache.leases.take("words", 10, "me")
    record(cache.ledger, "postponed.md")
    cache.leases.postpone(cache.leases.take("words", 10, "me")[0], "unreadable", "why")
    clock.now = 5.0
    assert {row.path for row in cache.leases.take("words", 10, "you")} | {
        row.path for row in cache.leases.take("words", 10, "you")
    } == {"leased.md", "postponed.md"}


def test_work_under_a_lost_lease_is_refused_and_writes_nothing(cache, clock):
    record(cache.ledger, "a.md")
    mine = lease(cache)
    clock.now += LEASE_SECONDS + 1
    (yours,) = cache.leases.take("words", 10, "you")
    for work in (
        lambda: commit(cache, mine, ["apple"]),
        lambda: cache.park(mine, "too-large", "why"),
        lambda: cache.leases.renew(mine, "h1"),
    ):
        with pytest.raises(StaleWorkError):
            work()
    cache.leases.release([mine])  # it is another one's by now
    assert (ids(cache, "a.md"), cache.leases.has_pending("words")) == ([], False)
    assert commit(cache, yours, ["apple"])


def test_an_expired_lease_that_was_not_taken_still_counts(cache, clock):
    record(cache.ledger, "a.md")
    mine = lease(cache)
    clock.now += LEASE_SECONDS + 1
    assert commit(cache, mine, ["apple"])


def test_newer_content_makes_older_work_stale_but_not_work_on_that_content(cache):
    record(cache.ledger, "a.md")
    row = lease(cache)
    record(cache.ledger, "a.md", sha="h2")
    with pytest.raises(StaleWorkError):
        commit(cache, row, ["apple"], sha="h1")
    assert ids(cache, "a.md") == []
    assert commit(cache, row, ["apple"], sha="h2")
    assert cache.ledger.pending()[0] == 0


def test_a_deletion_is_refused_when_the_file_is_back(cache):
    save(cache, "a.md", "apple", sha="h1")
    cache.ledger.record("garden", [], ["a.md"], priority=HIGH_PRIORITY)
    row = lease(cache)
    record(cache.ledger, "a.md", sha="h2")
    with pytest.raises(StaleWorkError):
        cache.commit_deletion(row)
    assert found(cache, "apple") == ["a.md"]


def test_postponed_rows_wait_longer_each_time_and_released_ones_do_not(cache, clock):
    record(cache.ledger, "a.md")
    waits = []
    for _ in range(3):
        cache.leases.postpone(lease(cache), "unreadable", "why")
        start = clock.now
        while not cache.leases.has_pending("words"):
            clock.now += 0.5
        waits.append(clock.now - start)
    assert waits == sorted(set(waits))
    row = lease(cache)
    cache.leases.release([row])
    assert lease(cache).attempts == row.attempts


def test_a_row_that_failed_before_is_leased_alone(cache, clock):
    record(cache.ledger, "a.md", "b.md", "c.md")
    rows = cache.leases.take("words", 10, "me")
    cache.leases.postpone(rows[0], "crash", "why")
    cache.leases.release(rows[1:])
    clock.now += 60
    assert [len(cache.leases.take("words", 10, "me")) for _ in range(2)] == [1, 2]


def test_a_row_set_apart_is_leased_only_apart(cache):
    record(cache.ledger, "a.md")
    cache.leases.set_apart(lease(cache), "slow")
    assert (cache.leases.has_pending("words", "together"), cache.leases.has_pending("words", "apart")) == (
        False,
        True,
    )
    assert cache.leases.take("words", 1, "me", "together") == []
    (row,) = cache.leases.take("words", 1, "me", "apart")
    cache.leases.set_apart(row, "slow")
    record(cache.ledger, "a.md", sha="h2")
    assert cache.leases.has_pending("words", "together")


def test_the_leases_of_the_dead_end_and_count_as_attempts_those_of_a_full_disk_do_not(cache):
    record(cache.ledger, "a.md")
    cache.leases.take("words", 1, "dead")
    cache.leases.free_those_of_the_dead(lambda owner: owner != "dead")
    (second,) = cache.leases.take("words", 1, "stopped")
    cache.leases.release_all_of(["stopped"])
    assert (second.attempts, lease(cache).attempts) == (2, 2)


def test_a_parked_note_leaves_the_index_and_is_pending_again_on_request_only(cache):
    save(cache, "a.md", "apple")
    record(cache.ledger, "a.md", sha="h2")
    cache.park(lease(cache), "too-large", "why")
    assert (found(cache, "apple"), cache.leases.has_pending("words"), cache.ledger.pending()[0]) == (
        [],
        False,
        0,
    )
    (parked,) = cache.ledger.parked_notes()
    assert (parked.path, parked.kind, parked.reason) == ("a.md", "too-large", "why")
    assert cache.ledger.retry("a.md")
    assert cache.leases.has_pending("words")
    assert not cache.ledger.retry("a.md")


def test_a_note_whose_vectors_failed_can_be_parked_with_its_words(cache):
    save(cache, "a.md", "apple", embedded=False)
    cache.park(lease(cache, "vectors"), "bad-vector", "why", keep_words=True)
    assert (found(cache, "apple"), cache.leases.has_pending("vectors"), cache.vectors.pending()) == (
        ["a.md"],
        False,
        0,
    )


def test_a_note_that_is_kept_waits_a_minute_and_counts_as_no_vectors_that_wait(cache, clock):
    save(cache, "a.md", "apple", embedded=False)
    cache.leases.postpone(lease(cache, "vectors"), KEPT, "why", counted=False)
    waiting = cache.leases.waiting()
    assert (waiting.vectors, waiting.kept, waiting.reason, cache.vectors.pending()) == (0, 1, None, 0)
    clock.now += 59
    assert not cache.leases.has_pending("vectors")
    clock.now += 2
    assert lease(cache, "vectors").attempts == 1


def test_a_cache_keeps_the_first_probes_and_none_beside_vectors(cache):
    first, second = [vector_of("apple")], [vector_of("bread")]
    assert cache.vectors.probes() == []
    assert np.array_equal(cache.vectors.keep_probes(first), first)
    assert np.array_equal(cache.vectors.keep_probes(second), first)


def test_a_cache_that_has_vectors_takes_no_probes(cache):
    cache.vectors.store({"hash of apple": vector_of("apple")})
    assert cache.vectors.keep_probes([vector_of("apple")]) == []


def test_nothing_waits_in_a_cache_without_pending_work(cache):
    assert cache.leases.waiting() is None


def test_the_oldest_note_says_for_how_long_work_waits(cache, clock):
    record(cache.ledger, "old.md")
    clock.now += 30
    record(cache.ledger, "new.md")
    clock.now += 10
    waiting = cache.leases.waiting()
    assert (waiting.words, waiting.done_s, waiting.is_leased, waiting.reason) == (2, None, False, None)
    assert waiting.oldest_s == pytest.approx(40)


def test_a_lease_counts_while_it_lasts(cache, clock):
    record(cache.ledger, "a.md")
    lease(cache)
    assert cache.leases.waiting().is_leased
    clock.now += LEASE_SECONDS
    assert not cache.leases.waiting().is_leased


def test_the_reason_is_that_of_a_note_that_waits(cache):
    record(cache.ledger, "a.md")
    cache.leases.postpone(lease(cache), "unreadable", "permission denied")
    assert cache.leases.waiting().reason == "permission denied"


# One transaction per note


def test_a_note_is_found_by_all_of_its_words_or_by_none(cache):
    record(cache.ledger, "a.md")
    with pytest.raises(BadVectorError):
        cache.commit_note(
            lease(cache),
            content("a.md"),
            parse_note("a.md", "apple"),
            cut(["apple", "bread"]),
            {"hash of apple": vector_of("apple"), "hash of bread": np.zeros(4, np.float32)},
        )
    assert (found(cache, "apple"), ids(cache, "a.md"), cache.ledger.pending()[0]) == ([], [], 1)
    assert cache.vectors.of(["hash of apple"]) == {}


def test_a_transaction_that_fails_leaves_nothing(store, cache):
    def fail():
        with cache.transaction():
            save(cache, "a.md", "apple")
            raise KeyError("of the caller")

    with pytest.raises(KeyError):
        fail()
    assert (ids(cache, "a.md"), ids(store.reader(), "a.md"), cache.ledger.known()) == ([], [], 0)


def test_others_see_a_transaction_when_it_ends_and_not_before(store, cache):
    other = store.reader()
    before = other.data_version()
    with cache.transaction():
        save(cache, "a.md", "apple")
        assert (found(cache, "apple"), found(other, "apple"), other.data_version()) == (["a.md"], [], before)
    assert found(other, "apple") == ["a.md"]
    assert other.data_version() != before


def test_all_reads_of_a_snapshot_see_the_same_state(store, cache):
    save(cache, "a.md", "apple")
    reader = store.reader()
    with reader.snapshot():
        (chunk,) = ids(reader, "a.md")
        save(cache, "a.md", "bread")
        save(cache, "b.md", "apple")
        assert reader.passages.chunk_rows([chunk])[chunk].text == "apple"
        assert (found(reader, "apple"), found(reader, "bread"), reader.counts().notes) == (["a.md"], [], 1)
    assert (found(reader, "apple"), found(reader, "bread"), reader.counts().notes) == (["b.md"], ["a.md"], 2)


def test_a_chunk_that_only_moves_keeps_its_id(cache):
    save(cache, "a.md", "one", "two")
    kept, gone = ids(cache, "a.md")
    save(cache, "a.md", "new", "one", "edited")
    assert [chunk.text for chunk in cache.passages.chunks_of("a.md")] == ["new", "one", "edited"]
    assert ids(cache, "a.md")[1] == kept
    assert cache.passages.chunk_paths([gone, kept]) == {kept: "a.md"}
    assert (found(cache, "two"), found(cache, "one")) == ([], ["a.md"])


def test_of_chunks_with_the_same_words_each_keeps_its_id_in_order(cache):
    save(cache, "a.md", "same", "same")
    before = ids(cache, "a.md")
    save(cache, "a.md", "same", "same", "same")
    now = ids(cache, "a.md")
    assert now[:2] == before
    assert len(set(now)) == 3


def test_an_id_is_never_used_again(cache):
    save(cache, "a.md", "apple")
    newest = cache.search.newest_chunk()
    assert ids(cache, "a.md") == [newest]
    delete(cache, "a.md")
    assert cache.search.newest_chunk() == newest
    save(cache, "a.md", "apple")
    assert min(ids(cache, "a.md")) > newest


def test_a_note_with_another_title_is_found_by_it_in_all_chunks_and_keeps_its_vectors(cache):
    save(cache, "a.md", "one", properties="title: Harvest")
    before = ids(cache, "a.md")
    save(cache, "a.md", "one", properties="title: Winter", embedded=False)
    (now,) = ids(cache, "a.md")
    assert (now != before[0], found(cache, "winter"), found(cache, "harvest")) == (True, ["a.md"], [])
    assert near(cache, vector_of("one")) == [now]
    assert cache.notes.names_since(before[0]).keys() == {"a.md"}


def test_a_chunk_is_found_by_every_heading_above_it_and_keeps_its_vector_below_another(cache):
    save(cache, "a.md", "one", headings=("Garden", "Kitchen"))
    (before,) = ids(cache, "a.md")
    assert (found(cache, "garden"), found(cache, "kitchen")) == (["a.md"], ["a.md"])
    save(cache, "a.md", "one", "two", headings=("Cellar",), embedded=False)
    one, _ = ids(cache, "a.md")
    assert (one != before, found(cache, "kitchen"), found(cache, "cellar")) == (True, [], ["a.md"])
    assert cache.vectors.pending_texts("a.md", 9) == {"hash of two": "two"}


def test_a_deleted_note_leaves_nothing_to_find(cache):
    save(cache, "a.md", "apple", "bread", sha="h1")
    assert delete(cache, "a.md") == ("h1", 1)
    assert (found(cache, "apple"), near(cache, vector_of("apple")), cache.passages.node("a.md")) == (
        [],
        [],
        None,
    )
    assert (cache.ledger.row("a.md"), cache.notes.names(), cache.counts().chunks) == (None, {}, 0)


# Vectors by the hash of their text


def test_a_note_is_near_once_all_of_its_vectors_are_there(cache):
    assert not save(cache, "a.md", "apple", "bread", embedded=False)
    assert cache.vectors.pending_texts("a.md", 9) == {"hash of apple": "apple", "hash of bread": "bread"}
    cache.vectors.store({"hash of apple": vector_of("apple")})
    row = lease(cache, "vectors")
    assert not cache.commit_vectors(row)
    assert (near(cache, vector_of("apple")), cache.vectors.pending()) == ([], 2)
    cache.vectors.store({"hash of bread": vector_of("bread")})
    assert cache.commit_vectors(row)
    first, second = ids(cache, "a.md")
    assert (near(cache, vector_of("apple")), near(cache, vector_of("bread"))) == ([first], [second])
    assert (cache.vectors.pending(), cache.leases.has_pending("vectors")) == (0, False)


def test_a_text_that_moves_to_another_note_keeps_its_vector(cache):
    save(cache, "a.md", "apple")
    delete(cache, "a.md")
    assert save(cache, "b.md", "apple", embedded=False)
    assert near(cache, vector_of("apple")) == ids(cache, "b.md")


def test_what_is_stored_is_returned_and_no_vector_that_is_none(cache):
    cache.vectors.store({"one": vector_of("a"), "two": vector_of("b")})
    stored = cache.vectors.of(["one", "two", "three"])
    assert {name: vector.tolist() for name, vector in stored.items()} == {
        "one": [1, 0, 0, 0],
        "two": [0, 1, 0, 0],
    }
    for bad in (np.zeros(4), np.ones(3), np.array([np.nan, 0, 0, 1])):
        with pytest.raises(BadVectorError):
            cache.vectors.store({"four": vector_of("c"), "bad": bad.astype(np.float32)})
    assert cache.vectors.of(["four", "bad"]) == {}


def test_unused_vectors_are_kept_for_the_grace_period_and_used_ones_for_good(cache, monkeypatch):
    save(cache, "kept.md", "apple")
    save(cache, "gone.md", "bread")
    delete(cache, "gone.md")
    cache.vectors.store({"of a worker that died": vector_of("c")})
    assert cache.vectors.drop_unused() == 0
    later = time.time() + VECTOR_GRACE_SECONDS + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert cache.vectors.drop_unused() == 2
    assert cache.vectors.of(["hash of apple", "hash of bread", "of a worker that died"]).keys() == {
        "hash of apple"
    }


# What keeps an index in memory in step


def test_the_journal_names_the_chunks_that_were_embedded_or_deleted_since_a_change(cache):
    start, nothing = cache.search.chunk_changes(None)
    assert (nothing, cache.search.chunk_changes(start)) == (None, (start, set()))
    save(cache, "a.md", "apple", "bread")
    first, changed = cache.search.chunk_changes(start)
    apple, bread = ids(cache, "a.md")
    assert (first > start, changed) == (True, {apple, bread})
    save(cache, "b.md", "dough", embedded=False)
    assert cache.search.chunk_changes(first) == (first, set())  # its vector is pending
    save(cache, "a.md", "apple")
    last, changed = cache.search.chunk_changes(first)
    assert (last > first, changed) == (True, {bread})
    assert cache.search.chunk_changes(last + 1) == (last, None)
    assert cache.search.chunks_with_vectors(None) == {apple}
    assert cache.search.chunks_with_vectors_between(apple - 1, bread) == {apple}


def test_words_are_counted_by_chunk_in_the_order_of_ids(cache):
    save(cache, "a.md", "apple apple", "bread")
    save(cache, "b.md", "apples and bread")
    first, second = ids(cache, "a.md")
    (third,) = ids(cache, "b.md")
    lengths = cache.search.lengths(0)
    assert [chunk for chunk, _ in lengths] == [first, second, third]
    assert cache.search.lengths(first, second) == cache.search.lengths_of([second, third + 1]) == lengths[1:2]
    assert cache.search.totals() == (3, sum(words for _, words in lengths))
    counted = cache.search.occurrences("apple", 0)
    assert [chunk for chunk, _ in counted] == [first, third]
    assert counted[0][1] > counted[1][1]
    assert (
        cache.search.occurrences("apple", first)
        == cache.search.occurrences_in("apple", [second, third])
        == counted[1:]
    )
    assert cache.search.count_having("apple") == 2


@pytest.mark.parametrize("beside", [0, 1, 40])
def test_a_phrase_is_found_in_the_chunks_asked_for_however_many(cache, beside):
    save(cache, "a.md", "apple bread", "bread apple", "apple bread")
    first, second, _ = ids(cache, "a.md")
    asked = [second, first, *range(1_000, 1_000 + beside)]
    assert [chunk for chunk, _ in cache.search.occurrences_in("apple bread", asked)] == [first]


def test_a_state_has_a_name_that_changes_with_what_rankings_depend_on(store, cache):
    save(cache, "a.md", "apple")
    names = [cache.search.generation()]
    reader = store.reader()
    assert reader.search.generation() == cache.search.generation() == names[0]
    save(cache, "a.md", "apple", "bread")
    names.append(cache.search.generation())
    save(cache, "b.md", "[[a]]", embedded=False)
    names.append(cache.search.generation())
    cache.vectors.store({"hash of [[a]]": vector_of("dough")})
    cache.commit_vectors(lease(cache, "vectors"))
    names.append(cache.search.generation())
    cache.graph.write_ranks(cache.graph.read().generation, [("a.md", 1.0, 0.5, 1)], {1: "Bread"}, RANKED_BY)
    names.append(cache.search.generation())
    assert len(set(names)) == len(names)
    assert reader.search.generation() == names[-1]


def test_hidden_notes_do_not_change_the_name_of_what_is_visible(cache):
    save(cache, "a.md", "apple")
    save(cache, "secret.md", "bread")
    before = cache.search.visible_generation({"secret.md"})
    save(cache, "secret.md", "bread", "more")
    assert cache.search.visible_generation({"secret.md"}) == before
    save(cache, "a.md", "apple", "more")
    assert cache.search.visible_generation({"secret.md"}) != before


# Retrieval


def test_the_nearest_chunks_come_first_and_only_those_that_are_asked_for(cache):
    save(cache, "a.md", "apple", "bread", "cheese")
    apple, bread, cheese = ids(cache, "a.md")
    question = np.float32([0.8, 0.6, 0, 0])
    ranked = cache.search.nearest(question, 2)
    assert [chunk for chunk, _ in ranked] == [apple, bread]
    assert [cosine for _, cosine in ranked] == pytest.approx([0.8, 0.6], abs=1e-5)
    assert [chunk for chunk, _ in cache.search.nearest(question, 9, [bread, cheese])] == [bread, cheese]
    assert cache.search.cosines(question, [bread, cheese + 1]) == {bread: pytest.approx(0.6)}
    assert cache.search.passages_nearer(question, 0.6) == 1
    assert cache.search.chunks_as_near(question, 0.6, [bread, cheese]) == [bread]


def test_words_are_found_in_any_form_the_best_first_and_only_in_the_chunks_that_are_asked_for(cache):
    save(cache, "a.md", "gardens and much else that is said here of them")
    save(cache, "b.md", "garden")
    save(cache, "c.md", "bread")
    (a,), (b,) = ids(cache, "a.md"), ids(cache, "b.md")
    wanted = LexicalQuery({"garden": 1})
    ranked = cache.search.matching(wanted, 9)
    assert [chunk for chunk, _ in ranked] == [b, a]
    assert ranked[0][1] > ranked[1][1]
    assert (cache.search.matching(wanted, 1), [c for c, _ in cache.search.matching(wanted, 9, [a])]) == (
        ranked[:1],
        [a],
    )


def test_a_phrase_is_its_words_in_their_order_and_close_words_may_have_others_between_them(cache):
    save(cache, "a.md", "bread and wine")
    save(cache, "b.md", "wine, then bread and wine cellars")
    save(cache, "wine.md", "a cellar")
    assert cache.search.notes_matching("wine cellar") == {"b.md"}
    assert cache.search.notes_having(["bread", "wine"], 1, lambda text: "bread" in text) == {"a.md", "b.md"}
    assert cache.search.notes_having(["wine"], 0, lambda text: text.startswith("wine")) == {"b.md", "wine.md"}


def test_filters_leave_the_chunks_of_the_notes_that_pass(cache):
    save(cache, "a.md", "apple", "bread", properties="tags: [food]")
    save(cache, "b.md", "dough")
    assert cache.filters.matching_chunks(parse_filters([])) is None
    assert sorted(cache.filters.matching_chunks(parse_filters([("tag", "food")]))) == ids(cache, "a.md")
    assert cache.filters.matching_chunks(parse_filters([("tag", "food")]), {"a.md"}) == []


def test_a_hit_shows_its_text_with_its_note_and_its_neighbours(cache):
    save(cache, "a.md", "apple", "bread", "cheese", properties="title: Larder")
    apple, bread, _ = ids(cache, "a.md")
    row = cache.passages.chunk_rows([bread, 999])[bread]
    assert (row.path, row.title, row.text, row.first_line) == ("a.md", "Larder", "bread", 2)
    assert [one.text for one in cache.passages.chunks_around([apple], 1)["a.md"]] == ["apple", "bread"]
    assert cache.notes.first_chunks(["a.md", "unknown.md"]) == {"a.md": apple}
    assert cache.notes.names(["a.md"]) == {"a.md": ("Larder", "[]")}


def test_texts_owe_the_vectors_of_their_sentences_until_these_are_stored(cache):
    save(cache, "a.md", "apple")
    assert cache.passages.pending_sentences(9) == {"hash of apple": "apple"}
    (chunk,) = ids(cache, "a.md")
    assert cache.passages.quantized_of_chunks([chunk]) == {}
    sentences = np.int8([[1, 2, 3, 4], [5, 6, 7, 8]])
    cache.passages.keep_quantized({"hash of apple": sentences})
    assert cache.passages.pending_sentences(9) == {}
    assert cache.passages.quantized_of_chunks([chunk])[chunk].tolist() == sentences.tolist()


def test_texts_wait_for_a_second_model_until_its_vectors_are_stored(cache, store):
    save(cache, "a.md", "apple")
    cache.second.want("another model")
    save(cache, "b.md", "bread")
    assert cache.second.pending(9) == {"hash of apple": "apple", "hash of bread": "bread"}
    assert len(cache.second.pending(1)) == 1
    (apple,), (bread,) = ids(cache, "a.md"), ids(cache, "b.md")
    cache.second.keep(
        "another model", {"hash of apple": np.int8([1, 2, 127]), "unknown": np.int8([1, 2, 127])}
    )
    assert cache.second.pending(9) == {"hash of bread": "bread"}
    found = store.reader().second.of_chunks("another model", [apple, bread, 999])
    assert {chunk: vector.tolist() for chunk, vector in found.items()} == {apple: [1, 2, 127]}
    assert cache.second.of_chunks("a third model", [apple]) == {}


def test_what_a_second_model_was_asked_for_is_kept_when_another_is_wanted(cache):
    save(cache, "a.md", "apple", "bread")
    apple, _ = ids(cache, "a.md")
    cache.second.want("one")
    cache.second.keep("one", {"hash of apple": np.int8([127])})
    cache.second.want("two")
    assert cache.second.pending(9).keys() == {"hash of apple", "hash of bread"}
    cache.second.want(None)
    assert cache.second.pending(9) == {}
    save(cache, "b.md", "cheese")
    assert cache.second.pending(9) == {}
    cache.second.want("one")
    assert cache.second.pending(9).keys() == {"hash of bread", "hash of cheese"}
    assert cache.second.of_chunks("one", [apple])[apple].tolist() == [127]


def test_a_state_that_waits_for_a_second_model_has_a_name_of_its_own(cache, store):
    save(cache, "a.md", "apple")
    cache.passages.keep_quantized({"hash of apple": np.int8([[1, 2, 3, 4]])})
    reader = store.reader()
    before = reader.search.generation()
    cache.second.want("one")
    waiting = reader.search.generation()
    cache.second.keep("one", {"hash of apple": np.int8([127])})
    assert len({before, waiting}) == 2
    assert reader.search.generation() == before


# Edges follow the links and the files


def test_a_link_means_a_file_as_long_as_there_is_one(cache):
    record(cache.ledger, "a.md")
    cache.edges.change_paths(["a.md"], ())
    row = lease(cache)
    cache.commit_note(row, content("a.md"), parse_note("a.md", "See [[b]]."), cut(["See b."]), {})
    assert edges(cache, "a.md") == [("b", None)]
    cache.edges.change_paths(["folder/b.md"], ())
    assert edges(cache, "a.md") == [("b", "folder/b.md")]
    cache.edges.change_paths(["b.md"], ())
    assert edges(cache, "a.md") == [("b", "b.md")]  # nearer to the root
    cache.edges.change_paths((), ["b.md"])
    assert edges(cache, "a.md") == [("b", "folder/b.md")]
    cache.edges.change_paths((), ["folder/b.md", "unknown.md"])
    assert edges(cache, "a.md") == [("b", None)]
    assert cache.edges.paths_below("") == ["a.md"]


def test_a_deleted_note_takes_its_edges_along_and_an_edit_replaces_them(cache):
    save(cache, "b.md", "bread")
    save(cache, "c.md", "cheese")
    save(cache, "a.md", "[[b]]")
    assert [(edge.source, edge.target) for edge in cache.graph.read().edges] == [("a.md", "b.md")]
    save(cache, "a.md", "[[c]]")
    assert [(edge.source, edge.target) for edge in cache.graph.read().edges] == [("a.md", "c.md")]
    assert [edge.path for edge in cache.graph.edges_at(["c.md"])] == ["a.md"]
    assert cache.search.linked_from(["a.md"]) == {"a.md": {"c.md"}}
    assert cache.search.linked_from(["a.md"], {"c.md"}) == {}
    delete(cache, "a.md")
    assert (list(cache.graph.read().edges), cache.graph.edges_at(["c.md"])) == ([], [])


def test_an_edge_has_the_type_of_its_link_and_a_pair_linked_twice_counts_as_before(cache):
    save(cache, "b.md", "bread")
    save(cache, "a.md", "[[b]] and (made of:: [[b]], [[b]]) and [[gone]] (x:: [[gone]])")
    assert [(edge.kind, edge.count) for edge in cache.graph.read().edges] == [("wikilink", 3)]
    assert [(edge.type, edge.count) for edge in cache.graph.read_edges()] == [(None, 1), ("made_of", 2)]
    assert {(edge.source, edge.target, edge.type) for edge in cache.graph.edges_at(["b.md"])} == {
        ("a.md", "b.md", None),
        ("a.md", "b.md", "made_of"),
    }
    missing = [(link.type, link.meant) for link in cache.graph.links_of("a.md") if link.target == "gone"]
    assert missing == [(None, None), ("x", None)]
    save(cache, "gone.md", "found")
    assert {edge.type for edge in cache.graph.edges_at(["gone.md"])} == {None, "x"}
    save(cache, "a.md", "(part of:: [[b]])")
    assert [edge.type for edge in cache.graph.edges_at(["b.md"])] == ["part_of"]


def test_ranks_are_behind_when_edges_change_and_due_when_they_are_quiet(cache, clock):
    assert not cache.edges.ranks_behind()
    save(cache, "b.md", "bread")
    save(cache, "a.md", "[[b]]")
    assert (cache.edges.ranks_behind(), cache.edges.ranks_due()) == (True, False)
    clock.now += 10
    assert cache.edges.ranks_due()
    generation = cache.graph.read().generation
    ranks, labels = {"a.md": (0.4, 0.0, 1), "b.md": (0.6, 0.5, 1)}, {1: "Bread"}
    cache.graph.write_ranks(generation, [(path, *rank) for path, rank in ranks.items()], labels, RANKED_BY)
    assert not cache.edges.ranks_behind()
    assert (cache.graph.read_ranks(), cache.graph.read_labels(), cache.graph.ranked_by()) == (
        ranks,
        labels,
        RANKED_BY,
    )
    assert cache.passages.note_facts(["b.md"])["b.md"].pagerank == 0.6


def test_ranks_of_an_older_graph_stay_behind_it(cache):
    save(cache, "b.md", "bread")
    save(cache, "a.md", "[[b]]")
    generation = cache.graph.read().generation
    save(cache, "a.md", "[[b]] and [[a]]")
    cache.graph.write_ranks(generation, [("a.md", 0.5, 0.0, 1)], {1: "Bread"}, RANKED_BY)
    assert cache.edges.ranks_behind()


# Ignored files and figures


def test_a_path_is_ignored_by_the_rule_that_was_recorded_last(cache):
    cache.set_ignored({"a.md": "a*", "b.md": "b*"})
    cache.note_ignored("a.md", None)
    cache.note_ignored("c.md", "c*")
    assert [cache.ignored_rule(path) for path in ("a.md", "b.md", "c.md")] == [None, "b*", "c*"]
    assert cache.counts().ignored == 2
    cache.set_ignored({})
    assert cache.counts().ignored == 0


def test_counts_are_those_of_one_moment(cache):
    save(cache, "a.md", "apple", "bread")
    save(cache, "b.md", "cheese", embedded=False)
    record(cache.ledger, "parked.md")
    cache.park(lease(cache), "too-large", "why")
    record(cache.ledger, "c.md")
    counts = cache.counts()
    assert (counts.notes, counts.chunks, counts.pending, counts.parked) == (2, 3, 1, 1)
    assert counts.vectors_pending == 1
    assert cache.counts(["b.md"]).notes == 1
