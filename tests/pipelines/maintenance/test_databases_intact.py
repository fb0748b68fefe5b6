"""A look at SQLite and its files that changes nothing."""

from __future__ import annotations

import sqlite3

import apsw
import pytest

from pipelines.errors import ConfigurationError, SqliteTooOldError
from pipelines.maintenance import databases
from pipelines.maintenance.databases import damage, try_library
from pipelines.state.state import State


def test_the_library_names_its_versions():
    assert try_library().sqlite == apsw.sqlite_lib_version()
    assert try_library().vectors.startswith("v0.")


def test_an_extension_that_does_not_load_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "vec0.so").write_bytes(b"no library")
    monkeypatch.setattr("sqlite_vec.loadable_path", lambda: str(tmp_path / "vec0.so"))
    with pytest.raises(ConfigurationError, match="install apsw and sqlite-vec again"):
        try_library()


def test_an_sqlite_that_is_too_old_is_refused(monkeypatch):
    def refuse():
        raise SqliteTooOldError("too old")

    monkeypatch.setattr(databases, "check_sqlite_version", refuse)
    with pytest.raises(SqliteTooOldError):
        try_library()


def test_a_file_is_read_and_nothing_is_written_beside_it(tmp_path):
    State(tmp_path).close()
    before = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert damage(tmp_path / "state.db") is None
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == before
    assert damage(tmp_path / "nothing.db") is None


def test_a_file_that_another_program_writes_is_read_with_its_journal(tmp_path):
    file = tmp_path / "open.db"
    with sqlite3.connect(file) as con:
        con.execute("PRAGMA journal_mode = wal")
        con.execute("CREATE TABLE a (b)")
        con.commit()
        assert (tmp_path / "open.db-wal").exists()
        assert damage(file) is None
    con.close()


def test_damage_is_named(tmp_path):
    State(tmp_path).close()
    file = tmp_path / "state.db"
    data = bytearray(file.read_bytes())
    data[4096:12288] = b"x" * 8192
    file.write_bytes(data)
    assert damage(file)
    file.write_bytes(b"no database at all" * 1000)
    assert "not a database" in damage(file)
