"""Where lives are played: each act in a child that may really die, and what must hold after a restart."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.cache.cache import SqliteCache
from pipelines.errors import BackupError, CacheError
from pipelines.maintenance import databases
from pipelines.maintenance.backup import _check_seal
from service.usecases.maintenance import verify_caches
from tests.postgres import PostgresServer
from tests.temporary import in_memory

from .acts import Act
from .life import Service, World, make_models

_ROOM = 500_000_000
_LONGEST_SECONDS = 60  # a child that hangs is ended by the system
Findings = dict[str, list[str]]


@dataclass(frozen=True)
class Ended:
    """How a child ended: with an answer, or killed."""

    answer: Any
    died: bool


def in_child(job: Callable[[], Any], log: Path) -> Ended:
    """Run a job in a forked process and return its answer (JSON). Raises AssertionError where it raised."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # A child of a process with threads must not wait for their locks: this one asks for none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_a_child(job, log, writing)
    os.close(writing)
    answer = _read_until_it_ends(pid, reading)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL:
        return Ended(None, died=True)
    if code:
        why = f"hung for {_LONGEST_SECONDS} s" if code == -signal.SIGALRM else f"ended with {code}"
        raise AssertionError(f"the child {why}:\n{log.read_text()[-4000:]}")
    return Ended(json.loads(answer), died=False)


def _read_until_it_ends(pid: int, reading: int) -> bytes:
    """Return what a child writes. Raises AssertionError for one that hung before it could set its own alarm."""
    answer, until = b"", time.monotonic() + 2 * _LONGEST_SECONDS
    poll = select.poll()  # `select` knows no descriptor above 1,023
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        poll.register(pipe, select.POLLIN)
        while poll.poll(1_000 * max(0.0, until - time.monotonic())):
            data = pipe.read(65536)
            if not data:
                return answer
            answer += data
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hung where it was forked: a thread of its parent held what it waits for")


