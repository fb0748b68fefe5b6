"""Verify, repair, back up and restore, as an operator does it: by the command, beside a service or without."""

from __future__ import annotations

import os
import shutil

import apsw
import pytest
import sqlite_vec

from .conftest import User, wait_for


def write(user, path, text):
    file = user.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def drift(user) -> None:
    """Change the index without any process noticing."""
    con = apsw.Connection(str(user.state / "cache-vault.1.db"))
    con.set_busy_timeout(10_000)
    con.enable_load_extension(True)  # noqa: FBT003
    con.load_extension(sqlite_vec.loadable_path())
    con.execute("UPDATE vault_chunk SET text = 'other' WHERE path = 'garden.md'")
    con.execute(
        "DELETE FROM vault_chunk_fts WHERE rowid IN (SELECT id FROM vault_chunk WHERE path = 'river.md')"
    )
    con.close()


@pytest.fixture(scope="module")
def first(tmp_path_factory, tiny_model):
    """A vault that is indexed once; each test gets a copy of its state, and links to its notes."""
    base = tmp_path_factory.mktemp("first")
    made = User(base, base / "notes", EMBEDDING_MODEL=str(tiny_model))
    write(made, "garden.md", "# Garden\n\nThe soil is quetzal.")
    write(made, "river.md", "# River\n\nA zanzibar boat, see [[garden]].")
    made.run("index", *made.place)
    return made


@pytest.fixture
def indexed(user, first):
    # The inodes are a part of the index. A test makes and deletes notes, and writes into none.
    shutil.copytree(first.root, user.root, dirs_exist_ok=True, copy_function=os.link)
    shutil.copytree(first.state, user.state)
    return user


def test_verify_names_what_differs_and_repair_mends_it_without_a_service(indexed):
    user = indexed
    said = user.run("verify", *user.place)
    assert "no difference; 2 files compared" in said
    drift(user)
    write(user, "new.md", "Nobody noticed.")
    said = user.run("verify", *user.place, code=1)
    assert "chunk: garden.md" in said
    assert "words: river.md" in said
    assert "path: new.md: is on disk, but not in the index" in said
    said = user.run("verify", "--repair", *user.place)
    assert said.rstrip().endswith("no difference; 3 files compared with the disk")
    user.run("verify", *user.place)


def test_repair_backup_and_refused_restore_beside_a_running_service(indexed, tmp_path):
    user = indexed
    user.up()
    drift(user)
    user.run("verify", *user.place, code=1)
    user.run("verify", "--repair", *user.place)
    wait_for(lambda: user.found("zanzibar")[:1] == ["river.md"], "the repaired note")
    file = tmp_path / "backup.tar"
    assert "1 cache of" in user.run("backup", str(file), *user.place)
    said = user.run("restore", str(file), *user.place, code=1)
    assert "stop it" in said
    assert not (user.state / "cache-vault.2.db").exists()


def test_a_restore_and_an_index_end_as_the_disk_is(indexed, tmp_path):
    user = indexed
    file = tmp_path / "backup.tar"
    user.run("backup", str(file), *user.place)
    write(user, "later.md", "Written later: xylophone.")
    (user.root / "river.md").unlink()
    user.run("index", *user.place)
    assert "cache-vault.2.db" in user.run("restore", str(file), *user.place)
    said = user.run("verify", *user.place, code=1)
    assert "path: later.md" in said
    assert "path: river.md" in said
    user.run("index", *user.place)
    user.run("verify", *user.place)
    assert [hit["path"] for hit in user.json("search", "xylophone")["results"]][:1] == ["later.md"]
    file.write_bytes(file.read_bytes()[:-1])
    assert "not a backup" in user.run("restore", str(file), *user.place, code=1)
    assert not (user.state / "cache-vault.3.db").exists()


