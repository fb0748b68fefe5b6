import shutil

import pytest

from pipelines.errors import VaultNotFoundError
from pipelines.identity import identify, identify_anew
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
    anew = identify_anew(copy)
    assert anew.vault_id != original.vault_id
    assert identify(copy) == anew


def test_a_vault_that_we_may_only_read_is_known_by_its_path(public, as_nobody):
    public.chmod(0o555)
    identity = as_nobody(identify, public)
    assert not identity.marked
    assert as_nobody(identify, public) == identity
    assert list(public.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\n", b"../../etc", b"\xff\xfe", b"no id\n"])
def test_an_id_file_that_holds_no_id_is_not_believed(vault, content):
    (vault / ".everindex").mkdir()
    (vault / ".everindex" / "id").write_bytes(content)
    identity = identify(vault)
    assert not identity.marked
    assert identity.vault_id.isalnum()
    assert (vault / ".everindex" / "id").read_bytes() == content


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
    answers = race("from pipelines.identity import identify", "identify(folder).vault_id", roots)
    assert all(len(answer) == 300 for answer in answers)
    assert answers == [answers[0]] * len(answers)
