import os
import shutil
from contextlib import suppress

import pytest

from pipelines.errors import EverindexError, VaultIdError, VaultNotFoundError
from pipelines.vault.identity import Seen, identify, identify_anew
from tests.racers import race


def test_a_vault_gets_its_id_at_first_sight_and_keeps_it(vault):
    first = identify(vault)
    marker = vault / ".everindex" / "id"
    written = marker.stat()
    assert first.marked
    assert first.vault_id == marker.read_text().strip()
    assert identify(vault) == first
    assert (marker.stat().st_ino, marker.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    assert list(marker.parent.iterdir()) == [marker]


def test_a_moved_vault_keeps_its_id(vault, tmp_path):
    before = identify(vault)
    vault.rename(tmp_path / "elsewhere")
    assert identify(tmp_path / "elsewhere") == before


def test_a_copy_gets_an_id_of_its_own_when_it_is_asked_for(vault, tmp_path):
    original = identify(vault)
    copy = tmp_path / "copy"
    shutil.copytree(vault, copy)
    assert identify(copy).vault_id == original.vault_id
    own = identify_anew(copy)
    assert own.vault_id != original.vault_id
    assert identify(copy) == own


def test_a_vault_that_we_may_only_read_is_known_by_its_path(public, as_nobody):
    public.chmod(0o555)
    identity = as_nobody(identify, public)
    assert not identity.marked
    assert as_nobody(identify, public) == identity
    assert list(public.iterdir()) == []


def put_in_place(marker, damage, outside):
    """Put something that is no id at the place of the id file."""
    marker.parent.mkdir(exist_ok=True)
    marker.unlink(missing_ok=True)
    if isinstance(damage, bytes):
        marker.write_bytes(damage)
    elif damage == "folder":
        marker.mkdir()
    elif damage == "fifo":
        os.mkfifo(marker)
    elif damage == "link":
        (outside / "id").write_bytes(b"0123456789ab\n")
        marker.symlink_to(outside / "id")
    elif damage == "device":
        marker.symlink_to("/dev/zero")
    elif damage == "linked folder":
        (outside / "id").write_bytes(b"0123456789ab\n")
        marker.parent.rmdir()
        marker.parent.symlink_to(outside)


DAMAGE = [
    b"",
    b"\n",
    b"\0" * 13,
    b"\xef\xbb\xbf0123456789ab\n",
    b"../../etc",
    b"\xff\xfe",
    b"no id\n",
    b"<<<<<<< HEAD\n0123456789ab\n=======\nba9876543210\n>>>>>>> other\n",
    b"0" * 10_000,
    "folder",
    "fifo",
    "link",
    "device",
    "linked folder",
]
on_every_damage = pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: repr(damage)[:20])


@pytest.fixture
def outside(tmp_path):
    """A folder beside the vault."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def listed(folder):
    return {path: path.lstat() for path in [folder, *folder.rglob("*")]}


@on_every_damage
@pytest.mark.parametrize("create", [True, False])
def test_an_id_file_that_holds_no_id_is_refused_with_what_to_do_and_left_alone(
    vault, outside, damage, create
):
    put_in_place(vault / ".everindex" / "id", damage, outside)
    before = listed(vault) | listed(outside)
    with pytest.raises(VaultIdError, match=r"\.everindex/id .*: .*delete it"):
        identify(vault, create=create)
    assert listed(vault) | listed(outside) == before


@on_every_damage
def test_a_damaged_id_file_gets_the_remembered_id_back_and_nothing_outside_changes(vault, outside, damage):
    original = identify(vault)
    put_in_place(vault / ".everindex" / "id", damage, outside)
    before = listed(outside)
    found = identify(vault, lambda: [Seen(original.vault_id, None), Seen("bad0", None)])
    assert found.vault_id == original.vault_id
    assert listed(outside) == before
    if damage not in ("folder", "linked folder"):  # those are not ours to remove
        assert found.marked
        assert identify(vault) == original


def test_a_folder_that_lost_its_id_file_gets_its_id_back_and_another_folder_at_its_path_does_not(
    vault, tmp_path
):
    original = identify(vault)
    shutil.rmtree(vault / ".everindex")
    seen = [Seen("bad0", original.inode + 1), Seen(original.vault_id, original.inode)]
    assert identify(vault, lambda: seen) == original
    vault.rename(tmp_path / "elsewhere")
    vault.mkdir()
    assert identify(vault, lambda: seen).vault_id not in {one.vault_id for one in seen}


def test_looking_at_a_vault_writes_nothing_into_it(vault):
    assert not identify(vault, create=False).marked
    original = identify(vault, lambda: [Seen("0badcafe", vault.stat().st_ino)], create=False)
    assert original.vault_id == "0badcafe"
    assert list(vault.iterdir()) == []


@on_every_damage
def test_a_copys_own_id_is_never_taken_out_of_another_folder(vault, outside, damage):
    put_in_place(vault / ".everindex" / "id", damage, outside)
    before = listed(outside)
    with suppress(OSError, EverindexError):
        identify_anew(vault)
    assert {path.name for path in listed(outside)} == {path.name for path in before}


def test_a_file_in_place_of_the_dot_folder_is_left_alone(vault):
    (vault / ".everindex").write_bytes(b"mine")
    assert not identify(vault).marked
    assert (vault / ".everindex").read_bytes() == b"mine"


def test_a_vault_that_is_missing_or_a_file_is_refused_with_what_to_do(vault):
    note = vault / "a.md"
    note.touch()
    with pytest.raises(VaultNotFoundError, match="check the path"):
        identify(vault / "nowhere")
    with pytest.raises(VaultNotFoundError, match="give the folder"):
        identify(note)


def test_processes_that_start_together_agree_on_one_id(tmp_path):
    roots = tmp_path / "roots"
    for number in range(300):
        (roots / f"{number:03}").mkdir(parents=True)
    answers = race("from pipelines.vault.identity import identify", "identify(folder).vault_id", roots)
    assert all(len(answer) == 300 for answer in answers)
    assert answers == [answers[0]] * len(answers)
