import hashlib
import os
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.errors import (
    NameCollisionError,
    NotARegularFileError,
    NoteChangedError,
    NoteError,
    NoteTooLargeError,
    NoteUnreadableError,
    NoteVanishedError,
    VaultNotFoundError,
)
from pipelines.formats import OF_A_NEW_VAULT
from pipelines.vault import files as disk
from pipelines.vault.identity import identify
from pipelines.vault.ignore import IgnoreRules
from pipelines.vault.scan import Scan, scan_vault
from tests.racers import can_exchange, exchanging

LARGEST = 1_000_000


def write(root, raw, data=b"text"):
    path = root / raw
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def scan(root, folder=""):
    return scan_vault(root, IgnoreRules(root, (), ("",), lambda _path: OF_A_NEW_VAULT), folder)


def read(root, raw, largest=LARGEST):
    return disk.read(root, raw, largest)


def open_files(folder):
    """Return what this process has open in a folder: other tests' threads open files, too."""
    opened = (str(link.resolve()) for link in Path("/proc/self/fd").iterdir())
    return [path for path in opened if path.startswith(f"{folder}/")]


# Scan: what is a note


def test_files_with_the_suffix_of_a_format_are_notes_whatever_its_case(vault):
    for name in ("a.md", "b.MD", "c.markdown", "d.Markdown", "e.mdx", "f.txt", "md", "g.md.bak"):
        write(vault, name)
    assert set(scan(vault).notes) == {"a.md", "b.MD", "c.markdown", "d.Markdown", "f.txt"}


def test_a_folder_named_like_a_note_is_walked(vault):
    write(vault, "a.md/b.md")
    assert set(scan(vault).notes) == {"a.md/b.md"}


def test_notes_are_found_at_any_depth_with_what_stat_says(vault):
    path = write(vault, "a/b/c/d.md", b"12345")
    (found,) = scan(vault).notes.values()
    info = path.stat()
    assert (found.path, found.raw, found.size) == ("a/b/c/d.md", "a/b/c/d.md", 5)
    assert (found.mtime_ns, found.inode) == (info.st_mtime_ns, info.st_ino)


def test_one_folder_can_be_scanned_alone(vault):
    for raw in ("a.md", "b/c.md", "b/d/e.md", "bb/f.md"):
        write(vault, raw)
    assert set(scan(vault, "b").notes) == {"b/c.md", "b/d/e.md"}


def test_notes_in_ignored_folders_are_counted_with_the_rule(vault):
    for raw in (
        ".obsidian/plugins/x.md",
        ".trash/y.md",
        "a/.git/z.md",
        "@eaDir/s.md",
        "a/@eaDir/t/u.md",
        "n.md",
    ):
        write(vault, raw)
    found = scan(vault)
    assert set(found.notes) == {"n.md"}
    assert found.ignored == {
        ".obsidian/plugins/x.md": "dot-folder",
        ".trash/y.md": "dot-folder",
        "a/.git/z.md": "dot-folder",
        "@eaDir/s.md": "default rule @eaDir",
        "a/@eaDir/t/u.md": "default rule @eaDir",
    }


def test_scanning_an_ignored_folder_alone_still_ignores_it(vault):
    write(vault, "a/.trash/b/c.md")
    found = scan(vault, "a/.trash/b")
    assert (found.notes, found.ignored) == ({}, {"a/.trash/b/c.md": "dot-folder"})


def test_other_files_are_no_notes_but_a_link_may_mean_them_unless_they_are_hidden(vault):
    write(vault, "image.png")
    write(vault, "a/b.md.bak")
    write(vault, ".obsidian/app.json", b"{}")
    write(vault, "a/.hidden.pdf")
    assert scan(vault) == Scan(files={"image.png", "a/b.md.bak"})


