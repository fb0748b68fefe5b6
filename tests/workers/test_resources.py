"""Where a process finds what it works with."""

from __future__ import annotations

from workers.place import VAULT_FILE, open_place


def test_a_second_start_writes_nothing_so_that_it_works_on_a_full_disk(vault, tmp_path):
    state = tmp_path / "state"
    written = (open_place(vault, state).state / VAULT_FILE).stat()
    again = (open_place(vault, state).state / VAULT_FILE).stat()
    assert (again.st_ino, again.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_vault_that_was_moved_is_written_down_anew(vault, tmp_path):
    open_place(vault, tmp_path / "state")
    vault.rename(tmp_path / "moved")
    open_place(tmp_path / "moved", tmp_path / "state")
    assert str(tmp_path / "moved") in (tmp_path / "state" / VAULT_FILE).read_text()
