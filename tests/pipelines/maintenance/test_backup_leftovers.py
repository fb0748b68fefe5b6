"""What killed backups, restores and rebuilds left is deleted, and nothing that is in use or current."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.maintenance import databases
from pipelines.maintenance.backup import claim, restore_backup, sweep_leftovers, work_folder, write_backup
from pipelines.model import PostgresPlace
from pipelines.state.state import State
from tests.faults.stage import in_child
from tests.pipelines.conftest import House

DAY = 24 * 3600.0


@pytest.fixture
def state(house):
    house.write("a.md", "Words.")
    house.index()
    opened = State(house.state)
    yield opened
    opened.close()


def age(*paths: Path, seconds: float = 60.0) -> None:
    for path in paths:
        os.utime(path, (time.time() - seconds,) * 2)


def names(folder: Path) -> list[str]:
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name.startswith((".", "cache-")) and not path.name.endswith(("-wal", "-shm"))
    )


def back_up(house: House, file: Path) -> None:
    write_backup(
        file, house.state, ["vault"], vault_id=house.identity.vault_id, root=house.root, version="0.1.0"
    )


def killed(work, log: Path) -> None:
    """Run something in a child that is killed where it calls `die`."""
    assert in_child(work, log).died


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_backup_left_goes_beside_its_file_too(house, state, tmp_path, monkeypatch):
    file = tmp_path / "elsewhere" / "b.tar"
    file.parent.mkdir()
    monkeypatch.setattr("pipelines.maintenance.backup.tarfile.TarFile.addfile", die)
    killed(lambda: back_up(house, file), tmp_path / "log")
    monkeypatch.undo()
    (folder,) = house.state.glob(".backup-*")
    (beside,) = file.parent.iterdir()
    assert sweep_leftovers(house.state, state) == []  # it is young
    age(folder)
    assert sweep_leftovers(house.state, state) == [beside.name, folder.name]
    assert list(file.parent.iterdir()) == []
    assert names(house.state) == ["cache-vault.1.db"]


@pytest.mark.parametrize("last", ["replace_state", "done"])
def test_what_a_killed_restore_left_goes_and_what_it_put_in_force_stays(
    house, state, tmp_path, monkeypatch, last
):
    back_up(house, tmp_path / "b.tar")
    if last == "done":
        real = databases.replace_state

        def replace_state(*arguments):
            real(*arguments)
            die()

        monkeypatch.setattr(databases, "replace_state", replace_state)
    else:
        monkeypatch.setattr(databases, "replace_state", die)
    killed(
        lambda: restore_backup(
            tmp_path / "b.tar", house.state, vault_id=house.identity.vault_id, root=house.root
        ),
        tmp_path / "log",
    )
    monkeypatch.undo()
    (folder,) = house.state.glob(".restore-*")
    age(folder)
    gone = sweep_leftovers(house.state, state)
    if last == "done":
        assert gone == [folder.name]
        assert names(house.state) == ["cache-vault.1.db", "cache-vault.2.db"]
        assert state.cache_number("vault") == 2
    else:
        assert gone == ["cache-vault.2.db", folder.name]
        assert names(house.state) == ["cache-vault.1.db"]
        assert state.cache_number("vault") == 1


@pytest.mark.parametrize("purpose", ["backup", "compare"])
def test_a_run_that_lives_keeps_its_folder_and_what_it_claimed(house, state, tmp_path, purpose):
    beside = tmp_path / ".b.tar.0123abcd.tmp"
    beside.touch()
    with work_folder(house.state, purpose) as folder:
        claim(folder, beside)
        age(folder, seconds=DAY)
        assert sweep_leftovers(house.state, state) == []
        assert beside.exists()
    assert list(house.state.glob(f".{purpose}-*")) == []


def test_what_a_killed_comparison_left_goes_and_the_indexes_that_it_links_stay(house, state):
    dead = house.state / ".compare-dead"
    dead.mkdir()
    (dead / "cache-vault.1.db").symlink_to(house.state / "cache-vault.1.db")
    age(dead)
    assert sweep_leftovers(house.state, state) == [dead.name]
    assert names(house.state) == ["cache-vault.1.db"]


def test_a_claim_of_anything_else_is_not_followed(house, state, tmp_path):
    mine = tmp_path / "mine.md"
    mine.write_text("Mine.")
    (tmp_path / "link").symlink_to(mine)
    folder = house.state / ".restore-x"
    folder.mkdir()
    claim(folder, mine, tmp_path / "link", house.state / "cache-vault.1.db", house.state / "state.db")
    age(folder)
    assert sweep_leftovers(house.state, state) == [".restore-x"]
    assert mine.exists()
    assert {"cache-vault.1.db", "state.db"} <= {path.name for path in house.state.iterdir()}


def test_an_interrupted_rebuild_can_be_taken_up_for_a_day_and_goes_then(house, state):
    for number in (2, 4):
        (house.state / f"cache-vault.{number}.db").touch()
        (house.state / f"cache-vault.{number}.db-wal").touch()
    state.switch_cache("vault", 3)
    (house.state / "cache-vault.3.db").touch()
    old, current, ahead = (house.state / f"cache-vault.{number}.db" for number in (2, 3, 4))
    age(old, current, ahead, seconds=30 * DAY)
    assert sweep_leftovers(house.state, state) == []  # its log was written to just now: it runs
    age(house.state / "cache-vault.4.db-wal", seconds=0.9 * DAY)
    assert sweep_leftovers(house.state, state) == []
    age(house.state / "cache-vault.4.db-wal", seconds=1.1 * DAY)
    assert sweep_leftovers(house.state, state) == ["cache-vault.4.db"]
    assert names(house.state) == ["cache-vault.1.db", "cache-vault.2.db", "cache-vault.3.db"]
    assert not (house.state / "cache-vault.4.db-wal").exists()


def test_a_link_is_no_leftover(house, state, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    (house.state / ".backup-link").symlink_to(target)
    age(target)
    assert sweep_leftovers(house.state, state) == []
    assert (target / "file").exists()


def test_an_index_in_files_is_no_leftover_of_a_vault_that_is_in_postgresql(tmp_path, postgres):
    (tmp_path / "copies").mkdir()
    (tmp_path / "cache-vault.2.db").write_bytes(b"of before")
    age(tmp_path / "cache-vault.2.db", seconds=2 * DAY)
    with closing(State(PostgresPlace(tmp_path / "copies", postgres.address, "leftovers"))) as state:
        assert sweep_leftovers(tmp_path, state) == []
    assert (tmp_path / "cache-vault.2.db").exists()