def test_symbolic_links_are_not_followed(vault, tmp_path):
    write(tmp_path, "outside/secret.md")
    write(vault, "a/real.md")
    (vault / "file.md").symlink_to(tmp_path / "outside" / "secret.md")
    (vault / "folder").symlink_to(tmp_path / "outside")
    (vault / "inside.md").symlink_to("a/real.md")
    (vault / "broken.md").symlink_to("nowhere.md")
    (vault / "a" / "loop").symlink_to("..")
    found = scan(vault)
    assert set(found.notes) == {"a/real.md"}
    assert found.ignored == dict.fromkeys(("file.md", "inside.md", "broken.md"), "symlink (not followed)")


def test_what_is_no_regular_file_is_found_so_that_reading_can_park_it(vault):
    os.mkfifo(vault / "pipe.md")
    assert set(scan(vault).notes) == {"pipe.md"}


@pytest.mark.parametrize(
    "name",
    [
        "🌱 garden.md",
        "日记.md",
        'it\'s "quoted".md',
        "two\nlines.md",
        " .md",
        "a\\b.md",
        "100%?#[[x]].md",
        "-rf.md",
    ],
)
def test_any_name_is_found_and_read(vault, name):
    write(vault, f"{name} folder/{name}", b"body")
    ((path, found),) = scan(vault).notes.items()
    assert path == f"{name} folder/{name}"
    assert read(vault, found.raw).data == b"body"


def test_a_missing_vault_is_not_an_empty_one(vault):
    vault.rmdir()
    with pytest.raises(VaultNotFoundError, match="cannot be listed"):
        scan(vault)
    vault.write_text("a file")
    with pytest.raises(VaultNotFoundError, match="cannot be listed"):
        scan(vault)


def test_a_folder_that_cannot_be_listed_is_counted_and_the_others_are_scanned(public, as_nobody):
    write(public, "closed/a.md")
    write(public, "open/b.md")
    (public / "closed").chmod(0o700 if os.geteuid() == 0 else 0o000)
    found = as_nobody(scan, public)
    (public / "closed").chmod(0o700)
    assert set(found.notes) == {"open/b.md"}
    assert found.unreadable == ["closed"]


NAMES = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="/\0"), min_size=1, max_size=12
).filter(lambda name: name not in (".", ".."))


@given(names=st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=6))
@settings(max_examples=50)
def test_every_markdown_file_is_accounted_for_once(names):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for parts in names:
            # A suffix on folders, so that no name is both a file and a folder.
            write(root, "/".join([*(f"{part}.d" for part in parts[:-1]), f"{parts[-1]}.md"]))
        on_disk = [
            os.path.relpath(os.path.join(where, name), root)  # noqa: PTH118 - raw names, as they are
            for where, _, files in os.walk(root)
            for name in files
        ]
        found = scan(root)
        assert len(found.notes) + len(found.ignored) == len(on_disk)
        assert {file.raw for file in found.notes.values()} <= set(on_disk)
        assert all(found.notes[key].path == key for key in found.notes)


# Scan: Unicode forms and names that are no Unicode

NFC, NFD = "caf\u00e9.md", "cafe\u0301.md"


def test_the_key_is_the_composed_form_and_the_raw_name_opens_the_file(vault):
    write(vault, NFD, b"body")
    ((path, found),) = scan(vault).notes.items()
    assert (path, found.raw) == (NFC, NFD)
    content = read(vault, found.raw)
    assert (content.data, content.found.path, content.found.raw) == (b"body", NFC, NFD)


@pytest.mark.parametrize("folder", ["", "\u00e9t\u00e9/", "e\u0301te\u0301/"])
def test_two_files_with_one_key_are_kept_apart(vault, folder):
    write(vault, folder + NFC, b"one")
    write(vault, folder + NFD, b"two")
    found = scan(vault)
    assert {file.raw for file in found.notes.values()} == {folder + NFC, folder + NFD}
    assert [set(raws) for raws in found.collisions.values()] == [{folder + NFC, folder + NFD}]


