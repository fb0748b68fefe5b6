"""The commit dates of a vault's files; a stranger's repository runs nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import datetime

import pytest

from pipelines.vault.git_dates import GitFile, head_commit, read_git_dates

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
LONG_AGO = "2020-02-03T04:05:06+00:00"
IDENTITY = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder, *arguments, given=None):
    env = os.environ | IDENTITY | {"GIT_COMMITTER_DATE": LONG_AGO, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=env, input=given, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def vault(tmp_path):
    """A vault with two notes that were committed long ago, and whose files are new."""
    root = tmp_path / "vault"
    (root / "Ordner").mkdir(parents=True)
    (root / "Ordner" / "Über uns.md").write_text("About us.")
    (root / "odd\x01name\n.md").write_text("Odd.")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


NOTE = "Ordner/Über uns.md"
THEN = datetime.fromisoformat(LONG_AGO).timestamp()


def dates(root):
    return read_git_dates(root, head_commit(root))


def commit(root, at):
    """Commit what is in the folder at a time in seconds."""
    git(root, "add", ".")
    tree = git(root, "write-tree")
    head = git(root, "rev-parse", "HEAD")
    lines = git(root, "cat-file", "commit", head).splitlines()
    rest = "\n".join(
        re.sub(r"> \d+ ", f"> {at} ", line) for line in lines if line[:5] not in ("tree ", "paren")
    )
    newer = git(
        root, "hash-object", "-t", "commit", "-w", "--stdin", given=f"tree {tree}\nparent {head}\n{rest}\n"
    )
    git(root, "update-ref", "HEAD", newer)


def test_a_clone_knows_the_commits_of_a_note_and_the_time_of_its_file(vault, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(vault), str(clone))
    found = dates(clone)
    assert found.keys() == {NOTE, "odd\x01name\n.md"}
    assert found[NOTE] == GitFile(THEN, THEN, int((clone / NOTE).stat().st_mtime))


@pytest.mark.parametrize("way", [("checkout", "-q", "--detach"), ("pack-refs", "--all"), ("gc", "-q")])
def test_head_may_be_detached_and_everything_packed(vault, way):
    git(vault, *way)
    assert dates(vault)[NOTE].changed == THEN


def test_the_first_and_the_last_commit_of_a_note_are_known(vault):
    (vault / NOTE).write_text("About us, and them.")
    (vault / "later.md").write_text("Later.")
    commit(vault, 1_700_000_000)
    found = dates(vault)
    assert (found[NOTE].created, found[NOTE].changed) == (THEN, 1_700_000_000)
    assert (found["later.md"].created, found["later.md"].changed) == (1_700_000_000, 1_700_000_000)


def test_a_note_that_was_moved_keeps_its_first_commit_and_its_old_name_is_free(vault):
    (vault / NOTE).rename(vault / "Us.md")
    commit(vault, 1_700_000_000)
    (vault / NOTE).write_text("Something else.")
    (vault / "Us.md").rename(vault / "Us again.md")
    commit(vault, 1_710_000_000)
    found = dates(vault)
    assert (found["Us again.md"].created, found["Us again.md"].changed) == (THEN, 1_710_000_000)
    assert found[NOTE].created == 1_710_000_000


def test_nothing_that_a_repository_names_is_run(vault, tmp_path):
    canary, script = tmp_path / "canary", tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {canary}\n")
    script.chmod(0o700)
    # A commit that says that it is signed, so that `log.showSignature` has it checked.
    head, _, message = git(vault, "cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n a\n -----END PGP SIGNATURE-----"
    signed = git(
        vault, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{head}\n{signature}\n\n{message}\n"
    )
    git(vault, "update-ref", "HEAD", signed)
    settings = (
        "core.fsmonitor",
        "core.pager",
        "gpg.program",
        "diff.external",
        "core.sshCommand",
        "alias.log",
    )
    for setting in (*settings, "filter.x.clean", "diff.x.textconv"):
        git(vault, "config", setting, str(script))
    git(vault, "config", "log.showSignature", "true")
    (vault / ".gitattributes").write_text("* filter=x diff=x\n")
    git(vault, "-c", "core.fsmonitor=false", "log", "-1", "--no-show-signature")
    assert not canary.exists()
    assert dates(vault)[NOTE].changed == THEN
    assert not canary.exists()
    git(vault, "-c", "core.fsmonitor=false", "log", "-1")
    assert canary.exists(), "the repository was harmless"


def borrow(root):
    (root / ".git" / "objects" / "info" / "alternates").write_text("/elsewhere/objects")


def link(root):
    (root / ".git" / "objects" / "ff").symlink_to("/etc")


def fifo(root):
    os.mkfifo(root / ".git" / "objects" / "pack" / "pack-1.idx")


def point_outside(root):
    (root / ".git" / "HEAD").write_text("ref: ../../other/HEAD")


def damage(root):
    for file in (root / ".git" / "objects").rglob("*/*"):
        file.chmod(0o600)
        file.write_bytes(b"no object")


def link_git(root):
    (root / ".git").rename(root.parent / "git")
    (root / ".git").symlink_to(root.parent / "git")


@pytest.mark.parametrize("act", [borrow, link, fifo, point_outside, damage, link_git])
def test_a_repository_that_leads_elsewhere_or_is_damaged_gives_no_dates(vault, act):
    act(vault)
    assert dates(vault) == {}


def test_a_folder_without_a_repository_gives_no_dates(tmp_path):
    assert (head_commit(tmp_path), dates(tmp_path)) == ("", {})
