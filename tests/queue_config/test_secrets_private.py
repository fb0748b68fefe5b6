"""The state folder and its secrets are their owner's alone, or refused with what to do."""

from __future__ import annotations

import os
import re
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_config.secrets import (
    QUEUE_KEY,
    TOKEN,
    NotPrivateError,
    check_secrets,
    read_secret,
    secure_folder,
    write_secret,
)

SECRETS = pytest.mark.parametrize("secret", [TOKEN, QUEUE_KEY], ids=lambda one: one.name)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
NOBODY = 65_534
MARK = "vault.json"


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


# Secrets


@SECRETS
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_secret_is_made_once_and_is_its_owners_alone(tmp_path, secret, umask):
    before = os.umask(umask)
    try:
        made = read_secret(tmp_path, secret)
    finally:
        os.umask(before)
    assert read_secret(tmp_path, secret) == made
    assert mode(tmp_path / secret.name) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [secret.name]


def test_a_secret_that_is_there_is_never_overwritten(tmp_path):
    write_secret(tmp_path / "token", "first")
    write_secret(tmp_path / "token", "second")
    assert (tmp_path / "token").read_text() == "first\n"
    assert [file.name for file in tmp_path.iterdir()] == ["token"]


def folder(path):
    path.mkdir()


def link(path):
    target = path.with_name("elsewhere")
    write_secret(target, "0" * 64)
    path.symlink_to(target)


def nowhere(path):
    path.symlink_to("nowhere")


def fifo(path):
    os.mkfifo(path, 0o600)


def of_mode(bits):
    def make(path):
        path.write_text("0" * 64)
        path.chmod(bits)

    return make


@SECRETS
@pytest.mark.parametrize(
    "make", [folder, link, nowhere, fifo, of_mode(0o644), of_mode(0o640), of_mode(0o602), of_mode(0o666)]
)
def test_what_is_not_a_private_file_is_refused_and_deleting_it_helps(tmp_path, secret, make):
    path = tmp_path / secret.name
    make(path)
    for check in (lambda: read_secret(tmp_path, secret), lambda: check_secrets(tmp_path)):
        with pytest.raises(NotPrivateError, match=f"{re.escape(str(path))} .*delete it"):
            check()
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()
    check_secrets(tmp_path)
    assert secret.form.fullmatch(read_secret(tmp_path, secret))


@SECRETS
@given(data=st.one_of(st.binary(max_size=200), st.sampled_from([b"", b"\n", b"00", b"\xff" * 64, b" " * 64])))
@settings(max_examples=100)
def test_only_bytes_that_have_the_secrets_form_are_one(tmp_path_factory, secret, data):
    state = tmp_path_factory.mktemp("state")
    (state / secret.name).write_bytes(data)
    (state / secret.name).chmod(0o600)
    try:
        found = read_secret(state, secret)
    except NotPrivateError:
        return
    assert found.encode() == data.strip()
    assert len(found) >= 20


@as_root
@SECRETS
def test_a_secret_of_another_user_is_refused(tmp_path, secret):
    path = tmp_path / secret.name
    write_secret(path, "0" * 64)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(NotPrivateError, match="belongs to"):
        read_secret(tmp_path, secret)


# The folder


@pytest.fixture
def state(tmp_path):
    """A state folder with something in it, everything open to others."""
    state = tmp_path / "state"
    (state / "logs").mkdir(parents=True)
    (tmp_path / "outside").write_text("not ours")
    (tmp_path / "outside").chmod(0o644)
    for name in (MARK, "cache-vault.1.db", "cache-vault.1.db-wal", "logs/query.log"):
        (state / name).write_text("x")
        (state / name).chmod(0o666)
    (state / "linked").symlink_to(tmp_path / "outside")
    (state / "logs").chmod(0o777)
    state.chmod(0o755)
    return state


@pytest.mark.parametrize("bits", [0o755, 0o777, 0o711, 0o770, 0o705, 0o700, 0o2755])
def test_a_folder_of_ours_is_closed_to_others_and_so_is_all_in_it(state, vault, bits):
    state.chmod(bits)
    secure_folder(state, MARK, vault=vault)
    assert mode(state) & 0o777 == 0o700
    assert mode(state / "logs") == 0o700
    assert {mode(file) for file in state.rglob("*") if file.is_file() and not file.is_symlink()} == {0o600}
    assert mode(state.parent / "outside") == 0o644


def test_an_open_folder_with_other_things_in_it_is_left_as_it_is(state, vault):
    (state / MARK).unlink()
    with pytest.raises(NotPrivateError, match="--state"):
        secure_folder(state, MARK, vault=vault)
    assert mode(state) == 0o755
    assert mode(state / "logs") == 0o777


def test_a_folder_where_everybody_may_write_is_not_taken_from_them(state, vault):
    state.chmod(0o1777)
    with pytest.raises(NotPrivateError, match="--state"):
        secure_folder(state, MARK, vault=vault)
    assert mode(state) == 0o1777


def test_an_empty_folder_becomes_ours(tmp_path, vault):
    (tmp_path / "new").mkdir(mode=0o777)
    secure_folder(tmp_path / "new", MARK, vault=vault)
    assert mode(tmp_path / "new") == 0o700


@as_root
def test_a_folder_of_another_user_is_refused(state, vault):
    os.chown(state, NOBODY, NOBODY)
    with pytest.raises(NotPrivateError, match=r"belongs to.*--state"):
        secure_folder(state, MARK, vault=vault)
    assert mode(state) == 0o755


@as_root
@pytest.mark.parametrize("name", [MARK, "state.db", "logs/worker.log", "linked"])
def test_what_another_user_left_in_the_folder_is_refused(state, vault, name):
    if not os.path.lexists(state / name):
        (state / name).write_text("planted")
    os.chown(state / name, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(NotPrivateError):
        secure_folder(state, MARK, vault=vault)


@as_root
def test_root_works_in_the_folder_of_the_user_whose_vault_it_is_and_takes_nothing_from_him(state, vault):
    for path in (vault, state, *state.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    (state / "roots.log").write_text("made by an earlier command")
    secure_folder(state, MARK, vault=vault)
    assert mode(state) == 0o700
    assert state.stat().st_uid == (state / MARK).stat().st_uid == NOBODY