def test_neither_of_two_files_with_one_key_is_read(vault):
    for name in (NFC, NFD):
        write(vault, name)
    for name in (NFC, NFD):
        with pytest.raises(NameCollisionError, match="rename one of them"):
            read(vault, name)


@pytest.mark.parametrize("folder", ["\u00e9t\u00e9/", "e\u0301te\u0301/"])
def test_neither_of_two_files_with_one_key_is_read_in_a_folder_with_accents(vault, folder):
    for name in (NFC, NFD):
        write(vault, folder + name)
    for name in (NFC, NFD):
        with pytest.raises(NameCollisionError):
            read(vault, folder + name)


def test_two_folders_with_one_key_keep_their_notes_apart(vault):
    first, second = "\u00e9t\u00e9/a.md", "e\u0301te\u0301/a.md"
    write(vault, first)
    write(vault, second)
    assert {file.raw for file in scan(vault).notes.values()} == {first, second}
    for raw in (first, second):
        with pytest.raises(NameCollisionError):
            read(vault, raw)


def test_a_name_in_one_form_is_no_collision(vault):
    for name in (NFC, NFD):
        write(vault, name)
        assert read(vault, name).data == b"text"
        (vault / name).unlink()


def test_names_in_mixed_forms_with_one_key_are_parked_by_read(vault):
    raws = ["\u00e9u\u0308.md", "e\u0301\u00fc.md"]
    for raw in raws:
        write(vault, raw)
    assert [sorted(found) for found in scan(vault).collisions.values()] == [sorted(raws)]
    for raw in raws:
        with pytest.raises(NameCollisionError):
            read(vault, raw)


def test_colliding_files_keep_the_size_that_each_has(vault):
    write(vault, NFC, b"1")
    write(vault, NFD, b"22")
    assert {file.raw: file.size for file in scan(vault).notes.values()} == {NFC: 1, NFD: 2}


def test_a_name_that_is_not_utf8_has_a_valid_key_and_its_raw_name_opens_it(vault):
    raw = os.fsdecode(b"caf\xe9.md")
    write(vault, raw, b"body")
    ((path, found),) = scan(vault).notes.items()
    assert (path, found.raw) == ("caf\\xe9.md", raw)
    assert read(vault, found.raw).data == b"body"


def test_two_names_that_are_not_utf8_are_both_kept(vault):
    raws = {os.fsdecode(b"caf\xe9.md"), os.fsdecode(b"caf\xe8.md")}
    for raw in raws:
        write(vault, raw)
    assert {file.raw for file in scan(vault).notes.values()} == raws


# Read


@given(data=st.binary(max_size=500))
@example(data=b"\xef\xbb\xbf\r\n text \0\n\n")
@settings(max_examples=50)
def test_the_hash_is_of_exactly_the_bytes_that_were_read(data):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        path = write(root, "a.md", data)
        content = read(root, "a.md")
        assert content.data == data
        assert content.sha256 == hashlib.sha256(data).hexdigest()
        info = path.stat()
        found = content.found
        assert (found.size, found.mtime_ns, found.inode) == (len(data), info.st_mtime_ns, info.st_ino)


def test_a_fifo_is_parked_not_read(vault):
    os.mkfifo(vault / "a.md")
    with pytest.raises(NotARegularFileError, match="not a regular file"):
        read(vault, "a.md")


def test_a_socket_is_parked_not_read(vault, monkeypatch):
    monkeypatch.chdir(vault)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.md")
        with pytest.raises(NotARegularFileError, match="not a regular file"):
            read(vault, "a.md")


def test_a_directory_is_parked_not_read(vault):
    (vault / "a.md").mkdir()
    with pytest.raises(NotARegularFileError, match="not a regular file"):
        read(vault, "a.md")


def test_a_symbolic_link_is_parked_even_if_it_stays_in_the_vault(vault):
    write(vault, "b.md")
    (vault / "a.md").symlink_to("b.md")
    with pytest.raises(NotARegularFileError, match="links are not followed"):
        read(vault, "a.md")


