"""A backup is consistent while others write; a restore takes it whole, or refuses it and changes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.cache.cache import SqliteCache
from pipelines.domains import load
from pipelines.errors import (
    BackupDamagedError,
    BackupError,
    CacheCorruptError,
    EverindexError,
    NotABackupError,
    OtherVaultError,
)
from pipelines.maintenance.backup import _SEAL, _SEAL_LENGTH, restore_backup, write_backup
from pipelines.maintenance.verify import verify
from pipelines.state.attention import Attention
from pipelines.state.health import Problems, Process, Processes, Vanished
from pipelines.state.state import (
    COMPARISON,
    HELD,
    REHASHED,
    WATCHER,
    ComparisonFacts,
    Hold,
    State,
    WatcherFacts,
)
from tests.pipelines.conftest import House


def back_up(house: House, name: str = "backup.tar", *, replaces: bool = False) -> Path:
    State(house.state).close()
    target = house.root.parent / name
    write_backup(
        target,
        house.state,
        ["vault"],
        vault_id=house.identity.vault_id,
        root=house.root,
        version="0.1.0",
        replaces=replaces,
    )
    return target


def test_a_file_that_exists_is_replaced_only_on_request_and_a_folder_is_named(house):
    file = back_up(house)
    before = file.read_bytes()
    with pytest.raises(BackupError, match=r"backup.tar exists and was kept; .* --force"):
        back_up(house)
    assert file.read_bytes() == before
    assert back_up(house, replaces=True) == file
    with pytest.raises(BackupError, match=f"{house.root / 'none'} is not a folder; make it first"):
        back_up(house, house.root / "none" / "backup.tar")
    with pytest.raises(BackupError, match=f"{house.root} is a folder; name the file to write"):
        back_up(house, house.root.name, replaces=True)


def restore(house: House, file: Path) -> Path:
    """Restore, and go on with the restored cache."""
    placed = restore_backup(file, house.state, vault_id=house.identity.vault_id, root=house.root)
    house.cache.close()
    house.cache = house.open(placed["vault"].name)
    return placed["vault"]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, as bytes; what SQLite keeps beside a database while it is open is no content."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if not path.name.endswith(("-shm", "-wal"))
    }


@pytest.fixture
def filled(house: House) -> House:
    house.write("garden.md", "# Garden\n\nThe soil. [[river]]")
    house.write("river.md", "# River\n\nA boat.")
    house.index()
    return house


def seal(data: bytes) -> bytes:
    return data + _SEAL + hashlib.sha256(data).hexdigest().encode() + b"\n"


def repacked(file: Path, change) -> Path:
    """Rewrite the archive with a valid seal: `change` gets the list of (entry, data) and returns another."""
    with tarfile.open(file) as tar:
        members = [(entry, tar.extractfile(entry).read()) for entry in tar]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for entry, data in change(members):
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    other = file.with_name("other.tar")
    other.write_bytes(seal(out.getvalue()))
    return other


def renamed(index: int, name: str):
    def change(members):
        members[index][0].name = name
        return members

    return change


def with_manifest(file: Path, **changed) -> Path:
    def change(members):
        (entry, data), *rest = members
        return [(entry, json.dumps(json.loads(data) | changed).encode()), *rest]

    return repacked(file, change)


@pytest.mark.parametrize("asked", [True, False])
def test_which_notes_were_chosen_is_backed_up_only_if_asked_for(filled, asked):
    attention = Attention(filled.state)
    attention.add(["garden.md"], "opened", 0.0)
    file = filled.root.parent / "backup.tar"
    write_backup(
        file,
        filled.state,
        ["vault"],
        vault_id=filled.identity.vault_id,
        root=filled.root,
        version="0.1.0",
        attention=asked,
    )
    assert [one.path for one in attention.choices()] == ["garden.md"]
    attention.delete()
    restore(filled, file)
    assert [one.path for one in attention.choices()] == (["garden.md"] if asked else [])
    attention.close()


def test_a_backup_restores_what_was_backed_up_and_indexing_catches_up(filled):
    before = filled.picture()
    file = back_up(filled)
    filled.save("river.md", "# River\n\nThe boat is gone.")
    filled.save("new.md", "New.")
    (filled.root / "garden.md").unlink()
    filled.notice("garden.md")
    filled.drain()
    placed = restore(filled, file)
    assert placed.name == "cache-vault.2.db"
    assert (filled.state / "cache-vault.1.db").exists()
    assert filled.picture() == before
    assert filled.index()  # what the backup does not know is embedded
    assert filled.picture() == filled.scratch_picture()
    assert verify(filled.cache, filled.ingest, load(filled.root)).differences == ()
    state = State(filled.state)
    assert state.cache_path("vault") == placed
    state.close()


def test_restoring_an_unchanged_vault_embeds_nothing(filled):
    restore(filled, back_up(filled))
    assert filled.index() == []
    assert filled.picture() == filled.scratch_picture()


@pytest.mark.parametrize("lost", ["*", "state.db", "state.db*"])
def test_a_backup_restores_what_was_lost(filled, lost):
    file = back_up(filled)
    before = filled.picture()
    filled.cache.close()
    for path in filled.state.glob(lost):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    placed = restore_backup(file, filled.state, vault_id=filled.identity.vault_id, root=filled.root)
    filled.cache = filled.open(placed["vault"].name)
    assert filled.picture() == before


def test_state_comes_from_the_backup_and_other_domains_stay(filled):
    state = State(filled.state)
    state.put(REHASHED, "yes.md", "vault")
    state.put(COMPARISON, ComparisonFacts({}, 3))
    state.switch_cache("vault", 1)
    file = back_up(filled)
    state.put(REHASHED, "no.md", "vault")
    state.switch_cache("later", 5)
    (filled.state / "cache-vault.7.db-wal").touch()
    placed = restore(filled, file)
    # The connection that was open all the while sees it, too.
    assert state.get(REHASHED, "vault").value == "yes.md"
    assert state.get(COMPARISON) is None
    assert (state.cache_number("later"), state.cache_number("vault")) == (5, 8)
    assert placed.name == "cache-vault.8.db"
    state.close()


def test_what_was_true_only_when_the_backup_was_made_is_not_restored(filled):
    state, processes = State(filled.state), Processes(filled.state)
    problems, vanished = Problems(filled.state), Vanished(filled.state)
    processes.put(Process("gone:1/5", "worker", "1", "2026-05-04T12:00:00+00:00", 1000))
    problems.report("model", "", "the model cannot be loaded")
    vanished.add("vault", ["a.md"])
    state.put(HELD, Hold(30, ("a.md",)), "vault")
    state.put(WATCHER, WatcherFacts("events", None, None, None, overflows=0, process=1))
    state.decisions.pause("vault", "yesterday")
    restore(filled, back_up(filled))
    assert (processes.recent(), problems.reported(), vanished.waiting("vault")) == ([], [], {})
    assert (state.get(HELD, "vault"), state.get(WATCHER)) == (None, None)
    assert state.decisions.paused_since("vault") == "yesterday"
    for one in (state, processes, problems, vanished):
        one.close()


def test_leases_and_pauses_of_another_time_are_not_restored(filled):
    filled.write("river.md", "Changed.")
    filled.notice("river.md")
    (row,) = filled.cache.leases.take("words", 9, "a worker")
    file = back_up(filled)
    assert row.path == "river.md"
    restore(filled, file)
    assert filled.cache.leases.has_pending("words")
    filled.now = 0.0  # a reboot
    filled.drain()
    assert filled.picture() == filled.scratch_picture()


def test_only_the_owner_may_read_it_and_it_holds_no_secret(filled):
    (filled.state / "token").write_text("secret-token")
    (filled.state / "queue.key").write_text("secret-key")
    file = back_up(filled)
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as tar:
        assert tar.getnames() == ["manifest.json", "state.db", "cache-vault.1.db"]
    assert b"secret" not in file.read_bytes()
    listed = subprocess.run(["tar", "tf", str(file)], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == ["manifest.json", "state.db", "cache-vault.1.db"]


def test_a_backup_that_fails_leaves_the_last_one_and_no_crumbs(filled, monkeypatch):
    file = back_up(filled)
    before = file.read_bytes(), sorted(p.name for p in filled.state.iterdir())

    def full(*_):
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr("pipelines.maintenance.backup.tarfile.TarFile.addfile", full)
    with pytest.raises(BackupError, match="No space left"):
        back_up(filled, replaces=True)
    assert (file.read_bytes(), sorted(p.name for p in filled.state.iterdir())) == before
    assert not list(file.parent.glob(".backup*"))


def test_a_damaged_cache_is_not_backed_up(filled):
    filled.cache.con.execute("UPDATE vault_chunk_fts_data SET block = zeroblob(20) WHERE id > 10")
    with pytest.raises(CacheCorruptError, match=r"cache-vault\.1\.db is damaged.*--rebuild"):
        back_up(filled)


def test_a_missing_cache_is_reported(house):
    State(house.state).close()
    with pytest.raises(BackupError, match="everindex index"):
        write_backup(
            house.root.parent / "b", house.state, ["other"], vault_id="a", root=house.root, version="0"
        )


def test_a_backup_is_consistent_while_another_thread_writes(filled):
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        own = House(filled.root, filled.state, filled.embedder._embedder)
        try:
            for number in range(10_000):
                own.save(
                    f"busy {number % 7}.md",
                    f"# Busy {number}\n\n" + f"word{number} soil. " * (number % 50 + 1),
                )
                if number % 5 == 4:
                    (own.root / f"busy {number % 7}.md").unlink()
                    own.notice(f"busy {number % 7}.md")
                    own.drain()
                if stop.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failures.append(error)
        finally:
            own.cache.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        files = [back_up(filled, f"{number}.tar") for number in range(6)]
    finally:
        stop.set()
        thread.join()
    assert not failures
    assert len({file.read_bytes() for file in files}) > 1
    for file in files:
        restore(filled, file)
        # Behind the disk it may be; with itself it must agree.
        found = verify(filled.cache, filled.ingest, load(filled.root)).differences
        assert {d.kind for d in found if "differs from the disk" not in d.detail} <= {"path", "hash"}
    filled.index()
    assert filled.picture() == filled.scratch_picture()


# What is refused


def refused(house: House, file: Path, error: type[EverindexError], match: str) -> None:
    """Restoring fails with a clear message, and changes nothing."""
    before = contents(house.state)
    with pytest.raises(error, match=match) as caught:
        restore_backup(file, house.state, vault_id=house.identity.vault_id, root=house.root)
    assert str(file) in str(caught.value)
    assert contents(house.state) == before


@pytest.fixture
def sealed(filled: House) -> Path:
    return back_up(filled)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_refused(filled, sealed, where, bit):
    data = bytearray(sealed.read_bytes())
    data[int(where * len(data))] ^= 1 << bit
    broken = sealed.with_name("broken.tar")
    broken.write_bytes(data)
    refused(filled, broken, BackupError, "damaged|not a backup")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True))
def test_a_truncated_backup_is_refused(filled, sealed, where):
    data = sealed.read_bytes()
    broken = sealed.with_name("broken.tar")
    broken.write_bytes(data[: int(where * len(data))])
    refused(filled, broken, NotABackupError, "its end is missing")


def test_a_missing_file_is_reported(filled, tmp_path):
    State(filled.state).close()
    refused(filled, tmp_path / "none.tar", BackupError, "No such file")


def test_a_foreign_tar_is_refused(filled, tmp_path):
    State(filled.state).close()
    foreign = tmp_path / "foreign.tar"
    with tarfile.open(foreign, "w") as tar:
        tar.add(filled.root / "garden.md", "garden.md")
    refused(filled, foreign, NotABackupError, "not a backup of Everindex")
    foreign.write_bytes(seal(foreign.read_bytes()))
    refused(filled, foreign, NotABackupError, "'garden.md' instead of 'manifest.json'")
    foreign.write_bytes(seal(b"no tar at all" * 100))
    refused(filled, foreign, NotABackupError, "not a backup")
    foreign.write_bytes(b"")
    refused(filled, foreign, NotABackupError, "not a backup")


def test_another_vaults_backup_is_refused(filled, sealed):
    refused(filled, with_manifest(sealed, vault_id="0123456789ab"), OtherVaultError, "0123456789ab.*--vault")


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 2},
        {"surprise": 1},
        {"caches": "none"},
        {"caches": [{"domain": "../../evil", "number": 1}]},
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(filled, sealed, changed):
    refused(filled, with_manifest(sealed, **changed), NotABackupError, next(iter(changed)))


def cache_of(file: Path) -> dict[str, object]:
    with tarfile.open(file) as tar:
        return json.load(tar.extractfile("manifest.json"))["caches"][0]


@pytest.mark.parametrize("domain", ["../evil", "a/b", "..", "", "a\n", "/etc/x"])
def test_a_domain_that_is_a_path_is_refused(filled, sealed, domain):
    evil = cache_of(sealed) | {"domain": domain}
    other = repacked(with_manifest(sealed, caches=[evil]), renamed(2, f"cache-{domain}.1.db"))
    refused(filled, other, NotABackupError, r"caches\.0\.domain")


def test_two_caches_of_a_domain_are_refused(filled, sealed):
    both = [cache_of(sealed), cache_of(sealed) | {"number": 2}]
    refused(filled, with_manifest(sealed, caches=both), NotABackupError, "two caches")


def retyped(kind: bytes):
    def change(members):
        members[1][0].type = kind
        members[1][0].linkname = "/etc/passwd"
        return members

    return change


@pytest.mark.parametrize(
    "change",
    [
        renamed(1, "../state.db"),
        renamed(2, "/cache-vault.1.db"),
        renamed(2, "cache-vault.9.db"),
        lambda members: members[:2],
        lambda members: [*members, members[1]],
        lambda members: [members[0], members[2], members[1]],
        retyped(tarfile.SYMTYPE),
        retyped(tarfile.LNKTYPE),
        retyped(tarfile.FIFOTYPE),
        retyped(tarfile.DIRTYPE),
    ],
    ids=[
        "above",
        "absolute",
        "other name",
        "less",
        "more",
        "swapped",
        "symlink",
        "hardlink",
        "fifo",
        "folder",
    ],
)
def test_members_that_are_not_exactly_the_expected_ones_are_refused(filled, sealed, change):
    refused(filled, repacked(sealed, change), NotABackupError, "instead of|more members than its manifest")
    assert not (filled.state.parent / "state.db").exists()


def test_a_member_that_is_not_what_the_manifest_says_is_refused(filled, sealed):
    def change(members):
        members[2] = (members[2][0], members[2][1][:-1] + b"x")
        return members

    refused(filled, repacked(sealed, change), BackupDamagedError, r"cache-vault\.1\.db has changed")

    def shorten(members):
        members[2] = (members[2][0], members[2][1][:-1])
        return members

    refused(filled, repacked(sealed, shorten), BackupDamagedError, r"cache-vault\.1\.db has changed")

    def lengthen(members):
        members[2] = (members[2][0], members[2][1] + b"x")
        return members

    refused(filled, repacked(sealed, lengthen), NotABackupError, "instead of")


def with_database(file: Path, index: int, change: str, tmp_path: Path) -> Path:
    """A backup whose digests are right, but whose database was changed."""

    def rewrite(members):
        database = tmp_path / "changed.db"
        database.write_bytes(members[index][1])
        con = apsw.Connection(str(database))
        con.execute(change).fetchall()
        con.close()
        data = database.read_bytes()
        manifest = json.loads(members[0][1])
        part = manifest["state"] if index == 1 else manifest["caches"][index - 2]
        part |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        members[0] = (members[0][0], json.dumps(manifest).encode())
        members[index] = (members[index][0], data)
        return members

    return repacked(file, rewrite)


def test_databases_that_are_not_what_they_should_be_are_refused(filled, sealed, tmp_path):
    other_model = "UPDATE vault_meta SET value = 'other/model' WHERE key = 'model'"
    refused(filled, with_database(sealed, 2, other_model, tmp_path), BackupDamagedError, "other/model")
    no_fts = "UPDATE vault_chunk_fts_data SET block = zeroblob(20) WHERE id > 10"
    broken = with_database(sealed, 2, no_fts, tmp_path)
    refused(filled, broken, BackupDamagedError, "is damaged")
    foreign = with_database(sealed, 2, "DROP TABLE vault_meta", tmp_path)
    refused(filled, foreign, NotABackupError, "has no 'vault_meta'")
    foreign = with_database(sealed, 2, "DROP TRIGGER vault_chunk_went", tmp_path)
    refused(filled, foreign, NotABackupError, "has no 'vault_chunk_went'")


FOREIGN = (
    "CREATE TABLE pwned (x)",
    "CREATE TABLE pwned (x INTEGER CHECK (x > random())) STRICT",
    "CREATE TABLE pwned AS SELECT 1 AS x",
    "CREATE TABLE sqliteX (x PRIMARY KEY) WITHOUT ROWID",
    "CREATE VIRTUAL TABLE pwned USING fts5(x)",
    "CREATE VIRTUAL TABLE pwned USING rtree(id, x, y)",
    "CREATE VIEW pwned AS SELECT * FROM {table}",
    "CREATE INDEX pwned ON {table} ({column})",
    "CREATE UNIQUE INDEX pwned ON {table} ({column})",
    "CREATE INDEX pwned ON {table} (upper({column}))",
    "CREATE INDEX pwned ON {table} ({column}) WHERE {column} > 'a'",
    "CREATE TRIGGER pwned AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "CREATE TRIGGER pwned BEFORE DELETE ON {table} BEGIN SELECT raise(ABORT, 'x'); END",
    "CREATE TRIGGER [" + "p" * 500 + "] AFTER UPDATE ON {table} BEGIN SELECT load_extension('/tmp/x'); END",
    "ALTER TABLE {table} ADD COLUMN pwned",
    "ALTER TABLE {table} ADD COLUMN pwned AS (upper({column})) VIRTUAL",
    "ALTER TABLE {table} RENAME COLUMN {column} TO pwned",
    "ALTER TABLE {table} RENAME TO pwned",
    "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = sql || ' ' || char(45,45) || ' x' WHERE name = '{table}'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET type = 'view', rootpage = 0 WHERE name = '{table}'",
    (
        "PRAGMA writable_schema = ON;"
        " INSERT INTO sqlite_schema VALUES ('table', 'pwned', 'pwned', 2, 'CREATE TABLE pwned (x)')"
    ),
    "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = '{table}'",
)
TABLES = {1: [("tag_proposal", "state"), ("fact", "value"), ("job_history", "task")],
          2: [("vault_file", "raw"), ("vault_node", "title"), ("vault_chunk", "text")]}  # fmt: skip


@pytest.mark.parametrize("change", FOREIGN)
@pytest.mark.parametrize("index", [1, 2], ids=["state", "cache"])
def test_whatever_a_database_has_besides_ours_is_refused(filled, sealed, tmp_path, index, change):
    for number, (table, column) in enumerate(TABLES[index]):
        folder = tmp_path / str(number)
        folder.mkdir()
        altered = with_database(sealed, index, change.format(table=table, column=column), folder)
        refused(
            filled,
            altered,
            BackupError,
            r"was not restored: its .* has |cannot be restored: .* (damaged|twice)",
        )


def test_a_trigger_of_a_backup_never_runs(filled, sealed, tmp_path):
    trigger = "CREATE TRIGGER pwned AFTER INSERT ON fact BEGIN INSERT INTO tag_spend VALUES ('pwned', 'x', 1, 1); END"
    altered = with_database(sealed, 1, trigger, tmp_path)
    refused(filled, altered, NotABackupError, "its state.db has the trigger 'pwned'")
    con = apsw.Connection(str(filled.state / "state.db"))
    assert con.execute("SELECT count(*) FROM tag_spend").fetchall() == [(0,)]
    con.close()


def test_a_dimension_that_no_cache_has_is_refused(filled, sealed):
    for dimension in (-1, 10**9):
        odd = with_manifest(sealed, caches=[cache_of(sealed) | {"dimension": dimension}])
        refused(filled, odd, NotABackupError, f"vectors of {dimension} dimensions")


def test_a_state_that_lacks_what_a_later_version_added_is_restored(filled, sealed, tmp_path):
    older = with_database(
        sealed,
        1,
        "PRAGMA user_version = 0; ALTER TABLE tag_proposal DROP COLUMN rationale; DROP INDEX note_log_at; DROP TABLE tag_gone; DROP TABLE tag_renamed; DROP TABLE problem; DROP TABLE endpoint_use; DROP TABLE chat; DROP TABLE chat_turn",
        tmp_path,
    )
    restore(filled, older)
    con = apsw.Connection(str(filled.state / "state.db"))
    assert con.execute("SELECT count(*) FROM tag_renamed").fetchall() == [(0,)]
    con.close()


def test_a_restore_that_fails_at_the_last_step_leaves_nothing(filled, sealed, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("pipelines.maintenance.backup.databases.replace_state", fail)
    refused(filled, sealed, BackupError, "Input/output error")


def test_the_restored_cache_is_a_cache(filled, sealed):
    placed = restore(filled, sealed)
    reader = SqliteCache.open(placed)
    assert reader.counts().notes == 2
    reader.close()
    assert len(seal(b"")) == _SEAL_LENGTH
