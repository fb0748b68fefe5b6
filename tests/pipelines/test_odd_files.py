"""Odd files and folders affect no other file: times, inodes, names, depth, permissions."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from datetime import datetime
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.formats import OF_A_NEW_VAULT
from pipelines.vault import files as disk
from pipelines.vault import scan as vault_scan
from pipelines.vault.files import disk_key, found_file, note_key, own_key
from pipelines.vault.ignore import DEEPEST_FOLDER, IgnoreRules
from pipelines.vault.scan import scan_vault

YEARS = {"1600": -11676096000, "1969": -1, "2262": 9223372037, "2300": 10413792000, "9999": 253402300799}
LARGEST = 2**63 - 1


def rules(root):
    return IgnoreRules(root, (), ("",), lambda _path: OF_A_NEW_VAULT)


def scan(root):
    return scan_vault(root, rules(root))


def paths(house):
    return sorted(path for (path,) in house.cache.con.execute("SELECT path FROM vault_node").fetchall())


# Times, inodes, sizes


@pytest.mark.parametrize("seconds", [*YEARS.values(), 10**11, -(10**11), 10**13], ids=str)
def test_a_file_of_any_time_is_indexed_and_stops_no_other(house, seconds):
    house.write("a.md", "Compost.")
    odd = house.write("odd.md", "Gardens.")
    try:
        os.utime(odd, ns=(seconds * 10**9 + 7, seconds * 10**9 + 7))
    except (OSError, OverflowError):
        pytest.skip("this file system has no such time")
    house.index()
    assert paths(house) == ["a.md", "odd.md"]
    assert house.reconcile().plain()["unchanged"] == 2
    house.save("b.md", "Saved beside it.")
    assert paths(house) == ["a.md", "b.md", "odd.md"]
    modified = house.cache.con.execute("SELECT modified_at FROM vault_node WHERE path = 'odd.md'").fetchone()
    assert datetime.fromisoformat(modified[0])
    odd.write_text("Other gardens.")
    os.utime(odd, ns=(seconds * 10**9 + 8, seconds * 10**9 + 8))
    assert house.notice("odd.md").updated == 1


@given(
    size=st.integers(0, LARGEST),
    mtime=st.one_of(
        st.integers(-(2**80), 2**80), st.sampled_from([-LARGEST - 2, -LARGEST - 1, LARGEST, LARGEST + 1])
    ),
    inode=st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([LARGEST, LARGEST + 1, 2**64 - 1])),
)
def test_whatever_stat_says_can_be_kept_and_shown(size, mtime, inode):
    found = found_file("a.md", "a.md", SimpleNamespace(st_size=size, st_mtime_ns=mtime, st_ino=inode))
    assert all(-LARGEST - 1 <= number <= LARGEST for number in (found.size, found.mtime_ns, found.inode))
    assert 1677 <= datetime.fromtimestamp(found.mtime_ns / 1e9).astimezone().year <= 2262
    if -LARGEST <= mtime <= LARGEST:
        assert found.mtime_ns == mtime
    else:
        later = found_file("a.md", "a.md", SimpleNamespace(st_size=size, st_mtime_ns=mtime + 1, st_ino=inode))
        assert later.mtime_ns != found.mtime_ns


@given(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=20))
def test_two_inodes_stay_two(inodes):
    kept = [
        found_file("a.md", "a.md", SimpleNamespace(st_size=1, st_mtime_ns=1, st_ino=inode)).inode
        for inode in inodes
    ]
    assert len(set(kept)) == len(inodes)


def test_a_number_that_sqlite_cannot_keep_stops_no_other_note(house, monkeypatch):
    house.write("a.md", "Compost.")
    house.write("odd.md", "Gardens.")
    plain = os.DirEntry
    real = vault_scan._add_note

    def odd_stat(entry, raw, *rest):
        class Entry:
            name = entry.name

            def stat(self, *, follow_symlinks):
                info = entry.stat(follow_symlinks=follow_symlinks)
                return SimpleNamespace(
                    st_size=info.st_size, st_mode=info.st_mode, st_mtime_ns=2**70, st_ino=2**64 - 3
                )

        assert isinstance(entry, plain)
        real(Entry() if raw == "odd.md" else entry, raw, *rest)

    monkeypatch.setattr(vault_scan, "_add_note", odd_stat)
    house.index()
    assert paths(house) == ["a.md", "odd.md"]


# Names


NAMES = st.one_of(
    st.binary(min_size=1, max_size=20).map(lambda data: data.replace(b"/", b"").replace(b"\0", b"")),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "ignore").replace(b"/", b"").replace(b"\0", b"")),
    st.lists(
        st.sampled_from([b"\\", b"x", b"5c", b"ff", b"\xff", b"\\xff", b"\\x5c", b"8", b"\xc3", b"\xc3\xa9", b" "]),
        max_size=6,
    ).map(b"".join),
    st.sampled_from([b"\x1b[2J", b"\xe2\x80\xae", b"a ", b" a", b"a\n", "é".encode(), "e\u0301".encode(), b"n" * 240]),
)  # fmt: skip


@given(NAMES, NAMES)
@example(b"bad\xff", b"bad\\xff")
@example(b"bad\\xff", b"bad\\x5cxff")
@example(b"\\\xff", b"\\\\xff")
def test_two_names_never_share_a_key(one, other):
    keys = [own_key(os.fsdecode(name)) for name in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)
    for name in (one, other):
        key = disk_key(os.fsdecode(name))
        key.encode()  # it is valid Unicode
        assert note_key(key) == key == unicodedata.normalize("NFC", key)


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems have no such names")
def test_a_name_that_looks_like_bytes_and_one_that_has_them_are_two_notes(house):
    house.write(os.fsdecode(b"bad\xff.md"), "Compost.")
    house.write("bad\\xff.md", "Gardens.")
    house.index()
    assert len(paths(house)) == 2
    for _ in range(3):
        report = house.reconcile()
        assert (report.unchanged, report.events) == (2, [])
    house.save("bad\\xff.md", "Other gardens.")
    assert house.reconcile().unchanged == 2


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
@settings(max_examples=40)
def test_every_file_is_accounted_for_whatever_its_name(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("vault")
    made = set()
    for name in [*names, b"plain"]:
        file = root / os.fsdecode(name[:240] + b".md")
        try:
            file.touch()
            made.add(os.fsencode(file.name))
        except OSError:
            continue  # this file system has no such name
    found = scan(root)
    assert {os.fsencode(file.raw) for file in found.notes.values()} | {
        name for name in made if disk_key(os.fsdecode(name)) in found.ignored
    } == made
    assert len(found.notes) + len(found.ignored) == len(made)
    for file in found.notes.values():
        assert disk.look(root, file.raw) is not None


# Depth


@pytest.fixture
def nest():
    """Make folders in each other, deeper than a path can be long, with notes at some depths."""
    made = []

    def make(root, depth, note_at=()):
        made.append(root / "d")
        at = os.open(root, os.O_RDONLY)
        for level in range(1, depth + 1):
            os.mkdir("d", dir_fd=at)
            above, at = at, os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(above)
            if level in note_at:
                note = os.open("n.md", os.O_WRONLY | os.O_CREAT, dir_fd=at)
                os.write(note, f"At depth {level}.".encode())
                os.close(note)
        os.close(at)

    yield make
    # pytest's own way is by recursion.
    subprocess.run(["rm", "-rf", *made], check=True)


@pytest.mark.parametrize("depth", [DEEPEST_FOLDER, DEEPEST_FOLDER + 1, 1_200, 5_000])
def test_folders_nested_too_deep_are_named_and_all_else_is_found(vault, nest, depth):
    (vault / "a.md").write_text("Compost.")
    nest(vault, depth, {1, DEEPEST_FOLDER, DEEPEST_FOLDER + 1})
    found = scan(vault)
    inside = ["d/n.md", f"{'d/' * DEEPEST_FOLDER}n.md"]
    assert set(found.notes) == {"a.md", *inside}
    deep = "/".join("d" * (DEEPEST_FOLDER + 1))
    expected = {deep: IgnoreRules.TOO_DEEP} if depth > DEEPEST_FOLDER else {}
    assert found.ignored == expected
    for path in (f"{deep}/n.md", f"{deep}/{'d/' * 3_000}n.md"):
        assert rules(vault).for_file(path) == IgnoreRules.TOO_DEEP
    assert rules(vault).for_file(inside[1]) is None


def test_folders_nested_too_deep_cause_a_complaint_and_their_notes_leave_the_index(house, nest, monkeypatch):
    nest(house.root, 4, {1, 4})
    house.index()
    assert len(paths(house)) == 2
    monkeypatch.setattr("pipelines.vault.ignore.DEEPEST_FOLDER", 3)
    monkeypatch.setattr("pipelines.vault.scan.DEEPEST_FOLDER", 3)
    report = house.reconcile()
    assert (report.removed, report.held, report.ignored) == (1, 0, 1)
    (complaint,) = report.complaints
    assert "'d/d/d/d'" in complaint
    house.drain()
    assert paths(house) == ["d/n.md"]
    assert house.notice("d/d/d/d").complaints == [complaint]


# Permissions


def test_notes_in_a_folder_that_may_not_be_read_are_kept_and_complained_of(house, as_nobody, public):
    house.root = public
    house.write("in/a.md", "Kept.")
    house.write("b.md", "Beside.")
    house.index()
    for mode in (0o000, 0o444):  # neither listed nor entered; listed, but not entered
        (public / "in").chmod(mode)
        try:
            for report in (as_nobody(house.reconcile), as_nobody(house.notice, "in", "in/a.md")):
                assert (report.removed, report.held) == (0, 0), oct(mode)
                assert any("'in'" in complaint for complaint in report.complaints)
        finally:
            (public / "in").chmod(0o755)
    assert house.reconcile().complaints == []
    house.drain()
    assert paths(house) == ["b.md", "in/a.md"]


# A note and a folder of one name


def test_a_note_replaced_by_a_folder_of_its_name_is_gone(house):
    house.save("n1.md", "Compost.")
    (house.root / "n1.md").unlink()
    (house.root / "n1.md").mkdir()
    assert disk.look(house.root, "n1.md") is None
    assert house.notice("n1.md").removed == 1
    house.write("n1.md/inner.md", "Gardens.")
    house.notice("n1.md")
    house.drain()
    assert paths(house) == ["n1.md/inner.md"]
    assert house.picture() == house.scratch_picture()


def test_a_folder_replaced_by_a_note_of_its_name_takes_its_notes_along(house):
    house.save("n1.md/inner.md", "Gardens.")
    (house.root / "n1.md/inner.md").unlink()
    (house.root / "n1.md").rmdir()
    house.save("n1.md", "Compost.")
    house.drain()
    assert paths(house) == ["n1.md"]
    assert house.picture() == house.scratch_picture()