def test_a_path_that_leaves_the_vault_is_parked(vault, tmp_path):
    write(tmp_path, "outside/secret.md", b"secret")
    with pytest.raises(NotARegularFileError, match="leaves the vault"):
        read(vault, "../outside/secret.md")


@pytest.mark.parametrize("target", ["../outside", "inside"])
def test_what_lies_behind_a_link_is_parked_and_seen_as_no_note(vault, tmp_path, target):
    write(tmp_path, "outside/secret.md", b"secret")
    write(vault, "inside/secret.md", b"note")
    (vault / "folder").symlink_to(target)
    with pytest.raises(NotARegularFileError, match="links are not followed"):
        read(vault, "folder/secret.md")
    assert disk.look(vault, "folder/secret.md") is None


@pytest.mark.parametrize("raw", ["../outside/secret.md", "a\0.md", "\ud800.md", "/etc/passwd"])
def test_a_path_that_cannot_be_below_the_vault_is_no_note(vault, tmp_path, raw):
    write(tmp_path, "outside/secret.md", b"secret")
    assert disk.look(vault, raw) is None


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ("a/Soil.md", "a/Soil.md"),
        ("e\u0301/u\u0308.md", "\u00e9/\u00fc.md"),
        ("\u00e9/u\u0308.md", "\u00e9/\u00fc.md"),
        (os.fsdecode(b"a\xff.md"), "a\\xff.md"),
        ("a\\xff.md", "a\\x5cxff.md"),
    ],
)
def test_a_key_leads_to_the_file_on_disk_whatever_the_form_of_its_name(vault, raw, key):
    write(vault, raw)
    assert disk.disk_key(raw) == key
    assert disk.path_on_disk(vault, key) == raw


@pytest.mark.parametrize("raw", ["a/b", "e\u0301", "\u00e9/u\u0308", os.fsdecode(b"a\xff")])
def test_a_key_leads_to_the_folder_on_disk_whatever_the_form_of_its_name(vault, raw):
    (vault / raw).mkdir(parents=True)
    assert disk.path_on_disk(vault, disk.disk_key(raw)) == raw


def test_of_a_file_and_a_folder_whose_names_differ_only_in_form_another_form_means_the_file(vault):
    (vault / "e\u0301\u0308").mkdir()
    write(vault, "\u00e9\u0308")
    assert disk.path_on_disk(vault, disk.disk_key("e\u0301\u0308")) == "\u00e9\u0308"


def test_a_key_without_a_file_is_its_own_path(vault):
    assert disk.path_on_disk(vault, "\u00e9/\u00fc.md") == "\u00e9/\u00fc.md"


def test_a_new_file_belongs_in_the_folder_that_is_there_in_whichever_form(vault):
    (vault / "e\u0301" / "u\u0308").mkdir(parents=True)
    assert disk.path_on_disk(vault, "\u00e9/\u00fc/new.md") == "e\u0301/u\u0308/new.md"
    (vault / "\u00e9" / "\u00fc").mkdir(parents=True)
    assert disk.path_on_disk(vault, "\u00e9/\u00fc/new.md") == "\u00e9/\u00fc/new.md"
    (vault / "e\u0301" / "u\u0308" / "new.md").write_text("soil")
    assert disk.path_on_disk(vault, "\u00e9/\u00fc/new.md") == "e\u0301/u\u0308/new.md"


def test_of_two_files_whose_names_differ_only_in_form_a_key_means_the_one_that_has_it(vault):
    for raw in ("e\u0301.md", "\u00e9.md"):
        write(vault, raw)
        assert disk.path_on_disk(vault, raw) == raw


def test_a_second_form_of_a_folders_name_is_not_followed_out_of_the_vault(vault, tmp_path):
    write(tmp_path, "outside/e\u0301.md", b"secret")
    write(vault, "e\u0301/\u00e9.md", b"note")
    (vault / "\u00e9").symlink_to(tmp_path / "outside")
    assert disk.twins(vault, "e\u0301/\u00e9.md") == []


