"""How SQLite is opened, and what its errors become."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import apsw
import pytest

from pipelines import sqlite
from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta
from pipelines.errors import CacheCorruptError, SqliteTooOldError, StateError, StorageUnavailableError
from pipelines.sqlite import check_sqlite_version, connect, transaction
from pipelines.state.state import State


def test_an_sqlite_that_can_corrupt_a_wal_is_refused():
    with pytest.raises(SqliteTooOldError, match="newer `apsw`"):
        check_sqlite_version(3_051_002)
    check_sqlite_version()


def test_many_that_open_a_new_file_at_once_all_succeed(tmp_path):
    failed = []

    def open_it():
        try:
            SqliteCache.create(tmp_path / "cache.db", CacheMeta("m", 4, "p")).close()
            State(tmp_path).close()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


WRITER = """
import sys, time
from pathlib import Path
from pipelines.sqlite import connect
con = connect(Path(sys.argv[1]))
con.execute("CREATE TABLE t (a)")
con.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(10_000)])
con.execute("BEGIN")
con.execute("SELECT count(*) FROM t").fetchall()
print("open", flush=True)
sys.stdin.read()
con.close()
"""


def test_a_file_that_was_deleted_leaves_its_journal_to_no_other(tmp_path):
    path = tmp_path / "cache-vault.1.db"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "open\n"
        path.unlink()
        con = connect(path)
        with transaction(con):
            con.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        reading = connect(path, readonly=True)
        assert reading.execute("SELECT a FROM t").fetchall() == [(1,)]
        other.communicate()  # it closes the deleted file
    with transaction(con):
        con.execute("INSERT INTO t VALUES (2)")
    assert reading.execute("SELECT a FROM t").fetchall() == [(1,), (2,)]
    assert connect(path, readonly=True).execute("SELECT a FROM t").fetchall() == [(1,), (2,)]
    assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize(
    ("name", "error"), [("cache-vault.1.db", StorageUnavailableError), ("state.db", StateError)]
)
def test_a_cache_that_cannot_be_opened_is_an_error_of_that_cache_alone(tmp_path, name, error):
    (tmp_path / name).mkdir()
    with pytest.raises(error, match="cannot be opened"):
        connect(tmp_path / name)


def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    con = connect(tmp_path / "x.db")
    con.execute("CREATE TABLE t (a)")
    with pytest.raises(CacheCorruptError), transaction(con):
        con.execute("INSERT INTO t VALUES (1); INSERT INTO nowhere VALUES (1)")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_full_database_is_unavailable_and_goes_on_when_there_is_space(tmp_path):
    con = connect(tmp_path / "x.db")
    con.execute("CREATE TABLE t (a)")
    con.execute("PRAGMA max_page_count = 4").fetchall()
    with pytest.raises(StorageUnavailableError, match="by itself"), transaction(con):
        con.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert not con.in_transaction
    con.execute("PRAGMA max_page_count = 100000").fetchall()
    with transaction(con):
        con.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_a_file_that_is_no_database_is_reported_as_damaged(tmp_path):
    (tmp_path / "x.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(CacheCorruptError, match="--rebuild"):
        connect(tmp_path / "x.db")


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(StateError, match="state folder"):
        connect(tmp_path / "no" / "x.db")


def test_a_kill_in_a_transaction_leaves_the_commit_before_it(tmp_path):
    program = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from pipelines.sqlite import connect, transaction\n"
        "con = connect(Path(sys.argv[1]))\n"
        "con.execute('CREATE TABLE t (a)')\n"
        "with transaction(con): con.execute('INSERT INTO t VALUES (1)')\n"
        "with transaction(con):\n"
        "    con.execute('INSERT INTO t VALUES (2)')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.db")], check=False)
    con = apsw.Connection(str(tmp_path / "x.db"))
    assert con.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_a_journal_is_emptied_although_there_is_always_a_reader(tmp_path):
    con = connect(tmp_path / "x.db")
    with transaction(con):
        con.execute("CREATE TABLE t (a)")
    readers = [connect(tmp_path / "x.db", readonly=True) for _ in range(2)]
    stopped = threading.Event()

    def begin(reader):
        reader.execute("BEGIN").fetchall()
        reader.execute("SELECT * FROM t LIMIT 1").fetchall()

    def read_always():
        """One begins before the other ends: SQLite's own checkpoints never find the log unread."""
        turn = 0
        while not stopped.wait(0.02):
            turn += 1
            begin(readers[turn % 2])
            readers[1 - turn % 2].execute("END").fetchall()

    begin(readers[0])
    while (tmp_path / "x.db-wal").stat().st_size < sqlite._LARGE_JOURNAL:
        with transaction(con):
            con.execute("INSERT INTO t VALUES (zeroblob(1000000))")
    sqlite.bound_journal(con)
    assert (tmp_path / "x.db-wal").stat().st_size, "a reader that holds on is not waited for"
    reading = threading.Thread(target=read_always)
    reading.start()
    try:
        deadline = time.monotonic() + 60
        while (tmp_path / "x.db-wal").stat().st_size:
            assert time.monotonic() < deadline
            sqlite.bound_journal(con)
    finally:
        stopped.set()
        reading.join()
    assert con.execute("SELECT count(*) FROM t").fetchone()[0] > 0