def _be_a_child(job: Callable[[], Any], log: Path, writing: int) -> None:
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LONGEST_SECONDS)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        data = json.dumps(job()).encode()
        while data:
            data = data[os.write(writing, data) :]
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may leave: the parent's stack is not the child's
        with suppress(OSError):
            os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def quick_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a new folder, in memory if there is room: a real disk's syncs take longer than all the rest.

    Nothing here needs one. A killed process leaves what it wrote, and a lost write is lost by `disk`.
    """
    return tempfile.TemporaryDirectory(prefix="everindex-", dir=in_memory(_ROOM))


class Stage:
    """The worlds before each act of a life, kept so that a trial plays only the act in which something happens.

    `watch` is called in each act's child before it begins, and returns what tells what it saw. With a server, a
    world's state and caches are in a database of it.
    """

    def __init__(
        self,
        folder: Path,
        acts: Sequence[Act],
        watch: Callable[[], Callable[[], Any]],
        server: PostgresServer | None = None,
    ) -> None:
        self.acts = acts
        self._folder = folder
        self._server = server
        self._models = folder / "models"
        make_models(self._models)
        self.told: list[Any] = []
        self._seen: list[list[str]] = []
        World(self._before(0), self._models)
        if server:
            server.make_database("0")
        for number, act in enumerate(acts):
            act.prepare()
            self._copy(number, self._before(number + 1))
            world = self._world(self._before(number + 1))

            def record(act: Act = act, world: World = world) -> Any:
                tell = watch()
                service = Service(world.settings(act.settings))
                act.play(world, service)
                return [
                    tell(),
                    world.seen,
                    [repr(error) for error in service.troubles if not isinstance(error, act.trouble)],
                ]

            told, seen, troubles = in_child(record, self._log).answer
            assert not troubles, f"{act.name}: {troubles}"
            self.told.append(told)
            self._seen.append(seen)

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _before(self, number: int) -> Path:
        return self._folder / str(number)

    def _world(self, base: Path) -> World:
        return World(base, self._models, self._server.address_of(base.name) if self._server else None)

    def _copy(self, number: int, to: Path) -> None:
        before = self._before(number)
        shutil.copytree(before, to)
        if self._server:
            self._server.make_database(to.name, like=before.name)

    def trial(self, number: int, play: Callable[[Act, World], Any]) -> tuple[Ended, Findings]:
        """Play an act on a copy of its world in one child, and check in another child what is left."""
        act = self.acts[number]
        base = self._folder / "trial"
        shutil.rmtree(base, ignore_errors=True)
        self._copy(number, base)

        def first() -> Any:
            return play(act, self._world(base))

        def then() -> Any:
            return aftermath(self._world(base), act, self._seen[number])

        ended = in_child(first, self._log)
        return ended, in_child(then, self._log).answer


def settle(service: Service, act: Act) -> None:
    """Go on until nothing is pending, as a process does by itself; repeat what only a user can repeat."""
    act.by_hand(service)
    service.begin()
    service.compare(confirmed=True)
    service.work()


def aftermath(world: World, act: Act, seen: Sequence[str]) -> Findings:
    """Restart on what is left, work until quiet, and return everything that is not as it must be."""
    found: Findings = {"lost": [], "duplicates": [], "ghosts": [], "unequal": []}
    left = world.digest()
    if left not in seen:
        found["lost"].append("the vault is not as its user left it")
    if world.backup.exists():
        found["unequal"] += _refusals(lambda: _check_whole(world.backup))
    service = Service(world.settings(act.settings))
    settle(service, act)
    found["unequal"] += [f"after a new start: {error!r}" for error in service.troubles]
    found["unequal"] += service.shortcomings()
    _compare(service, world, act, found)
    for slug, verdict in verify_caches(service.resources).items():
        found["unequal"] += [f"verify {slug}: {difference}" for difference in verdict.differences]
    for file in world.state.rglob("*.db"):
        if file.name != "queue.db":
            found["unequal"] += _refusals(lambda file=file: databases.check(file))
    again = Service(world.settings(act.settings))
    for slug, report in again.compare().items():
        if report.events or report.held:
            found["unequal"].append(f"a second start finds changes in {slug}: {report.plain()}")
    found["unequal"] += [f"after a second start: {error!r}" for error in again.troubles]
    found["unequal"] += again.shortcomings()
    if world.digest() != left:
        found["lost"].append("a start changed the vault")
    return found


def _check_whole(backup: Path) -> None:
    with backup.open("rb") as raw:
        _check_seal(backup, raw)


def _refusals(check: Callable[[], None]) -> list[str]:
    try:
        check()
    except (BackupError, CacheError) as error:
        return [str(error)]
    return []


def _compare(service: Service, world: World, act: Act, found: Findings) -> None:
    """Compare each domain's cache with one that is built from the disk alone."""
    scratch = Service(world.settings(act.settings, world.base / "scratch"))
    scratch.begin()
    service.resources.follow()
    ours, wanted = (
        {d.slug: one.reader(d) for d in one.domains()} for one in (service.resources, scratch.resources)
    )
    if ours.keys() != wanted.keys():
        found["unequal"].append(f"the domains are {[*ours]}, not {[*wanted]}")
    for slug in ours.keys() & wanted.keys():
        one, other = picture(ours[slug]), picture(wanted[slug])
        notes, wanted_notes = ({row[0] for row in p["notes"]} for p in (one, other))
        found["lost"] += [f"{slug}: {path}" for path in sorted(wanted_notes - notes)]
        found["ghosts"] += [f"{slug}: {path}" for path in sorted(notes - wanted_notes)]
        places = Counter(row[:2] for row in one["chunks"])
        found["duplicates"] += [f"{slug}: {place}" for place, count in places.items() if count > 1]
        found["unequal"] += [
            f"{slug}: {_first_difference(one[k], other[k], k)}" for k in one if one[k] != other[k]
        ]


def _first_difference(one: list[Any], other: list[Any], name: str) -> str:
    extra, lacking = [r for r in one if r not in other], [r for r in other if r not in one]
    return f"{name}: {len(extra)} rows too many ({extra[:1]}), {len(lacking)} too few ({lacking[:1]})"


_PICTURE = {
    "notes": "SELECT path, title, frontmatter, tags, aliases, author, kind, published_at, evergreen, warnings,"
    " private, place, tag_lines, created_by, created_after, changed, changed_by, changed_after FROM vault_node ORDER BY path",
    "chunks": "SELECT path, position, section, heading_path, text, text_hash, start_offset, end_offset,"
    " first_line, last_line, locator, has_vector, embedding FROM vault_chunk c"
    " LEFT JOIN vault_chunk_vec v ON v.chunk_id = c.id ORDER BY path, position",
    "links": "SELECT * FROM vault_link ORDER BY path, position",
    "edges": "SELECT * FROM vault_edge ORDER BY path, position",
    "paths": "SELECT * FROM vault_path ORDER BY path",
    "ranks": "SELECT path, round(pagerank, 9), round(centrality, 6) FROM vault_rank ORDER BY path",
    "files": "SELECT path, raw, wanted_hash, indexed_hash, parked, error_kind FROM vault_file ORDER BY path",
    "ignored": "SELECT * FROM vault_ignored ORDER BY path",
}
"""Everything derived, without ids; that the full-text index has these words is for `verify` to say."""


def picture(cache: SqliteCache) -> dict[str, list[Any]]:
    """Return what must equal a from-scratch index of the disk."""
    return {name: cache.con.execute(sql).fetchall() for name, sql in _PICTURE.items()}