@pytest.mark.skipif(not can_exchange(), reason="names cannot be exchanged here")
def test_a_folder_that_is_exchanged_with_a_link_while_it_is_read_never_shows_what_is_outside(vault, tmp_path):
    write(tmp_path, "outside/a.md", b"secret")
    write(vault, "folder/a.md", b"note")
    (vault / "link").symlink_to(tmp_path / "outside")
    said = {"read": 0, "refused": 0}
    with exchanging(vault / "folder", vault / "link"):
        until = time.monotonic() + 60
        while (sum(said.values()) < 5_000 or not all(said.values())) and time.monotonic() < until:
            try:
                assert read(vault, "folder/a.md").data == b"note"
                said["read"] += 1
            except NoteError:
                said["refused"] += 1
    assert all(said.values())


def test_an_absolute_path_is_parked(vault, tmp_path):
    secret = write(tmp_path, "secret.md")
    with pytest.raises(NotARegularFileError, match="leaves the vault"):
        read(vault, str(secret))


def test_a_note_of_the_largest_size_is_read_and_a_larger_one_is_parked(vault):
    write(vault, "a.md", b"x" * 1000)
    assert len(read(vault, "a.md", 1000).data) == 1000
    with pytest.raises(NoteTooLargeError, match="max_note_mb"):
        read(vault, "a.md", 999)


def test_a_note_that_may_not_be_read_is_parked_and_a_retry_may_help(public, as_nobody):
    write(public, "a.md").chmod(0o200)
    with pytest.raises(NoteUnreadableError, match="check its permissions") as caught:
        as_nobody(read, public, "a.md")
    assert caught.value.retry_helps


@pytest.mark.parametrize("raw", ["a.md", "folder/a.md", "file.txt/a.md"])
def test_a_note_that_is_gone_has_vanished(vault, raw):
    write(vault, "file.txt")
    with pytest.raises(NoteVanishedError):
        read(vault, raw)


def test_a_name_that_is_too_long_is_parked(vault):
    with pytest.raises(NoteUnreadableError):
        read(vault, "x" * 300 + ".md")


def test_a_note_that_is_written_to_while_it_is_read_is_never_half_read(vault):
    path = write(vault, "a.md", b"x" * 2_000_000)
    stop = threading.Event()

    def append():
        with path.open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"y" * 1000)
                if file.tell() > 20_000_000:
                    file.truncate(2_000_000)

    writer = threading.Thread(target=append)
    writer.start()
    changed = 0
    try:
        for _ in range(500):
            try:
                content = read(vault, "a.md", 100_000_000)
            except NoteChangedError:
                changed += 1
                break
            assert content.found.size == len(content.data)
            assert content.sha256 == hashlib.sha256(content.data).hexdigest()
    finally:
        stop.set()
        writer.join()
    assert changed


def test_reading_leaves_no_open_file_behind(vault):
    write(vault, "large.md", b"x" * 100)
    os.mkfifo(vault / "pipe.md")
    for raw in ("large.md", "pipe.md", "gone.md"):
        with pytest.raises((NotARegularFileError, NoteTooLargeError, NoteVanishedError)):
            read(vault, raw, 10)
    assert open_files(vault) == []


def test_reading_a_directory_leaves_no_open_file_behind(vault):
    (vault / "a.md").mkdir()
    with pytest.raises((NotARegularFileError, IsADirectoryError)):
        read(vault, "a.md")
    assert open_files(vault) == []


def test_looking_at_a_file_says_what_reading_it_would_say(vault):
    write(vault, "a.md")
    assert disk.look(vault, "a.md") == read(vault, "a.md").found == scan(vault).notes["a.md"]
    assert disk.look(vault, "b.md") is None


# Presence


