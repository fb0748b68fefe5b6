"""Every place where a process can die between two states of the disk, and a death at each of them.

A place is before or after a commit, an enqueue, a dequeue or a rename. It is named after our function that does it:
`pipelines.cache.cache.CacheTables.commit_note: before commit`. Production code contains nothing of it: the
primitives are hooked, in a child that is going to die.
"""

from __future__ import annotations

import ast
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import apsw
from huey.api import Huey

from pipelines.postgres import PostgresConnection
from tests.postgres import postgres_server

from .acts import LIFE_IN_POSTGRESQL, LONG_LIFE, Act
from .life import Service, World
from .stage import Findings, Stage, quick_folder

ROOT = Path(__file__).parents[2]
PACKAGES = ("pipelines", "queue_config", "workers", "service")
_STORE, _QUEUE = "pipelines.sqlite", "queue_config.queue"
_RENAMES = ("replace", "rename", "link")
_QUEUED = ("enqueue", "dequeue")
SIDES = ("before", "after")
# A killed process leaves what it wrote to a server that lives on.
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def hook(reached: Callable[[str], None]) -> None:
    """Call `reached` with a place's name from now on, in this process, whenever it is reached."""

    def at(side: str, what: str) -> None:
        name = _name(_QUEUE if what in _QUEUED else _STORE)
        if name or what == "dequeue":
            reached(f"{name or 'the consumer'}: {side} {what}")

    def around(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        @wraps(original)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            at("before", name)
            result = original(*args, **kwargs)
            at("after", name)
            return result

        setattr(owner, name, hooked)

    def traced(event: dict[str, Any]) -> None:
        if event["sql"] == "COMMIT":
            at("before" if event["code"] == apsw.SQLITE_TRACE_STMT else "after", "commit")

    def trace(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_PROFILE, traced)

    _hook_postgresql(at)
    apsw.connection_hooks.append(trace)
    for name in _RENAMES:
        around(os, name)
    for name in _QUEUED:
        around(Huey, name)


def _hook_postgresql(at: Callable[[str, str], None]) -> None:
    original = PostgresConnection.transaction

    @contextmanager
    def transaction(connection: PostgresConnection) -> Iterator[None]:
        with original(connection):
            yield
            at("before", "commit")
        at("after", "commit")

    PostgresConnection.transaction = transaction


def _name(primitive: str) -> str | None:
    """Return our nearest function on the stack, skipping the module that acts for others."""
    frame = sys._getframe(1)
    while frame:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in PACKAGES and module != primitive:
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return None


# The places in the source

ELSEWHERE = {
    "service.runtime.supervisor": "moves a log file aside: no state of ours depends on it",
    _STORE: "commits for others",
    "service.http.routes": "asks for a comparison: the life enqueues the same task",
    "pipelines.state.jobs": "what jobs did, for people to read: no work depends on it",
    "pipelines.state.note_log": "what happened to notes, for people to read: no work depends on it",
    "pipelines.state.health.Processes": "which processes live, for people to read: no work depends on it",
    "pipelines.state.health.Problems": "what is wrong, for people to read: no work depends on it",
    "pipelines.maintenance.databases": "copies beside the damaged file: tests/whole/test_maintenance.py mends real ones",
    "pipelines.cache.pgvector": "a derived table: tests/pipelines/cache/test_pgvector.py breaks its making off",
    "pipelines.state.chats": "conversations, of which no work depends: tests/whole/test_chat.py kills a service in one",
    "pipelines.state.views": "views in PostgreSQL: tests/pipelines/state/test_views.py",
    "pipelines.maintenance.stores": "another store: tests/pipelines/maintenance/test_stores.py kills it",
    "pipelines.vault.atomic.write_in_folder": "writes the vault's id again: tests/pipelines/vault/test_identity.py",
    "pipelines.cache.leases.SqlLeases.renew": "a heavy note: tests/pipelines/indexing/test_parse_apart.py kills what parses it",
    "pipelines.cache.ledger.SqlLedger.keep_indexed": "a note that the brake holds: tests/pipelines/indexing/test_ingest.py",
    "pipelines.cache.cache.CacheTables.transaction": "commits for others",
    "pipelines.cache.postgres": "a cache in PostgreSQL: tests/pipelines/cache/test_postgres.py kills the server",
    "pipelines.postgres": "commits for others, and on a server",
    "pipelines.state.state._open_schema": "as a cache in PostgreSQL",
    "pipelines.cache.dates.SqlDating.restate": "commits with `date_again`, which reads the dates before",
    "pipelines.cache.vectors.SqlSecondVectors": "a second model, whose vectors are made again: tests/service/usecases/test_search_second.py",
    **dict.fromkeys(
        (
            "pipelines.cache.vectors.SqlVectors.keep_probes",
            "pipelines.indexing.ingest._keep",
            "pipelines.state.endpoints",
        ),
        "the life has no endpoints: tests/workers/test_endpoints.py",
    ),
    "pipelines.cache.graph.SqlGraph.forget_ranks": "a repair of ranks: tests/pipelines/maintenance/test_verify_schema.py",
    "service.usecases.tags": "asks for what `tag_places` enqueues itself",
    "service.usecases.operations.Parked.retry": "asks for a retry: the life retries a parked note through the ledger",
    **dict.fromkeys(
        (
            "pipelines.vault.write",
            "pipelines.vault.in_folder",
            "pipelines.state.tags",
            "pipelines.tagging",
            "workers.tag_sweep",
            "workers.tagging",
        ),
        "tags have a life of their own: `tag_places`, and tests/workers/test_tagging.py dies at each step of a rename",
    ),
}
"""Modules and functions whose places the life does not reach, and why not."""


_OF_POSTGRESQL = ("pipelines.cache.postgres", "pipelines.postgres", "pipelines.state.state._open_schema")


def is_elsewhere(name: str, *, in_postgresql: bool = False) -> bool:
    """Say whether a module, or what is in it, is no part of the life."""
    modules = ELSEWHERE.keys() - (_OF_POSTGRESQL if in_postgresql else ())
    return any(name == module or name.startswith((f"{module}.", f"{module}:")) for module in modules)


def written(*, everywhere: bool = False) -> set[str]:
    """Return the places that the source names; those that the life does not reach only if `everywhere`."""
    found = {f"the consumer: {side} dequeue" for side in SIDES}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            places = _places_in(ast.parse(file.read_text(encoding="utf-8")), module)
            found |= {place for place in places if everywhere or not is_elsewhere(place)}
    return found


def _places_in(node: ast.AST, name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = "" if isinstance(node, ast.Module | ast.ClassDef) else "<locals>."
            yield from _places_in(child, f"{name}.{inside}{child.name}")
            continue
        if isinstance(child, ast.Call) and (what := _what(child)):
            yield from (f"{name}: {side} {what}" for side in SIDES)
        yield from _places_in(child, name)


def _what(call: ast.Call) -> str | None:
    """Say which place a call is, by the way in which it is written."""
    function = call.func
    if "transaction" in (getattr(function, "id", None), getattr(function, "attr", None)):
        return "commit"
    if not isinstance(function, ast.Attribute):
        return None
    owner = function.value.id if isinstance(function.value, ast.Name) else None
    if owner == "os":
        return function.attr if function.attr in _RENAMES else None
    if owner == "tasks":
        return "enqueue"
    if function.attr == "hardlink_to":
        return "link"
    # A text's `replace` takes two arguments.
    renames = function.attr in ("replace", "rename") and len(call.args) == 1 and not call.keywords
    return function.attr if renames else None


# Deaths


@contextmanager
def stage(*, in_postgresql: bool = False) -> Iterator[tuple[Stage, dict[str, Counter[int]]]]:
    """Play a life once; give the stage, and for each place how often each act (by its number) reaches it."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(quick_folder()))
        server = opened.enter_context(postgres_server(options=_QUICK)) if in_postgresql else None
        played = Stage(folder, LIFE_IN_POSTGRESQL if server else LONG_LIFE, _count, server)
        places: dict[str, Counter[int]] = {}
        for number, told in enumerate(played.told):
            for name, times in told.items():
                if not is_elsewhere(name, in_postgresql=in_postgresql):
                    places.setdefault(name, Counter())[number] = times
        yield played, dict(sorted(places.items()))


def _count() -> Callable[[], dict[str, int]]:
    reached: Counter[str] = Counter()
    hook(lambda name: reached.update([name]))
    return lambda: reached


def die_at(played: Stage, act: int, place: str, nth: int) -> tuple[bool, Findings]:
    """Play an act until it reaches a place for the n-th time and dies; say whether it did, and what is wrong then."""

    def play(playing: Act, world: World) -> None:
        left = nth

        def reached(name: str) -> None:
            nonlocal left
            left -= name == place
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        hook(reached)
        playing.play(world, Service(world.settings(playing.settings)))

    ended, found = played.trial(act, play)
    return ended.died, found


def kill_at_every_place(chance: random.Random, *, in_postgresql: bool = False) -> Iterator[dict[str, float]]:
    """Die at one place after the other, at a random one of the times it is reached, for ever; yield what it did."""
    with stage(in_postgresql=in_postgresql) as (played, places):
        while True:
            for place, acts in places.items():
                act, nth = chance.choice([(act, n + 1) for act, times in acts.items() for n in range(times)])
                killed, found = die_at(played, act, place, nth)
                yield {"kills": float(killed)} | {name: float(len(what)) for name, what in found.items()}
