"""The acts of a life: each is a process that starts, does something, and ends. Together they reach every place."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from pipelines.cache.cache import SqliteCache
from pipelines.domains import DOMAINS_FILE
from pipelines.errors import BadVectorError, EverindexError, StorageUnavailableError
from pipelines.model import Place
from pipelines.sqlite import connect, one
from pipelines.state.attention import Attention
from pipelines.state.evidence import Evidence, EvidenceRecord
from pipelines.state.state import State
from pipelines.store import WritableCache
from queue_config.queue import QUEUE_FILE
from service.usecases.maintenance import back_up, restore
from tests.documents import DOCUMENTS, document
from workers.tasks import look_at

from .life import DEAD_OWNER, Service, World

_MANY, _FEW, _KEPT = 30, 6, 6
_SECTIONS = 1100  # one more block of sqlite-vec's than is being filled
_WORDS = [
    "garden",
    "soil",
    "compost",
    "tomato",
    "river",
    "boat",
    "market",
    "bread",
    "flour",
    "sleep",
    "night",
]
_RECUT = {"chunk_target_words": 30, "embedding_context": "breadcrumb"}
_OTHER_MODEL = _RECUT | {"model": "b"}
_RULES = "ignored/\n"
_GONE = "gone"
_DOMAINS = "alpha:\n  path: alpha\nrest:\n  legacy: true\n"
_WITH_DOCUMENTS = "alpha:\n  path: alpha\n{0}rest:\n  legacy: true\n{0}".format(
    "  formats: [md, txt, csv, xlsx, pptx, pdf, docx, html, ipynb, yaml, json, code]\n"
)
_OTHER_RECORDS = "  documents: {yaml: {skip: [drafts]}}\n"


@dataclass(frozen=True)
class Act:
    """What happens, with which settings; the `trouble` that is part of it.

    `by_hand` is what the user has to do again if it was broken off. `prepare` is done once, before the children play.
    """

    play: Callable[[World, Service], None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    by_hand: Callable[[Service], None] = lambda _: None
    trouble: tuple[type[EverindexError], ...] = ()
    prepare: Callable[[], object] = lambda: None

    @property
    def name(self) -> str:
        return self.play.func.__name__ if isinstance(self.play, partial) else self.play.__name__


def text(n: int, version: int = 0) -> str:
    """Return a note: the same one for the same numbers."""
    chance = random.Random(n * 1000 + version)  # noqa: S311 - words, not secrets
    words = [" ".join(chance.choices(_WORDS, k=40)) for _ in range(2)]
    return (
        f"---\ntags: [{chance.choice(_WORDS)}]\naliases: [The {n}th]\n---\n# Note {n}\n\n{words[0]} "
        f"[[note-{n // 2}]]\n\n## Part {version}\n\n{words[1]}\n\n## Shared\n\nThe same in every note.\n"
    )


def _path(n: int) -> str:
    return f"{('', 'alpha/', 'beta/')[n % 3]}note-{n}.md"


def _a_cache(service: Service) -> WritableCache:
    return next(iter(service.resources.caches().values()))


def first_scan(world: World, service: Service, *, notes: int) -> None:
    for n in range(notes):
        world.write(_path(n), text(n))
    world.write(".gitignore", _RULES)
    world.write("ignored/draft.md", text(100))
    world.write("large.md", "x" * 60_000)
    service.begin()


def many_notes_vanish(world: World, service: Service) -> None:
    service.begin()
    world.delete([_path(n) for n in range(_KEPT, _MANY)])
    service.notice("alpha", "beta", *(_path(n) for n in range(_KEPT, _MANY)))
    service.compare()
    service.work()
    service.compare(confirmed=True)
    service.work()


def a_note_is_saved_renamed_and_deleted(world: World, service: Service) -> None:
    service.begin()
    for version in (1, 2):
        world.write("new.md", text(50, version))
        service.notice("new.md")
        service.work()
    for version in (3, 4):  # saved again before the first hint is followed
        world.write("new.md", text(50, version))
        service.notice("new.md")
    service.work()
    world.rename("new.md", "alpha/moved.md")
    service.notice("new.md", "alpha/moved.md")
    service.work()
    world.write("ignored/other.md", text(101))
    service.notice("ignored/other.md")
    world.delete(["alpha/moved.md"])
    service.notice("alpha/moved.md")
    service.work()


def a_note_is_parked(world: World, service: Service) -> None:
    service.begin()
    world.write("large.md", "y" * 70_000)
    service.notice("large.md")
    service.work()
    service.carry_on(lambda: _a_cache(service).ledger.retry("large.md"))
    service.work()
    world.write("large.md", text(51))
    service.notice("large.md")
    service.work()


def the_model_is_sick_for_a_while(world: World, service: Service) -> None:
    service.begin()
    service.resources.before_encoding(_raise_bad_vector)
    world.write("beta/sick.md", text(52))
    service.notice("beta/sick.md")
    service.turn()
    service.turn()
    service.resources.before_encoding()
    service.work()


def _raise_bad_vector() -> None:
    raise BadVectorError("the model is sick")


def another_process_keeps_the_cache_locked(world: World, service: Service) -> None:
    service.begin()
    world.write("locked.md", text(56))
    service.compare()
    service.carry_on(lambda: _lock_for_a_turn(service))
    service.work()


def _lock_for_a_turn(service: Service) -> None:
    cache = _a_cache(service)
    assert isinstance(cache, SqliteCache)
    other = connect(cache.path)

    def lock() -> None:
        cache.con.set_busy_timeout(0)
        other.execute("BEGIN IMMEDIATE")

    service.resources.before_encoding(lock)
    service.turn()
    service.resources.before_encoding()
    other.close()


def the_rules_change(world: World, service: Service) -> None:
    service.begin()
    world.write(".gitignore", f"{_RULES}beta/\n")
    service.compare()
    service.work()
    world.write(".gitignore", _RULES)
    service.compare()
    service.work()


def a_worker_died_and_the_queue_is_lost(world: World, service: Service) -> None:
    service.begin()
    world.write("late.md", text(53))
    service.compare()
    service.carry_on(lambda: _a_cache(service).leases.take("words", 3, DEAD_OWNER))
    for file in world.state.glob(f"{QUEUE_FILE}*"):
        file.unlink()
    service.work()
    service.tasks.reconcile_vault("asked", False)  # noqa: FBT003 - as it stands on the queue
    service.work()


def the_domains_change(world: World, service: Service) -> None:
    service.begin()
    world.write(DOMAINS_FILE, _DOMAINS)
    service.compare()
    service.work()
    world.rename(_path(0), "alpha/note-0.md")
    service.notice(_path(0), "alpha/note-0.md")
    service.work()


def notes_are_dated_otherwise(world: World, service: Service) -> None:
    service.begin()
    world.commit()
    service.work()
    world.write(DOMAINS_FILE, f"{_DOMAINS}  dates: {{created: [git, date]}}\n")
    service.compare()
    service.work()
    world.write(DOMAINS_FILE, _DOMAINS)
    world.forget_commits()
    service.compare()
    service.work()


@cache
def _papers() -> tuple[dict[str, bytes], ...]:
    """Return two versions of a document of each format by its path; their libraries write the time into some."""
    said = ("The garden and the river", "The market and the bread")
    return tuple({f"papers/d{suffix}": document(suffix, words) for suffix in DOCUMENTS} for words in said)


def documents_come_change_and_go(world: World, service: Service) -> None:
    """Only in this act there are any: a process that reads them takes longer to start than all else."""
    service.begin()
    first, second = _papers()
    world.write(DOMAINS_FILE, _WITH_DOCUMENTS)
    for path, data in first.items():
        world.write(path, data)
    service.compare()
    service.work()
    for path, data in second.items():
        world.write(path, data)
    service.notice(*second)
    service.work()
    world.rename("papers", "alpha/papers")
    service.notice("papers", "alpha/papers")
    service.work()
    world.rename("alpha/papers/d.csv", "alpha/papers/d.txt")
    service.notice("alpha/papers/d.csv", "alpha/papers/d.txt")
    service.work()
    left = sorted(file.relative_to(world.vault).as_posix() for file in world.vault.glob("alpha/papers/*"))
    world.delete(left)
    service.notice(*left)
    service.work()
    world.write(DOMAINS_FILE, _DOMAINS)
    service.compare()
    service.work()


def an_edit_does_not_show(world: World, service: Service) -> None:
    service.begin()
    world.change_unseen(_path(1))
    service.rehash()
    service.work()


def records_are_kept(_: World, service: Service) -> None:
    service.begin()
    service.carry_on(lambda: _keep_evidence(service.resources.store))


def _keep_evidence(place: Place) -> None:
    evidence = Evidence(place)
    evidence.add(EvidenceRecord("rx-1", "why?", None, None, "2026-11-21", (), {}))
    evidence.curate("rx-1", [], {}, notes="because", at="2026-11-21")
    evidence.delete("rx-1")
    evidence.close()


def an_operator_decides(_: World, service: Service) -> None:
    service.begin()
    service.carry_on(lambda: _decide(service.resources.store))


def _decide(place: Place) -> None:
    """Decide about a domain that is not there, at last as an earlier version wrote it down."""
    state = State(place)
    state.decisions.pause(_GONE, "2026-11-21")
    state.decisions.replace_dismissed(_GONE, {"a.md": 1})
    state.decisions.resume(_GONE)
    again = "INSERT INTO fact VALUES (?, 'true', 0, 0) ON CONFLICT (key) DO NOTHING"
    state._con.execute(again, (f"paused:{_GONE}",))
    state.close()
    State(place).close()


def a_note_is_asked_for_and_chosen(world: World, service: Service) -> None:
    service.begin()
    world.write("wanted.md", text(77))
    service.notice("wanted.md")
    service.carry_on(
        lambda: [cache.ledger.hasten("wanted.md") for cache in service.resources.caches().values()]
    )
    service.carry_on(lambda: _choose(service.resources.store))
    service.work()
    service.carry_on(partial(look_at, service.resources, "wanted.md", force=True))
    service.work()


def _choose(place: Place) -> None:
    attention = Attention(place)
    attention.add(["wanted.md"], "opened", 0.0)
    attention.keep_hashes({"wanted.md": "as it was"})
    attention.move("wanted.md", "renamed.md")
    attention.delete("renamed.md")
    attention.close()


def notes_are_cut_anew(world: World, service: Service) -> None:
    service.begin()
    world.write(DOMAINS_FILE, _WITH_DOCUMENTS + _OTHER_RECORDS)
    service.command(lambda own: own.caches())
    service.rebuild(only_other_models=True)
    service.begin()
    cache = _a_cache(service)
    service.carry_on(lambda: cache.ledger.want_version(cache.meta.pipeline))
    service.work()


def a_very_long_note_comes_and_goes(world: World, service: Service) -> None:
    service.begin()
    world.write("long.md", "\n\n".join(f"## {n}\n\nPart {n}." for n in range(_SECTIONS)))
    service.notice("long.md")
    service.work()
    world.write("after.md", text(54))
    service.notice("after.md")
    service.work()
    world.delete(["long.md"])
    service.notice("long.md")
    service.work()
    service.compare()


def the_index_drifts_and_is_repaired(_: World, service: Service) -> None:
    service.begin()
    service.carry_on(lambda: _drift(_a_cache(service)))
    service.repair()


def _drift(cache: WritableCache) -> None:
    with cache.transaction():
        (path,) = one(cache.con, "SELECT min(path) FROM vault_node")
        cache.con.execute("UPDATE vault_chunk SET text = 'other' WHERE path = ?", (path,))
        if isinstance(cache, SqliteCache):
            cache.con.execute("DELETE FROM vault_chunk_fts WHERE rowid = (SELECT max(id) FROM vault_chunk)")
        else:
            cache.con.execute(
                "DELETE FROM vault_vector WHERE text_hash = (SELECT min(text_hash) FROM vault_chunk)"
            )


def a_backup_is_restored(world: World, service: Service) -> None:
    service.begin()
    service.command(lambda own: back_up(own, world.backup, replaces=True))
    world.write("after.md", text(55))
    service.notice("after.md")
    service.work()
    service.command(lambda own: restore(own, world.backup))
    service.begin()


def caches_are_built_anew(_: World, service: Service) -> None:
    service.begin()
    service.rebuild()
    service.begin()


def another_model_is_chosen(_: World, service: Service) -> None:
    service.rebuild(only_other_models=True)
    service.begin()


_SHORT = (
    Act(a_note_is_saved_renamed_and_deleted),
    Act(a_note_is_parked),
    Act(the_model_is_sick_for_a_while),
    Act(another_process_keeps_the_cache_locked, trouble=(StorageUnavailableError,)),
    Act(the_rules_change),
    Act(a_worker_died_and_the_queue_is_lost),
    Act(the_domains_change),
    Act(notes_are_dated_otherwise),
    Act(documents_come_change_and_go, prepare=_papers),
    Act(an_edit_does_not_show, by_hand=Service.rehash),
    Act(records_are_kept),
    Act(an_operator_decides),
    Act(a_note_is_asked_for_and_chosen),
    Act(notes_are_cut_anew, _RECUT, partial(Service.rebuild, only_other_models=True)),
    Act(the_index_drifts_and_is_repaired, _RECUT, Service.repair),
    Act(a_backup_is_restored, _RECUT),
    Act(caches_are_built_anew, _RECUT),
    Act(another_model_is_chosen, _OTHER_MODEL, partial(Service.rebuild, only_other_models=True)),
)
BRIEF_LIFE = (Act(partial(first_scan, notes=2)), Act(a_note_is_saved_renamed_and_deleted))
SHORT_LIFE = (Act(partial(first_scan, notes=_FEW)), *_SHORT)
LONG_LIFE = (
    Act(partial(first_scan, notes=_MANY)),
    Act(many_notes_vanish),
    Act(a_very_long_note_comes_and_goes),
    *_SHORT,
)
_OF_FILES = (another_process_keeps_the_cache_locked, a_backup_is_restored)
LIFE_IN_POSTGRESQL = tuple(act for act in LONG_LIFE if act.play not in _OF_FILES)