@pytest.mark.parametrize("marked", [True, False])
def test_an_empty_folder_in_the_vaults_place_is_not_the_vault(vault, tmp_path, marked):
    if not marked:
        write(vault, ".everindex", b"")
    identity = identify(vault)
    assert identity.marked == marked
    assert disk.find(vault, identity)
    vault.rename(tmp_path / "unmounted")
    assert not disk.find(vault, identity)
    vault.mkdir()
    assert not disk.find(vault, identity)
    vault.rmdir()
    (tmp_path / "unmounted").rename(vault)
    assert disk.find(vault, identity)


def test_another_vault_in_its_place_is_not_the_vault(vault, tmp_path):
    identity = identify(vault)
    vault.rename(tmp_path / "unmounted")
    vault.mkdir()
    identify(vault)
    assert not disk.find(vault, identity)


def test_a_vault_that_was_restored_to_a_new_folder_with_its_marker_is_present(vault, tmp_path):
    identity = identify(vault)
    shutil.copytree(vault, tmp_path / "restored")
    vault.rename(tmp_path / "old")
    (tmp_path / "restored").rename(vault)
    assert vault.stat().st_ino != identity.inode
    assert disk.find(vault, identity)


@pytest.mark.parametrize("damage", [None, b"", b"<<<<<<< HEAD\n", "fifo", "link"])
def test_a_vault_whose_id_file_is_lost_or_damaged_while_it_runs_is_still_there_and_nothing_is_written(
    vault, tmp_path, damage
):
    write(vault, "a.md")
    identity = identify(vault)
    marker = vault / ".everindex/id"
    marker.unlink()
    if damage == "fifo":
        os.mkfifo(marker)
    elif damage == "link":
        marker.symlink_to(tmp_path / "outside")
    elif damage is not None:
        marker.write_bytes(damage)
    before = [(path, path.lstat()) for path in sorted(vault.rglob("*"))]
    assert disk.find(vault, identity) == identity
    assert [(path, path.lstat()) for path in sorted(vault.rglob("*"))] == before
    assert not (tmp_path / "outside").exists()


def test_a_vault_that_is_being_removed_gets_no_id_back(vault):
    write(vault, "a/b.md")
    write(vault, "c.md")
    identity = identify(vault)
    shutil.rmtree(vault / ".everindex")
    for path in ("a/b.md", "c.md"):
        assert disk.find(vault, identity)
        (vault / path).unlink()
    assert disk.find(vault, identity) is None
    (vault / "a").rmdir()
    vault.rmdir()


def test_a_folder_with_notes_that_took_the_vaults_place_gets_its_id_once(vault, tmp_path):
    identity = identify(vault)
    vault.rename(tmp_path / "old")
    write(tmp_path, "vault/a.md")
    found = disk.find(vault, identity)
    assert found
    assert found.vault_id == identity.vault_id
    assert found.inode == vault.stat().st_ino
    assert identify(vault) == found
    shutil.rmtree(vault / ".everindex")
    assert disk.find(vault, found)
    assert not (vault / ".everindex").exists()


def test_hidden_notes_behind_a_link_or_in_a_dot_folder_make_no_vault(vault, tmp_path):
    identity = identify(vault)
    vault.rename(tmp_path / "old")
    write(tmp_path, "outside/a.md")
    write(tmp_path, "vault/.trash/a.md")
    (vault / "link").symlink_to(tmp_path / "outside")
    assert disk.find(vault, identity) is None


def test_an_empty_folder_that_got_the_vaults_inode_is_not_the_vault(vault):
    for _ in range(100):
        identity = identify(vault)
        shutil.rmtree(vault)
        vault.mkdir()
        if vault.stat().st_ino == identity.inode:
            assert not disk.find(vault, identity)
            return
    pytest.skip("this file system does not reuse inodes")


@pytest.mark.parametrize("name", [".a.md.0123abcd.tmp", ".everindex-0123456789abcdef.tmp"])
def test_what_is_written_beside_is_never_a_note(name):
    assert not disk.is_note(name)
