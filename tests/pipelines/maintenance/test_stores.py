"""A vault's state and index are carried from files to PostgreSQL and back: a real server, and contents of every kind."""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing

import apsw
import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.postgres import PostgresCache
from pipelines.errors import AlreadyRunningError, MigrationError, StateError
from pipelines.maintenance import stores
from pipelines.maintenance.stores import carry
from pipelines.model import PostgresPlace
from pipelines.postgres import PostgresConnection
from pipelines.sqlite import connect
from pipelines.state.state import MOMENTARY_TABLES, TAGGING_BEGAN, WATCHER, State, WatcherFacts, open_state

ROWS = 25
ODD = [
    "",
    "é 🐙",
    "ab",
    "a\0b",
    "'; DROP",
    "%s ? :x",
    "\n\t",
    "\u202e",
    "𝕏" * 40,
    "held",
    "0",
    "a:b",
    "\\x00",
]
NOTES = {
    "moats.md": "---\ntags: [moat]\naliases: [Castle, 🏰]\n---\n# Moats\n\nA moat has a price. See [[Garden]].\n",
    "garden.md": "# Garden\n\nCompost for the tomato, soil for the bean. [[nowhere]]\n",
    "secret.md": "---\nprivate: true\n---\nNothing of this leaves.\n",
    "empty.md": "",
    "odd 🐙.md": "# Nul\n\nBefore\0after, and 🐙.\n",
    **{f"{n}.md": f"# Note {n}\n\nLetter {n} on the river, see [[{n - 1}]].\n" for n in range(20)},
}
NOT_COMPARED = {"dirty_since", "first_change", "last_change", "next_attempt_at", "uptime"}
NOT_COMPARED |= {"lease_token", "lease_until", "lease_owner"}
HELD_BY = "somewhere:1/1.0#2"
NEW_CHUNK = (
    "INSERT INTO vault_chunk (path, position, section, heading_path, text, text_hash, start_offset, end_offset,"
    " first_line, last_line, has_vector) VALUES ('x', 0, '', '[]', '', '', 0, 0, 0, 0, 0) RETURNING id"
)
CHILD = """
import sys
from pathlib import Path, PosixPath
from pipelines.maintenance import stores
from pipelines.model import PostgresPlace

def progress(doing, done, every):
    global turns
    if doing == sys.argv[3]:
        turns += 1
        if turns == 12:
            print("rows", done, flush=True)
            sys.stdin.read()

turns = 0
stores._AT_ONCE = 5
source, target = eval(sys.argv[1]), eval(sys.argv[2])
stores.carry(source, target, ["vault", "empty"], vault_id="an-id", progress=progress, require_rest=lambda: None)
"""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Few rows at once, so that each table of these tests has several slices, some of them full."""
    monkeypatch.setattr(stores, "_AT_ONCE", 5)


@pytest.fixture
def far(tmp_path, postgres):
    """An empty place in PostgreSQL."""
    (tmp_path / "copies").mkdir()
    return PostgresPlace(tmp_path / "copies", postgres.address, f"v{secrets.token_hex(6)}")


@pytest.fixture
def house(house):
    """An index of odd notes: private, parked, deleted ones, one that is leased and one that waits for its vector."""
    for path, text in NOTES.items():
        house.write(path, text)
    house.write("wide.md", "x" * 1_000_001)
    house.index()
    (house.root / "7.md").unlink()
    house.index()
    cache = house.cache
    cache.second.want("second")
    some = cache.second.hashes_pending()[:3]
    cache.second.keep("second", {one: np.ones((1, 4), np.int8) for one in some})
    house.save("8.md", "# Again\n\nAnother text.")
    house.write("late.md", "# Late\n\nNot yet indexed.")
    house.notice("late.md")
    assert [row.path for row in cache.leases.take("words", 1, HELD_BY)] == ["late.md"]
    assert house.parked()
    with closing(open_state(house.state)) as con:
        fill(con, plain_tables(con))
    more = ("vault_git", "vault_ignored", "vault_rank", "vault_community", "vault_probe")
    fill(cache.con, more)
    return house


def fill(con: apsw.Connection, tables: Sequence[str]) -> None:
    """Put rows of any contents into tables."""
    chance = random.Random(0)  # noqa: S311
    of_type = {
        "TEXT": lambda: chance.choice(ODD) + str(chance.randrange(1000)),
        "INTEGER": lambda: chance.choice([0, 1, -1, 2**62, chance.randrange(2**40)]),
        "REAL": lambda: chance.choice([0.0, -0.0, 0.1, 1e300, float("inf"), -1.5, chance.random()]),
        "position": lambda: chance.randrange(1000),
        "BLOB": lambda: chance.choice([b"", b"\0\xff", chance.randbytes(50)]),
    }
    for table in tables:
        described = con.execute(
            'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)
        ).fetchall()
        insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(described))})"
        for _ in range(ROWS):
            con.execute(
                insert,
                [
                    None
                    if not required and not key and chance.random() < 0.3
                    else of_type[name if name in of_type else kind]()
                    for name, kind, required, key in described
                ],
            )


def plain_tables(con: apsw.Connection) -> list[str]:
    found = con.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " AND name NOT LIKE 'vault_chunk_vec%' AND name NOT LIKE 'vault_chunk_fts%' AND name NOT LIKE '%_change'"
    )
    return sorted({name for (name,) in found} - set(MOMENTARY_TABLES))


def contents(con: apsw.Connection) -> dict[str, list[object]]:
    """All that is durable, as PostgreSQL can have it: without NUL, and without what ends with its processes."""
    tables = {}
    for table in plain_tables(con):
        names = [name for (name,) in con.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        columns = ", ".join(name for name in names if name not in NOT_COMPARED)
        rows = con.execute(f"SELECT {columns} FROM {table}")
        tables[table] = sorted(repr(row).replace("\\x00", "\ufffd") for row in rows)
    return tables


def whole(folder) -> dict[str, dict[str, list[object]]]:
    found = {}
    for file in sorted(folder.glob("*.db")):
        with closing(connect(file)) as con:
            found[file.name] = contents(con)
    return found


def folder(base):
    made = base / secrets.token_hex(4)
    made.mkdir()
    return made


def raw(place, name):
    """A connection to the state or an index that asks nothing."""
    if isinstance(place, PostgresPlace):
        return PostgresConnection(place.address, place.schema(name))
    return connect(place / f"{name}.db")


def opened(place):
    if isinstance(place, PostgresPlace):
        return PostgresCache.open(
            place.address, place.schema("cache-vault.1"), place.folder / "cache-vault.1.db"
        )
    with closing(SqliteCache.open(place / "cache-vault.1.db")) as cache:
        return SqliteCache.create(cache.path, cache.meta)


def moved(source, target, progress=lambda *_: None, rest=lambda: None):
    return carry(source, target, ["vault", "empty"], vault_id="an-id", progress=progress, require_rest=rest)


def test_what_goes_to_postgresql_and_comes_back_is_what_was_there(house, far, tmp_path):
    before = whole(house.state)
    assert all(all(tables.values()) for tables in before.values())
    picture = house.picture()
    said = moved(house.state, far)
    assert whole(house.state) == before  # it was only read
    assert said.keys() == {"state", "cache-vault.1"}
    back = folder(tmp_path)
    assert moved(far, back) == said
    assert whole(back) == before
    with closing(opened(back)) as cache:
        assert repr(house.picture(cache)) == repr(picture).replace("\\x00", "\ufffd")
        assert cache.meta == house.cache.meta


def test_the_first_copy_of_a_host_has_all_that_was_carried(house, far):
    moved(house.state, far)
    cache = opened(far)
    cache.follow()
    copied = contents(cache.copy.cache.con)
    with closing(connect(house.state / "cache-vault.1.db")) as con:
        had = contents(con)
    for table in set(had) - {"vault_meta"}:
        assert copied[table] == had[table], table
    cache.close()


def test_numbers_are_not_given_twice_on_the_other_side(house, far, tmp_path):
    with closing(connect(house.state / "cache-vault.1.db")) as con:
        con.execute("UPDATE sqlite_sequence SET seq = 10000 WHERE name = 'vault_chunk'")
    with closing(connect(house.state / "state.db")) as con:
        ((rowid,),) = con.execute("SELECT max(rowid) FROM evidence")
    moved(house.state, far)
    with closing(PostgresConnection(far.address, far.schema("state"))) as con:
        insert = "INSERT INTO evidence (id, question, asked_at) VALUES ('new', '?', '') RETURNING rowid"
        assert con.execute(insert).fetchone() == (rowid + 1,)
    with closing(PostgresConnection(far.address, far.schema("cache-vault.1"))) as con:
        assert con.execute(NEW_CHUNK).fetchone() == (10_001,)
        con.execute("DELETE FROM vault_chunk WHERE id = 10001")
    moved(far, back := folder(tmp_path))
    with closing(connect(back / "cache-vault.1.db")) as con:
        assert con.execute(NEW_CHUNK).fetchone() == (10_002,)


def test_times_are_as_long_ago_by_the_other_stores_clock_and_nobody_holds_a_note(house, far, tmp_path):
    with closing(State(house.state)) as state:
        state.put(TAGGING_BEGAN, "then", "vault")
        state.put(WATCHER, WatcherFacts("events", None, None, None, 0, 1))
    with closing(connect(house.state / "state.db")) as con:
        con.execute("UPDATE fact SET at = at - 5000, uptime = uptime - 5000 WHERE key = 'tags-began:vault'")
    with closing(connect(house.state / "cache-vault.1.db")) as con:
        con.execute(
            "UPDATE vault_file SET dirty_since = ? WHERE path = 'late.md'", (time.monotonic() - 5000,)
        )
    moved(house.state, far)
    moved(far, back := folder(tmp_path))
    for place in (far, back):
        with closing(State(place)) as state:
            assert 5000 <= state.get(TAGGING_BEGAN, "vault").age_s < 6000
            assert state.get(WATCHER) is None
        with closing(opened(place)) as cache:
            held = "SELECT count(*) FROM vault_file WHERE coalesce(lease_token, lease_owner) IS NOT NULL"
            assert cache.con.execute(held).fetchone() == (0,)
            assert 5000 <= cache.ledger.pending()[1] < 6000
            assert [row.path for row in cache.leases.take("words", 9, "another")] == ["late.md"]


def test_a_migration_that_is_killed_goes_on_where_it_stopped(house, far, tmp_path):
    for source, target in ((house.state, far), (far, folder(tmp_path))):
        copied = killed_after(source, target, "copying cache-vault.1")
        with pytest.raises(StateError, match="unfinished copy"):
            open_state(target)
        steps: list[tuple[str, int, int]] = []
        said = moved(source, target, lambda *step, steps=steps: steps.append(step))
        doing, done, every = steps[0]
        assert (doing, done) == ("copying state", copied), "what was copied counts as done"
        assert every == 3 * sum(said.values())
        open_state(target).close()
    assert whole(target) == whole(house.state)


def killed_after(source, target, doing: str) -> int:
    """Kill a process in the middle of a migration; return how many rows it had copied."""
    command = [sys.executable, "-c", CHILD, repr(source), repr(target), doing]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    child.kill()
    child.communicate(timeout=30)
    assert line.startswith("rows"), line
    return int(line.split()[1])


def test_rows_that_change_after_they_were_copied_are_found_and_copied_again(house, far, tmp_path):
    for source, target, damage in (
        (house.state, far, "UPDATE vault_link SET line = line + 1 WHERE path = '3.md'"),
        (far, folder(tmp_path), "DELETE FROM vault_link WHERE path = '3.md'"),
    ):

        def spoil(doing, *_, damage=damage, target=target):
            if doing == "comparing state":
                for name, statement in (("cache-vault.1", damage), ("state", "DELETE FROM note_log")):
                    with closing(raw(target, name)) as con:
                        con.execute(statement)

        with pytest.raises(MigrationError) as caught:
            moved(source, target, spoil)
        assert "state: the copy of the table note_log has 0 rows instead of " in str(caught.value)
        assert "cache-vault.1: the copy of the table vault_link has" in str(caught.value)
        with pytest.raises(StateError, match="unfinished copy"):
            open_state(target)
        moved(source, target)
    assert whole(target) == whole(house.state)


def test_a_target_that_has_a_vault_or_the_half_of_another_is_left_alone(house, far, tmp_path):
    moved(house.state, far)
    with pytest.raises(
        MigrationError, match=r"was kept: the schema v.*_state, the schema v.*_cache-vault.1;"
    ):
        moved(house.state, far)
    with pytest.raises(MigrationError, match=r"was kept: .*state.db, .*cache-vault.1.db;"):
        moved(far, house.state)
    there = folder(tmp_path)
    (there / "cache-vault.1.db").write_bytes(b"mine")
    with pytest.raises(MigrationError, match=r"was kept: [^,]*cache-vault.1.db;"):
        moved(far, there)
    assert [file.name for file in there.iterdir()] == ["cache-vault.1.db"]
    (there / "cache-vault.1.db").unlink()
    killed_after(far, there, "copying state")
    with pytest.raises(MigrationError, match="unfinished copy of another source, an-id in postgresql:"):
        carry(far, there, ["vault"], vault_id="other", progress=lambda *_: None, require_rest=lambda: None)


def test_what_uses_the_source_at_the_end_leaves_the_copy_unused(house, far):
    def refuse():
        raise AlreadyRunningError("it runs")

    with pytest.raises(AlreadyRunningError):
        moved(house.state, far, rest=refuse)
    with pytest.raises(StateError, match="unfinished copy"):
        open_state(far)
    moved(house.state, far)
    open_state(far).close()


def test_without_an_index_there_is_nothing_to_migrate(tmp_path, far):
    with pytest.raises(MigrationError, match="no index yet"):
        moved(folder(tmp_path), far)
