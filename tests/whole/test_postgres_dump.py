"""A vault in PostgreSQL that is backed up by `pg_dump` while notes are saved, and restored by `pg_restore`."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer, postgres_server

from .conftest import User, wait_for

TEXTS = ("# Tides\n\nThe quokka crosses the river.\n", "# Tides\n\nThe wombat sleeps in winter.\n")
DUMP = ("pg_dump", "--format=custom")
RESTORE = ("pg_restore", "--exit-on-error")


@pytest.fixture
def server():
    with postgres_server() as started:
        yield started


def run(server: PostgresServer, program: str, *arguments: str) -> None:
    command = [server.programs / program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def user(tmp_path, server):
    root = tmp_path / "notes"
    root.mkdir()
    for number in range(40):
        (root / f"{number}.md").write_text(f"# Note {number}\n\nLetter {number}, see [[{number - 1}]].\n")
    made = User(tmp_path, root, EVERINDEX_STORE=server.address)
    yield made
    made.stop()


def test_a_dump_during_saves_is_restored_whole_and_embeds_nothing_again(user, server, tmp_path):
    tides = user.root / "tides.md"
    for text in TEXTS:  # both are embedded once
        tides.write_text(text)
        user.run("index", *user.place)
    user.up()
    dumped = threading.Event()
    saves = 0

    def save() -> None:
        nonlocal saves
        while not dumped.is_set():
            tides.write_text(TEXTS[saves % 2])
            saves += 1
            dumped.wait(0.5)

    saving = threading.Thread(target=save)
    saving.start()
    wait_for(lambda: saves > 2, "notes are saved")
    run(server, *DUMP, f"--file={tmp_path / 'dump'}", server.address)
    dumped.set()
    saving.join()
    # What the dump does not have, though this host's copy does: notes that are gone when it is restored.
    for number in range(40):
        (user.root / f"later {number}.md").write_text((user.root / f"{number}.md").read_text())
    with psycopg.connect(server.address, autocommit=True) as con:
        later = "SELECT count(*) FROM notes_views.documents WHERE file_path LIKE 'later %'"
        wait_for(lambda: con.execute(later).fetchone() == (40,), "the later notes are indexed")
    user.wait_until_quiet()
    user.stop()
    for number in range(40):
        (user.root / f"later {number}.md").unlink()
    with psycopg.connect(server.address, autocommit=True) as con:
        con.execute("CREATE DATABASE restored")
    restored = server.address.replace("/postgres", "/restored")
    run(server, *RESTORE, f"--dbname={restored}", str(tmp_path / "dump"))
    user.environment["EVERINDEX_STORE"] = restored
    said = user.run("index", *user.place)
    assert "; 0 texts embedded; 41 notes" in said
    user.run("verify", *user.place)
    # The copy of this host is one of what was restored.
    (user.root / "late.md").write_text("# Late\n\nThe ferry waits.\n")
    user.up()
    assert user.found("ferry waits")[0] == "late.md"
    user.run("verify", *user.place)


def test_the_documentation_backs_up_and_restores_as_this_does():
    said = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()
    assert f"$ {' '.join(DUMP)} --file=" in said
    assert f"$ {' '.join(RESTORE)} --dbname=" in said
