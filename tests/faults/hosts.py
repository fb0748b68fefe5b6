"""Several hosts with one PostgreSQL: links that are cut, hosts that vanish, clocks that are wrong, a server that dies.

Each host is a network namespace with a name of its own. One has the vault; two have workers without it; one answers
questions. All of it is in a namespace that ends with its last process.
"""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import psycopg

from pipelines.cache.cache import SqliteCache
from pipelines.errors import CacheError
from tests.faults.kills import SOME_DOCUMENTS, Editor
from tests.faults.outages import own_namespaces, play_rounds, rounds_of, take_all_space
from tests.faults.processes import Found, Trio
from tests.faults.stage import picture
from tests.postgres import PostgresServer, postgres_server
from tests.tiny import build_tiny_model
from tests.whole.conftest import wait_for

_NETWORK = "10.213.7"
_SERVER = f"{_NETWORK}.1"
# A library to preload, which shifts the wall clock by WRONG_BY seconds. (libfaketime also breaks `time.sleep`.)
_WRONG_CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long wrong(void) { const char *by = getenv("WRONG_BY"); return by ? atol(by) : 0; }
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += wrong();
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}
time_t time(time_t *said) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (said) *said = exact.tv_sec;
    return exact.tv_sec;
}
"""
# By host: what runs on it, and by how many seconds its clock is wrong. The last worker makes vectors alone.
HOSTS: dict[str, tuple[dict[str, tuple[str, ...]], int]] = {
    "desk": ({"watcher": ("watch",), "worker": ("work",), "page": ("serve",)}, 0),
    "east": ({"helper": ("work",)}, -3600),
    "west": ({"embedder": ("work", "--only", "vectors")}, 3600),
    "door": ({"query": ("serve",)}, 3600),
}
_BULK, _EDITS = 150, (2, 9)
_DISK_MB = 300
# Longer than a process may be silent before its leases are freed.
_LONG, _SHORT = 40.0, 6.0
_PATIENCE = 150.0


class NoNetworkError(Exception):
    """This machine does not let us make network namespaces."""


class Host:
    """A host: a process that holds its namespaces, and what leads to it."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"{_NETWORK}.{number}"
        self._link = f"to-{name}"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", f"hostname {name}; exec sleep infinity"]
        )
        wait_for(self._has_its_own, "the host's namespaces")
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "net0", "netns", str(self._holder.pid))
        _ip("link", "set", self._link, "master", "hosts", "up")
        for command in (
            ("addr", "add", f"{self.address}/24", "dev", "net0"),
            ("link", "set", "net0", "up"),
            ("link", "set", "lo", "up"),
        ):
            subprocess.run([*self.entering, "ip", *command], check=True)

    def _has_its_own(self) -> bool:
        """Say whether the host has got its network and its name."""
        own = Path("/proc/self/ns/net").readlink() != Path(f"/proc/{self._holder.pid}/ns/net").readlink()
        said = subprocess.run([*self.entering, "hostname"], capture_output=True, text=True, check=False)
        return own and said.stdout.strip() == self.name

    @property
    def entering(self) -> list[str]:
        """The command that runs another one on this host."""
        return ["nsenter", "--target", str(self._holder.pid), "--net", "--uts"]

    def cut(self) -> None:
        """Cut its link."""
        _ip("link", "set", self._link, "down")

    def heal(self) -> None:
        """Mend its link."""
        _ip("link", "set", self._link, "up")

    def close(self) -> None:
        """End it."""
        self._holder.kill()
        self._holder.wait()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Hosts(Trio):
    """The processes of all hosts."""

    def __init__(self, base: Path, model: Path, server: PostgresServer) -> None:
        super().__init__(base, model, store=server.address)
        self.hosts = {name: Host(name, number) for number, name in enumerate(HOSTS, 2)}
        self._named = {process: host for host, (own, _) in HOSTS.items() for process in own}
        self._logs |= dict.fromkeys(self._named, base)
        self._client = httpx.Client(trust_env=False, timeout=10)
        self._clock = base / "wrong_clock.so"
        if compiler := shutil.which("cc"):
            command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(self._clock)]
            subprocess.run(command, input=_WRONG_CLOCK, text=True, check=True)

    def begin(self, name: str) -> None:
        host = self._named[name]
        (commands, wrong) = HOSTS[host]
        folder = self.root.parent / host
        # Only the desk has the vault.
        root = self.root if host == "desk" else folder / self.root.name
        command = [*commands[name], "--vault", str(root), "--state", str(folder / "state")]
        command += ["--port", str(self.port)]
        if name == "query":
            at = f"{self.hosts[host].address}:{self.port}"
            command += ["--host", "0.0.0.0", "--allow-host", at]  # noqa: S104 - in its namespace
        environment = dict(self.environment)
        if wrong and self._clock.exists():
            environment |= {"LD_PRELOAD": str(self._clock), "WRONG_BY": str(wrong)}
        with self.log_path(name).open("ab") as log:
            process = subprocess.Popen(
                [*self.hosts[host].entering, sys.executable, "-m", "service.cli", *command],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.processes.append(process)
        self._running[name] = process

    def __enter__(self) -> Self:
        self.begin_all("desk")
        wait_for(self._is_told, "the store knows of the vault")
        for host in HOSTS.keys() - {"desk"}:
            self.begin_all(host)
        wait_for(self.health, "the door answers")
        return self

    def _is_told(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.environment["EVERINDEX_STORE"]) as con:
            found = con.execute("SELECT 1 FROM vault_state.fact WHERE key = 'vault'").fetchone()
            made = con.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'vault_cache-vault.1'").fetchone()
            return bool(found and made)
        return False

    def __exit__(self, *_: object) -> None:
        self.stop()
        for host in self.hosts.values():
            host.close()
        self._client.close()

    def get(self, path: str, /, **params: Any) -> httpx.Response:
        token = (self.root.parent / "door" / "state" / "token").read_text().strip()
        address = f"http://{self.hosts['door'].address}:{self.port}{path}"
        return self._client.get(address, params=params, headers={"Authorization": f"Bearer {token}"})

    def _confirm_what_is_held(self) -> None:
        """Confirm the deletions on the host of the vault, as the person there who deleted so many on purpose."""
        if any("vanished" in problem for problem in self.health().get("problems", [])):
            place = ("--vault", str(self.root), "--state", str(self.root.parent / "desk" / "state"))
            subprocess.run(
                [
                    *self.hosts["desk"].entering,
                    sys.executable,
                    "-m",
                    "service.cli",
                    "index",
                    "--confirm-deletions",
                    *place,
                ],
                env=self.environment,
                check=False,
                capture_output=True,
            )

    def compare(self) -> Found:
        self.copy_differs()  # until it does not, for a while
        return super().compare()

    def differing_paths(self) -> Found | None:
        with suppress(CacheError):  # the server is away
            return super().differing_paths()
        return None

    def kill(self, host: str) -> None:
        """Kill all processes of a host at once, as a power cut does, with the children that they have."""
        processes = [self._running[name] for name in HOSTS[host][0]]
        for one in [child for own in processes for child in psutil.Process(own.pid).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        for own in processes:
            own.kill()
        for own in processes:
            own.wait()
            self.processes.remove(own)

    def begin_all(self, host: str) -> None:
        """Start all processes of a host."""
        for name in HOSTS[host][0]:
            self.begin(name)

    def signal(self, host: str, number: int) -> None:
        """Send a signal to all processes of a host."""
        for name in HOSTS[host][0]:
            self._running[name].send_signal(number)

    def copy_differs(self) -> bool:
        """Say whether the copy of the host that answers differs from ours, after a while in which it may follow."""
        path = self.root.parent / "door" / "state" / "copies" / "cache-vault.1.db"

        def is_equal() -> bool:
            with self.reading() as ours, closing(SqliteCache.open(path)) as theirs:
                return picture(ours) == picture(theirs)

        try:
            wait_for(is_equal, "the copies are equal")
        except AssertionError:
            return True
        return False


def rounds(chance: random.Random, folder: Path) -> Iterator[dict[str, float]]:
    """Edit the vault while something fails; yield what differs after each round, for ever. Raises NoNetworkError."""
    folder.mkdir(parents=True, exist_ok=True)
    namespace = own_namespaces("--net", "--mount")
    setup = f"ip link add hosts type bridge && ip addr add {_SERVER}/24 dev hosts && ip link set hosts up && ip link set lo up"
    try:
        subprocess.run([*namespace, "sh", "-c", setup], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoNetworkError(f"a network of our own cannot be made: {error}") from error
    harness = [sys.executable, "-m", "tests.faults.hosts", str(chance.random()), str(folder)]
    yield from rounds_of([*namespace, "sh", "-c", f'{setup} && exec "$@"', "hosts", *harness])


def _rounds(chance: random.Random, folder: Path) -> Generator[dict[str, float], None, None]:
    with ExitStack() as stack:
        server = stack.enter_context(
            postgres_server(_SERVER, _small_disk(), options=["max_wal_size=64MB", "min_wal_size=32MB"])
        )
        hosts = Hosts(folder / "hosts", build_tiny_model(folder), server)
        editor = Editor(hosts.root, chance, SOME_DOCUMENTS)
        for _ in range(40):
            editor.edit()
        stack.enter_context(hosts)
        hosts.wait_until_equal(_PATIENCE)
        for number in itertools.count():
            yield _round(chance, hosts, editor, server, number)


def _round(
    chance: random.Random, hosts: Hosts, editor: Editor, server: PostgresServer, number: int
) -> dict[str, float]:
    before, faults = hosts.restarts, _faults(chance.choice(list(HOSTS)), hosts, server)
    name = chance.choice(list(faults))
    fail, mend = faults[name]
    for _ in range(chance.randint(*_EDITS)):
        editor.edit()
    if chance.random() < 1 / 2:
        _write_many(hosts.root, number)
    time.sleep(chance.random() * 2)
    fail()
    for _ in range(chance.randint(*_EDITS)):
        editor.edit()
    time.sleep(_LONG if chance.random() < 1 / 15 else chance.random() * _SHORT)
    mend()
    word = f"round{number}"
    (hosts.root / "Last.md").write_text(f"# Last\n\nThis note is of {word}.\n")
    found, seconds = hosts.wait_until_equal(_PATIENCE)
    return {
        "rounds": 1,
        name: 1,
        **found.counts(),
        "unequal": float(hosts.copy_differs() or not _is_found(hosts, word)),
        "restarts": hosts.restarts - before,
        "worst_quiet_s": round(seconds, 2),
    }


def _faults(
    host: str, hosts: Hosts, server: PostgresServer
) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return by name what makes something fail, and what mends it."""
    return {
        "cuts": (hosts.hosts[host].cut, hosts.hosts[host].heal),
        "kills": (partial(hosts.kill, host), partial(hosts.begin_all, host)),
        "freezes": (partial(hosts.signal, host, signal.SIGSTOP), partial(hosts.signal, host, signal.SIGCONT)),
        "server_kills": (server.kill, server.start),
        "disk_fulls": (partial(_fill_disk, server), partial(_empty_disk, server)),
    }


def _small_disk() -> Path:
    """Mount a disk in our namespace where the server's user may enter."""
    disk = Path("/mnt")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m,mode=755", "tmpfs", disk], check=True)
    return disk


def _fill_disk(server: PostgresServer) -> None:
    take_all_space(server.data.parent / "filler")


def _empty_disk(server: PostgresServer) -> None:
    """Free the disk, and start the server as an init system does: it ends when its journal finds no space."""
    (server.data.parent / "filler").unlink()
    if not server.is_running:
        server.start()


def _write_many(root: Path, number: int) -> None:
    """Change so many notes at once that other hosts get some."""
    (root / "many").mkdir(exist_ok=True)
    for one in range(_BULK):
        (root / "many" / f"{one}.md").write_text(
            f"# Many {one}\n\nThis note has version {number} of {one}.\n"
        )


def _is_found(hosts: Hosts, word: str) -> bool:
    try:
        wait_for(lambda: "Last.md" in hosts.found(word), "the last note is found")
    except AssertionError:
        return False
    return True


def main() -> None:
    """Play a round for each line of standard input, in a namespace that `rounds` has made."""
    seed, folder = sys.argv[1:]
    play_rounds(_rounds(random.Random(seed), Path(folder)))  # noqa: S311 - no secret


if __name__ == "__main__":
    main()
