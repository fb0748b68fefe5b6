"""Verify, repair, back up and restore, as an operator does it: by the command, beside a service or without."""

from __future__ import annotations

import apsw
import pytest
import sqlite_vec

from .conftest import wait_for


def write(user, path, text):
    file = user.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def drift(user) -> None:
    """Change what is indexed, behind everybody's back."""
    con = apsw.Connection(str(user.state / "cache-vault.1.db"))
    con.set_busy_timeout(10_000)
    con.enable_load_extension(True)  # noqa: FBT003
    con.load_extension(sqlite_vec.loadable_path())
    con.execute("UPDATE vault_chunk SET text = 'other' WHERE path = 'garden.md'")
    con.execute(
        "DELETE FROM vault_chunk_fts WHERE rowid IN (SELECT id FROM vault_chunk WHERE path = 'river.md')"
    )
    con.close()


@pytest.fixture
def indexed(user):
    write(user, "garden.md", "# Garden\n\nThe soil is quetzal.")
    write(user, "river.md", "# River\n\nA zanzibar boat, see [[garden]].")
    user.run("index", *user.place)
    return user


def test_verify_names_what_differs_and_repair_mends_it_without_a_service(indexed):
    user = indexed
    said = user.run("verify", *user.place)
    assert "no difference; 2 notes compared" in said
    drift(user)
    write(user, "new.md", "Nobody noticed.")
    said = user.run("verify", *user.place, code=1)
    assert "chunk: garden.md" in said
    assert "words: river.md" in said
    assert "path: new.md: is on disk, but not in the index" in said
    said = user.run("verify", "--repair", *user.place)
    assert said.rstrip().endswith("no difference; 3 notes compared with the disk")
    user.run("verify", *user.place)


def test_repair_backup_and_refused_restore_beside_a_running_service(indexed, tmp_path):
    user = indexed
    user.up()
    drift(user)
    user.run("verify", *user.place, code=1)
    user.run("verify", "--repair", *user.place)
    wait_for(lambda: user.found("zanzibar")[:1] == ["river.md"], "the repaired note")
    file = tmp_path / "backup.tar"
    assert "1 caches" in user.run("backup", str(file), *user.place)
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
