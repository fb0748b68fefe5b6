"""Where a process finds what it works with."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime

import pytest

from pipelines.errors import NotFoundError, VaultIdError, VaultNotFoundError
from pipelines.sqlite import connect
from pipelines.state.health import Process
from pipelines.state.note_log import NoteLog
from pipelines.state.state import STATE_FILE
from pipelines.vault.identity import id_by_path
from queue_config.folders import state_home
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers.heartbeat import host
from workers.resources import Resources
from workers.tasks import compare
from workers.vault_paths import VAULT_FILE, locate_vault


def test_a_second_start_writes_nothing_so_that_it_works_on_a_full_disk(vault, tmp_path):
    state = tmp_path / "state"
    written = (locate_vault(vault, state).state / VAULT_FILE).stat()
    again = (locate_vault(vault, state).state / VAULT_FILE).stat()
    assert (again.st_ino, again.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_the_new_place_of_a_moved_vault_is_recorded(vault, tmp_path):
    locate_vault(vault, tmp_path / "state")
    vault.rename(tmp_path / "moved")
    locate_vault(tmp_path / "moved", tmp_path / "state")
    assert str(tmp_path / "moved") in (tmp_path / "state" / VAULT_FILE).read_text()


# Which state folder is a vault's


DAMAGED = (b"", b"\0\0\0\0", b"\xef\xbb\xbf0badcafe", b"<<<<<<< ours\n0badcafe\n=======\n")


def marker_of(root):
    return root / ".everindex" / "id"


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("own_state", [True, False])
def test_a_vault_whose_id_was_damaged_keeps_its_state_folder_and_gets_its_id_back(
    vault, tmp_path, caplog, damage, own_state
):
    state = tmp_path / "state" if own_state else None
    before = locate_vault(vault, state)
    marker_of(vault).write_bytes(damage)
    assert locate_vault(vault, state) == before
    assert marker_of(vault).read_text().strip() == before.identity.vault_id
    assert str(marker_of(vault)) in caplog.text


def test_an_id_that_was_damaged_before_this_version_is_found_by_the_path_alone(vault):
    before = locate_vault(vault, None)
    said = before.state / VAULT_FILE
    said.write_text(json.dumps({"root": str(vault), "id": before.identity.vault_id}))
    by_path = before.state.with_name(id_by_path(vault))  # what that version went on with
    by_path.mkdir()
    (by_path / VAULT_FILE).write_text(json.dumps({"root": str(vault), "id": by_path.name}))
    marker_of(vault).write_bytes(b"\0")
    assert locate_vault(vault, None) == before


def test_a_vault_whose_dot_folder_was_removed_keeps_its_state_folder(vault):
    before = locate_vault(vault, None)
    shutil.rmtree(marker_of(vault).parent)
    assert locate_vault(vault, None) == before


def test_another_vault_at_the_same_path_gets_a_state_folder_of_its_own(vault, tmp_path):
    before = locate_vault(vault, None)
    vault.rename(tmp_path / "moved")
    vault.mkdir()
    assert locate_vault(vault, None).state != before.state
    assert locate_vault(tmp_path / "moved", None).state == before.state


def test_a_damaged_id_of_a_vault_that_was_never_seen_is_refused_and_deleting_it_helps(vault):
    marker_of(vault).parent.mkdir()
    marker_of(vault).write_bytes(b"\0")
    with pytest.raises(VaultIdError, match="delete it"):
        locate_vault(vault, None)
    marker_of(vault).unlink()
    assert locate_vault(vault, None).identity.marked


@pytest.mark.parametrize("own_state", [True, False])
def test_looking_at_a_vault_that_was_never_indexed_writes_nothing(vault, tmp_path, own_state):
    (vault / "a.md").touch()
    with pytest.raises(NotFoundError, match="never indexed; run `everindex up"):
        locate_vault(vault, tmp_path / "state" if own_state else None, create=False)
    assert [path.name for path in vault.iterdir()] == ["a.md"]
    assert not (tmp_path / "state").exists()
    assert not state_home().exists()


@pytest.mark.parametrize("own_state", [True, False])
@pytest.mark.parametrize("damage", [None, b"\0"])
def test_looking_at_an_indexed_vault_finds_its_state_and_mends_nothing(vault, tmp_path, own_state, damage):
    state = tmp_path / "state" if own_state else None
    before = locate_vault(vault, state)
    if damage:
        marker_of(vault).write_bytes(damage)
    found = locate_vault(vault, state, create=False)
    assert (found.root, found.state, found.identity.vault_id) == (
        before.root,
        before.state,
        before.identity.vault_id,
    )
    assert not damage or marker_of(vault).read_bytes() == damage


def test_looking_at_a_copy_does_not_show_what_is_known_of_the_original(vault, tmp_path):
    locate_vault(vault, None)
    shutil.copytree(vault, tmp_path / "copy")
    with pytest.raises(NotFoundError, match="never indexed"):
        locate_vault(tmp_path / "copy", None, create=False)


def test_a_vault_at_the_path_of_another_ones_state_folder_was_never_indexed(vault, tmp_path):
    locate_vault(vault, tmp_path / "state")
    (tmp_path / "typo").mkdir()
    with pytest.raises(NotFoundError, match="never indexed"):
        locate_vault(tmp_path / "typo", tmp_path / "state", create=False)


@pytest.mark.parametrize("own_state", [True, False])
@pytest.mark.parametrize("mount_point", [True, False])
def test_looking_at_a_vault_that_is_moved_away_or_not_mounted_finds_its_state(
    vault, tmp_path, own_state, mount_point
):
    state = tmp_path / "state" if own_state else None
    before = locate_vault(vault, state)
    vault.rename(tmp_path / "moved")
    if mount_point:
        vault.mkdir()
    found = locate_vault(vault, state, create=False)
    assert (found.state, found.identity.vault_id) == (before.state, before.identity.vault_id)
    assert not mount_point or not list(vault.iterdir())
    if mount_point:
        vault.rmdir()
    (tmp_path / "moved").rename(vault)
    assert locate_vault(vault, state, create=False) == before


def test_using_a_vault_that_is_moved_away_says_so_and_what_to_do(vault, tmp_path):
    locate_vault(vault, None)
    vault.rename(tmp_path / "moved")
    with pytest.raises(VaultNotFoundError, match=r"not there: it was moved.*its index is kept"):
        locate_vault(vault, None)


@pytest.mark.parametrize("mount_point", [True, False])
def test_a_vault_that_is_not_mounted_keeps_its_domains(vault, tmp_path, mount_point):
    (vault / "Food").mkdir()
    (vault / "_domains.yaml").write_text("food: {path: Food}\n")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state"))
    assert [domain.slug for domain in resources.domains()] == ["food"]
    vault.rename(tmp_path / "moved")
    if mount_point:
        vault.mkdir()
    later = Resources(Settings(vault=vault, state=tmp_path / "state"), create=False)
    for one in (resources, later):
        assert not one.present()
        assert [domain.slug for domain in one.domains()] == ["food"]


# Threads


@pytest.fixture
def resources(vault, tmp_path):
    """What a process works with."""
    return Resources(Settings(vault=vault, state=tmp_path / "state"))


def say(resources, *names, role="worker"):
    for name in names:
        resources.processes().put(Process(name, role, "1", datetime.now(UTC).isoformat(), 1000))


def test_a_folder_that_took_the_vaults_place_is_known_from_then_on(resources, tmp_path):
    resources.root.rename(tmp_path / "old")
    resources.root.mkdir()
    assert not resources.present()
    (resources.root / "a.md").touch()
    assert resources.present()
    shutil.rmtree(resources.root / ".everindex")
    assert resources.present()
    assert [path.name for path in resources.root.iterdir()] == ["a.md"]


# Who holds a lease


@pytest.fixture
def leased(resources):
    """Return what leases the one note of the vault for an owner, and frees those of the dead."""
    (resources.root / "a.md").write_text("Compost for the tomato.")
    compare(resources)
    (cache,) = resources.caches().values()

    def freed(owner):
        assert cache.leases.take("words", 10, owner)
        cache.leases.free_those_of_the_dead(resources.is_at_work)
        return cache.leases.has_pending("words")

    return freed


def owner(name):
    return f"{name}#0badcafe"


def test_an_owner_that_lives_keeps_what_it_leased(resources, leased):
    (domain,) = resources.domains()
    assert not leased(resources.ingest(domain, resources.cache(domain)).owner)


@pytest.mark.parametrize("pid", [os.getpid(), os.getppid()], ids=["ours", "another's"])
def test_a_dead_owner_whose_process_id_was_given_again_keeps_nothing(leased, pid):
    assert leased(owner(f"{host()}:{pid}/1.00"))


def test_an_owner_of_an_earlier_version_keeps_nothing(leased):
    assert leased(f"{host()}:{os.getpid()}/0badcafe")


def test_an_owner_on_another_machine_keeps_its_leases_while_it_speaks(resources, leased):
    say(resources, "elsewhere:1/1.0")
    assert not leased(owner("elsewhere:1/1.0"))


def test_an_owner_on_another_machine_that_fell_silent_keeps_nothing(resources, leased):
    say(resources, "elsewhere:1/1.0")
    with connect(resources.place.state / STATE_FILE) as state:
        state.execute("UPDATE process SET uptime = uptime - 60")
    assert leased(owner("elsewhere:1/1.0"))


def test_a_command_on_another_machine_which_never_speaks_is_believed(leased):
    assert not leased(owner("elsewhere:1/1.0"))


# The log by note


def test_notes_are_indexed_and_the_log_says_so_with_model_and_pipeline(vault, tmp_path, tiny_model):
    (vault / "a.md").write_text("Bread and yeast.")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    entries = resources.stores.of(NoteLog).of_note("a.md", 5)
    meta = resources.cache(resources.domains()[0]).meta
    assert [entry.action for entry in entries] == ["embedded", "indexed"]
    assert {(entry.model, entry.pipeline) for entry in entries} == {(meta.model, meta.pipeline)}


def test_a_log_that_cannot_be_written_stops_no_note_and_is_reported(
    vault, tmp_path, tiny_model, capsys, caplog
):
    (vault / "a.md").write_text("Bread and yeast.")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    resources.state()._con.execute(
        "CREATE TRIGGER refused BEFORE INSERT ON note_log BEGIN SELECT no_such_column; END"
    )
    index_once(resources, lambda *_: None)
    assert resources.cache(resources.domains()[0]).counts().vectors == 1
    assert (
        "the log by note cannot be written; notes are indexed without it"
        in capsys.readouterr().out + caplog.text
    )
