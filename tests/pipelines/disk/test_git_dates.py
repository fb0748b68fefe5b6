"""The commit dates of a vault's files; a stranger's repository runs nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from pipelines.disk.git_dates import NO_DATES, read_git_dates
from pipelines.store.ledger import modified_at

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


def date_of(found, root, path):
    return found.date_of(path, modified_at((root / path).stat().st_mtime_ns))


def test_a_note_has_the_date_of_its_commit_until_its_file_is_modified(vault, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(vault), str(clone))
    found = read_git_dates(clone)
    assert date_of(found, clone, "Ordner/Über uns.md") == datetime.fromisoformat(LONG_AGO)
    assert found.date_of("unknown.md", modified_at(0)) is None
    os.utime(clone / "Ordner" / "Über uns.md", ns=(0, 0))
    assert date_of(found, clone, "Ordner/Über uns.md") is None


@pytest.mark.parametrize("way", [("checkout", "-q", "--detach"), ("pack-refs", "--all"), ("gc", "-q")])
def test_head_may_be_detached_and_everything_packed(vault, way):
    git(vault, *way)
    assert date_of(read_git_dates(vault), vault, "Ordner/Über uns.md") == datetime.fromisoformat(LONG_AGO)


def test_the_newest_commit_of_a_note_counts_and_nothing_is_read_twice(vault):
    before = read_git_dates(vault)
    assert read_git_dates(vault, before) is before
    note = vault / "Ordner" / "Über uns.md"
    note.write_text("About us, and them.")
    git(vault, "-c", "user.name=a", "add", ".")
    tree = git(vault, "write-tree")
    commit = git(vault, "cat-file", "commit", "HEAD").replace("1580702706", "1700000000")
    _, _, rest = commit.partition("\n")
    newer = git(
        vault,
        "hash-object",
        "-t",
        "commit",
        "-w",
        "--stdin",
        given=f"tree {tree}\nparent {before.head}\n{rest}\n",
    )
    git(vault, "update-ref", "HEAD", newer)
    after = read_git_dates(vault, before)
    assert date_of(after, vault, "Ordner/Über uns.md") == datetime.fromtimestamp(1700000000, UTC)


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
    assert date_of(read_git_dates(vault), vault, "Ordner/Über uns.md") == datetime.fromisoformat(LONG_AGO)
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
    found = read_git_dates(vault)
    assert not found.committed
    assert read_git_dates(vault, found) is found, "it is not tried again until HEAD is another one"


def test_a_folder_without_a_repository_gives_no_dates(tmp_path):
    assert read_git_dates(tmp_path) is NO_DATES