def damaged(user) -> None:
    """Give the state a decision and a page that cannot be read."""
    con = apsw.Connection(str(user.state / "state.db"))
    con.execute(
        "INSERT INTO tag_audit (at, domain, path, tags, action, head_before, head_after)"
        " VALUES ('2026', 'vault', 'garden.md', '[\"soil\"]', 'promoted', x'', x'')"
    ).fetchall()
    con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    ((page,),) = con.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'job_histogram'").fetchall()
    con.close()
    data = bytearray((user.state / "state.db").read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    (user.state / "state.db").write_bytes(data)


def promoted(user) -> list[tuple[str]]:
    con = apsw.Connection(str(user.state / "state.db"))
    try:
        return con.execute("SELECT path FROM tag_audit").fetchall()
    finally:
        con.close()


def test_a_damaged_state_is_reported_and_a_rebuild_keeps_what_can_be_read(indexed):
    user = indexed
    damaged(user)
    said = user.run("index", "--rebuild", *user.place)
    assert "state.db was damaged" in said
    assert "1 changes of notes" in said
    assert "job_histogram" in said
    assert (user.state / "state.db.damaged-1").exists()
    assert promoted(user) == [("garden.md",)]
    user.run("verify", *user.place)
    user.up()
    assert user.found("zanzibar")[:1] == ["river.md"]


@pytest.mark.parametrize("content", [b"garbage" * 2_000, None], ids=["all", "a page"])
def test_a_damaged_state_is_reported_and_a_restore_puts_the_backups_in_its_place(indexed, tmp_path, content):
    user = indexed
    damaged(user)
    (user.state / "state.db").unlink()  # the next command makes a sound one
    user.run("index", *user.place)
    file = tmp_path / "backup.tar"
    user.run("backup", str(file), *user.place)
    damaged(user)
    if content:
        (user.state / "state.db").write_bytes(content)
        said = user.run("index", *user.place, code=1)
        assert "state.db is damaged" in said
        assert "everindex restore FILE" in said
        assert "everindex index --rebuild" in said
    user.run("restore", str(file), *user.place)
    assert (user.state / "state.db.damaged-1").exists()
    assert promoted(user) == []
    user.run("index", *user.place)
    user.run("verify", *user.place)


@pytest.mark.parametrize("lost", ["the folder", "state.db"])
def test_a_lost_state_is_restored_by_the_first_command(indexed, tmp_path, lost):
    user = indexed
    file = tmp_path / "backup.tar"
    user.run("backup", str(file), *user.place)
    if lost == "state.db":
        (user.state / lost).unlink()
    else:
        shutil.rmtree(user.state)
        said = user.run("status", *user.place, code=1)
        assert f"{user.state} of {user.root} is not there" in said
        assert "`everindex restore FILE`" in said
    user.run("restore", str(file), *user.place)
    user.run("index", *user.place)
    user.run("verify", *user.place)


@pytest.fixture
def original(user):
    """A vault with its state in the usual place."""
    write(user, "garden.md", "# Garden\n\nThe soil is quetzal.")
    user.run("index", str(user.root))
    return user


def id_of(root):
    return (root / ".everindex" / "id").read_text()


def test_a_backup_is_restored_into_a_copy_beside_its_original(original, tmp_path):
    user, copy, file = original, str(tmp_path / "copy"), str(tmp_path / "backup.tar")
    user.run("backup", "--vault", str(user.root), file)
    shutil.copytree(user.root, copy)
    refusal = user.run("restore", "--vault", copy, file, code=1)
    assert "If these are its notes, add --same-notes" in refusal
    assert "restored as" in user.run("restore", "--vault", copy, file, "--same-notes")
    assert "quetzal" in user.run("search", "--vault", copy, "quetzal")
    assert "1 as they were; 0 texts embedded" in user.run("index", copy)
    assert id_of(tmp_path / "copy") != id_of(user.root)


def test_a_copy_that_is_watched_with_another_state_keeps_its_id(original, tmp_path):
    user, copy = original, tmp_path / "copy"
    shutil.copytree(user.root, copy)
    its_user = User(tmp_path / "its", copy, **user.environment)
    try:
        its_user.up()
        before = id_of(copy)
        for command in (("up", str(copy), "--port", str(user.port)), ("status", "--vault", str(copy))):
            said = its_user.run(*command, code=1)
            assert f"choose that one with `--state {its_user.state}`" in said
        assert id_of(copy) == before == id_of(user.root)
        assert its_user.health()["problems"] == []
    finally:
        its_user.stop()


def test_a_search_of_a_damaged_index_is_an_error_that_names_the_cure(indexed):
    user = indexed
    (cache,) = user.state.glob("cache-*.db")
    cache.write_bytes(cache.read_bytes()[:4096] + b"\xff" * 200_000)
    said = user.run("search", "oven", *user.place, code=1)
    assert "cannot be searched: " in said
    assert "`everindex index --rebuild`" in said
    assert '"event"' not in said


def test_a_state_of_which_nothing_can_be_read_keeps_its_caches(indexed):
    user = indexed
    user.run("index", "--rebuild", *user.place)  # number 2 is current
    (user.state / "state.db").write_bytes(b"garbage" * 2_000)
    said = user.run("index", "--rebuild", *user.place)
    assert "not all could be read of: all of it" in said
    assert (user.state / "cache-vault.3.db").exists()
    assert "0 texts embedded" in said
    user.run("verify", *user.place)
