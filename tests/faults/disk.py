"""A disk that fails, tears or loses the n-th write of a life, for every n, beneath the real SQLite."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import apsw

from pipelines import sqlite
from pipelines.errors import EverindexError

from .acts import SHORT_LIFE, Act
from .life import Service, World
from .stage import Findings, Stage, quick_folder

Mode = Literal["fails once", "fails until it is mended", "tears", "is lost"]
"""The fates of a write. Torn: half of it is on disk, and the process dies. Lost: a power cut later undoes it."""
MODES: tuple[Mode, ...] = get_args(Mode)
_PAGES = 20  # between two checkpoints, so that a short life has many


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL did not end this process")


class Disk:
    """Counts the writes of all databases of a process, and makes one of them fail."""

    def __init__(self, mode: Mode | None = None, nth: int = 0) -> None:
        self.mode = mode
        self.nth = nth
        self.writes = 0
        self._undo: Callable[[], None] | None = None
        self._vfs = _FileSystem(self)

    def fate(self) -> Mode | None:
        """Count a write, and return its fate."""
        self.writes += 1
        later = self.mode == "fails until it is mended" and self.writes > self.nth > 0
        return self.mode if self.writes == self.nth or later else None

    def lose(self, undo: Callable[[], None]) -> None:
        """Remember how a write is undone, as if it had never left the memory."""
        self._undo = undo

    def cut_power(self) -> None:
        """Die with what was lost, if a write was."""
        if self._undo:
            self._undo()
            _die()

    def mend(self) -> None:
        self.mode = None

    def error(self) -> apsw.Error:
        return (
            apsw.FullError("the test's disk is full")
            if self.nth % 2
            else apsw.IOError("the test's disk fails")
        )


class _Connection(apsw.Connection):
    """SQLite lets a checkpoint at a connection's end fail; apsw raises what our file raised meanwhile."""

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - as apsw has it
        with suppress(apsw.FullError, apsw.IOError):
            super().close(force)


class _FileSystem(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        super().__init__("everindex-test", "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite names it
        return _File(self._disk, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        fate = self._fate()
        if fate == "tears":
            super().xWrite(data[: len(data) // 2], offset)
            _die()
        if fate == "is lost":
            self._disk.lose(self._as_it_is(len(data), offset))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        if self._fate_of_all_or_nothing() is None:
            super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.cut_power()
        if self._fate_of_all_or_nothing() is None:
            super().xSync(flags)

    def xLock(self, level: int) -> None:  # noqa: N802
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # A reader now and then tries a writer's lock, in vain. SQLite lets that be; apsw would raise it, were
            # it not a BusyError.
            raise apsw.BusyError from error

    def xClose(self) -> None:  # noqa: N802
        self._disk.cut_power()
        super().xClose()

    def _fate(self) -> Mode | None:
        fate = self._disk.fate()
        if fate in ("fails once", "fails until it is mended"):
            raise self._disk.error()
        return fate

    def _fate_of_all_or_nothing(self) -> Mode | None:
        fate = self._fate()
        if fate == "tears":
            _die()
        if fate == "is lost":
            self._disk.lose(lambda: None)
        return fate

    def _as_it_is(self, length: int, offset: int) -> Callable[[], None]:
        """Return what puts back the bytes that are there now; what a file grew by reads as zeros."""
        there = max(0, min(length, self.xFileSize() - offset))
        kept = self.xRead(there, offset) if there else b""
        write = super().xWrite
        return lambda: write(kept.ljust(length, b"\0"), offset)


def _mount(mode: Mode | None = None, nth: int = 0) -> Disk:
    """Open all databases of this process on such a disk from now on; their journals stay short."""
    sqlite._LARGE_JOURNAL = 0
    apsw.Connection = _Connection
    apsw.connection_hooks.append(lambda con: con.wal_autocheckpoint(_PAGES))
    return Disk(mode, nth)


@contextmanager
def stage(life: Sequence[Act] = SHORT_LIFE) -> Iterator[Stage]:
    """Play a life once; `told` is how many writes each act makes."""

    def count() -> Callable[[], int]:
        disk = _mount()
        return lambda: disk.writes

    with quick_folder() as folder:
        yield Stage(Path(folder), life, count)


def every_write(played: Stage) -> list[tuple[int, int]]:
    """Return all writes of a life: the number of an act, and which of its writes."""
    return [(act, nth + 1) for act, writes in enumerate(played.told) for nth in range(writes)]


def befall(played: Stage, act: int, mode: Mode, nth: int) -> tuple[bool, Findings]:
    """Give the n-th write of an act a fate; say whether there was such a write, and what is wrong afterwards."""

    def play(playing: Act, world: World) -> dict[str, Any]:
        disk = _mount(mode, nth)
        service = Service(world.settings(playing.settings))
        playing.play(world, service)
        disk.cut_power()
        disk.mend()
        return {"reached": disk.writes >= nth, "wrong": _go_on(service)}

    ended, found = played.trial(act, play)
    if ended.died:
        return True, found
    found["unequal"] += ended.answer["wrong"]
    return ended.answer["reached"], found


def _go_on(service: Service) -> list[str]:
    """Go on in the same process once the disk works again; return what is wrong with how that went."""
    wrong = [
        f"a foreign error: {error!r}" for error in service.troubles if not isinstance(error, EverindexError)
    ]
    service.troubles.clear()
    service.resources.ahead = 0.0
    service.compare(confirmed=True)
    service.work()
    wrong += [f"with a good disk: {error!r}" for error in service.troubles]
    return wrong + service.shortcomings()


def write_faults(chance: random.Random) -> Iterator[dict[str, float]]:
    """Give one write after the other each fate, in random order, for ever; yield what it did."""
    with stage() as played:
        while True:
            faults = [(act, nth, mode) for act, nth in every_write(played) for mode in MODES]
            chance.shuffle(faults)
            for act, nth, mode in faults:
                reached, found = befall(played, act, mode, nth)
                yield {"faults": float(reached)} | {name: float(len(what)) for name, what in found.items()}
