"""A file is replaced only if it still is what was read, and no byte of another writer is lost."""

import base64
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from pipelines.errors import (
    NotARegularFileError,
    NoteError,
    NoteUnreadableError,
    NoteVanishedError,
    StateError,
)
from pipelines.vault import in_folder
from pipelines.vault import write as later
from pipelines.vault import write as room
from pipelines.vault.write import KEPT_S, leftovers, settle
from tests.racers import can_exchange, exchanging
from tests.temporary import on_another_system

ROUNDS = int(os.environ.get("EVERINDEX_RACE_ROUNDS", "300"))
LATER = KEPT_S + 1


@pytest.fixture
def note(vault):
    path = vault / "note.md"
    path.write_bytes(b"old")
    return path


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "state" / "displaced"


@pytest.fixture(params=["exchange", "links", "no links"])
def system(request, monkeypatch):
    """What the file system can do: exchange two files, link one, or neither."""
    if request.param != "exchange":
        monkeypatch.setattr(in_folder, "rename", lambda *_, **__: False)
    if request.param == "no links":
        monkeypatch.setattr(in_folder, "link", refuse)
    return request.param


on_every_system = pytest.mark.usefixtures("system")


def refuse(*_):
    raise PermissionError(1, "Operation not permitted")


def exchange(path, read, new, kept):
    """Exchange a file of the vault that its state folder lies beside."""
    root = kept.parent.parent / "vault"
    return room.replace_if_unchanged(root, path.relative_to(root).as_posix(), read, new, kept)


def late_writes(kept, now):
    return later.late_writes(kept.parent.parent / "vault", kept, now)


def beside(path):
    return [p.name for p in path.parent.iterdir() if p.name.startswith(".everindex-")]


def make_quiet(folder):
    for path in [*folder.rglob("*"), *folder.rglob(".*")]:
        os.utime(path, (1, 1))


def lates(kept, later=0.0):
    make_quiet(kept)
    return late_writes(kept, time.monotonic() + later)


def during(monkeypatch, *acts):
    """Run each of `acts`, in turn, right before one exchange of names."""
    waiting = list(acts)
    swap = room._swap

    def act_and_swap(*names):
        if waiting:
            waiting.pop(0)()
        swap(*names)

    monkeypatch.setattr(room, "_swap", act_and_swap)


def save_by_renaming(path, data):
    other = path.with_name("editor.swp")
    other.write_bytes(data)
    other.replace(path)


# Removal


@on_every_system
def test_a_file_is_removed_if_it_is_as_it_was_read_and_kept_for_a_while(note, kept, vault):
    assert room.remove_if_unchanged(vault, note.name, b"old", kept) is None
    assert list(vault.iterdir()) == []
    assert [one.read_bytes() for one in kept.glob("*.kept")] == [b"old"]
    assert lates(kept, LATER) == []
    assert list(kept.iterdir()) == []


@on_every_system
@pytest.mark.parametrize("save", [Path.write_bytes, save_by_renaming])
def test_a_file_that_is_saved_while_it_is_removed_stays(note, kept, vault, monkeypatch, save):
    move, saves = in_folder.move, [b"theirs"]

    def late(*names):
        if saves:
            save(note, saves.pop())
        move(*names)

    monkeypatch.setattr(in_folder, "move", late)
    assert room.remove_if_unchanged(vault, note.name, b"old", kept) == b"theirs"
    assert note.read_bytes() == b"theirs"
    assert beside(note) == []


@on_every_system
def test_of_two_saves_while_a_file_is_removed_the_later_stays_and_the_earlier_is_returned(
    note, kept, vault, monkeypatch
):
    move = in_folder.move

    def between_saves(*names):
        note.write_bytes(b"first")
        move(*names)
        note.write_bytes(b"second")

    monkeypatch.setattr(in_folder, "move", between_saves)
    assert room.remove_if_unchanged(vault, note.name, b"old", kept) is None
    assert note.read_bytes() == b"second"
    (late,) = lates(kept)
    assert (late.raw, late.base, late.late) == (note.name, b"old", b"first")


def test_a_file_that_changed_since_is_not_removed(note, kept, vault):
    assert room.remove_if_unchanged(vault, note.name, b"older", kept) == b"old"
    assert note.read_bytes() == b"old"
    assert not kept.exists()


# One writer


@on_every_system
def test_a_file_that_is_as_it_was_read_is_replaced(note, kept):
    assert exchange(note, b"old", b"new", kept) is None
    assert note.read_bytes() == b"new"
    assert beside(note) == []


@on_every_system
def test_a_file_that_changed_since_is_left_alone_and_its_bytes_are_returned(note, kept):
    assert exchange(note, b"older", b"new", kept) == b"old"
    assert note.read_bytes() == b"old"
    assert not kept.exists()


def test_the_same_descriptor_still_reads_the_old_bytes(note, kept):
    with note.open("rb") as editor:
        exchange(note, b"old", b"new", kept)
        assert editor.read() == b"old"


@on_every_system
def test_mode_and_attributes_are_kept(note, kept):
    note.chmod(0o640)
    os.setxattr(note, "user.colour", b"red")
    exchange(note, b"old", b"new", kept)
    assert stat.S_IMODE(note.stat().st_mode) == 0o640
    assert os.getxattr(note, "user.colour") == b"red"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept(note, kept):
    os.chown(note, 65_534, 65_534)
    exchange(note, b"old", b"new", kept)
    assert (note.stat().st_uid, note.stat().st_gid) == (65_534, 65_534)


@pytest.mark.parametrize("read", [None, b""])
@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_is_not_there_is_made(vault, kept, read, links, monkeypatch):
    if links:
        monkeypatch.setattr(in_folder, "rename", lambda *_, **__: False)
    assert exchange(vault / "new.md", read, b"new", kept) is None
    assert (vault / "new.md").read_bytes() == b"new"
    assert beside(vault / "new.md") == []


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_while_it_is_made_stays(vault, kept, links, monkeypatch):
    path = vault / "new.md"
    rename = in_folder.rename

    def somebody_first(*names, swap):
        path.write_bytes(b"theirs")
        return rename(*names, swap=swap) if not links else False

    monkeypatch.setattr(in_folder, "rename", somebody_first)
    assert exchange(path, None, b"new", kept) == b"theirs"
    assert path.read_bytes() == b"theirs"
    assert beside(path) == []


def test_an_empty_file_is_replaced_like_any_other(note, kept):
    note.write_bytes(b"")
    assert exchange(note, b"", b"new", kept) is None
    assert exchange(note, None, b"newer", kept) == b"new"


# Files that are not ours to replace


def test_a_file_that_vanished_is_not_made_again(note, kept):
    note.unlink()
    with pytest.raises(NoteVanishedError):
        exchange(note, b"old", b"new", kept)
    assert not note.exists()


def test_a_folder_that_vanished_is_reported(vault, kept):
    with pytest.raises(NoteVanishedError):
        exchange(vault / "gone" / "a.md", None, b"new", kept)


def test_a_link_a_folder_and_a_fifo_are_refused(vault, note, kept):
    (vault / "link.md").symlink_to(note)
    (vault / "dangling.md").symlink_to("nowhere")
    (vault / "folder.md").mkdir()
    os.mkfifo(vault / "fifo.md")
    for name in ("link.md", "dangling.md", "folder.md", "fifo.md"):
        for read in (b"old", b"", None):
            with pytest.raises(NotARegularFileError):
                exchange(vault / name, read, b"new", kept)
    assert note.read_bytes() == b"old"


def test_a_state_folder_that_cannot_be_made_is_reported_and_nothing_is_changed(note, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StateError):
        room.replace_if_unchanged(note.parent, note.name, b"old", b"new", tmp_path / "file" / "displaced")
    assert note.read_bytes() == b"old"
    assert beside(note) == []


def test_a_disk_that_fails_is_reported_and_nothing_is_changed(note, kept, monkeypatch):
    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(NoteUnreadableError):
        exchange(note, b"old", b"new", kept)
    assert note.read_bytes() == b"old"
    assert beside(note) == []
    assert lates(kept) == []


# Links that would redirect a write


@pytest.fixture
def outside(tmp_path):
    """A folder beside the vault with a file of the note's name and content."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "note.md").write_bytes(b"old")
    return folder


def listed(folder):
    return {
        path: (path.lstat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()
    }


@on_every_system
@pytest.mark.parametrize("target", ["../outside", "../../outside", "inside"])
@pytest.mark.parametrize("read", [None, b"old"])
@pytest.mark.parametrize("name", ["note.md", "new.md"])
def test_nothing_is_written_behind_a_link(vault, outside, kept, target, read, name):
    (vault / "deep/inside").mkdir(parents=True)
    (vault / "deep/inside/note.md").write_bytes(b"old")
    (vault / "deep/link").symlink_to(target)
    before = listed(outside), listed(vault)
    with pytest.raises(NotARegularFileError, match="links are not followed"):
        room.replace_if_unchanged(vault, f"deep/link/{name}", read, b"new", kept)
    assert (listed(outside), listed(vault)) == before


@pytest.mark.parametrize("raw", ["../outside/note.md", "/etc/hosts.new", "a/../../outside/note.md"])
def test_nothing_is_written_where_a_path_leaves_the_vault(vault, outside, kept, raw):
    before = listed(outside)
    for read in (None, b"old"):
        with pytest.raises(NotARegularFileError, match="leaves the vault"):
            room.replace_if_unchanged(vault, raw, read, b"new", kept)
    assert listed(outside) == before


@pytest.mark.parametrize("read", [b"old", None])
def test_a_folder_that_is_replaced_by_a_link_meanwhile_redirects_nothing(
    system, vault, outside, kept, read, monkeypatch
):
    if system == "no links" and not read:
        pytest.skip("nothing can be made here without a risk for what appears meanwhile")
    (vault / "folder").mkdir()
    if read:
        (vault / "folder/note.md").write_bytes(read)
    else:
        (outside / "note.md").unlink()
    before = listed(outside)
    write_new = in_folder.write_new

    def replace_the_folder(*args, **kwargs):
        (vault / "folder").rename(vault / "moved")
        (vault / "folder").symlink_to(outside)
        write_new(*args, **kwargs)

    monkeypatch.setattr(in_folder, "write_new", replace_the_folder)
    assert room.replace_if_unchanged(vault, "folder/note.md", read, b"new", kept) is None
    assert listed(outside) == before
    assert (vault / "moved/note.md").read_bytes() == b"new"
    assert [path.name for path in (vault / "moved").iterdir()] == ["note.md"]
    # The later check for late writes does not follow the link either.
    assert lates(kept, later=LATER) == []
    assert listed(outside) == before


def test_a_crash_is_not_mended_behind_a_link(vault, outside, kept):
    """Between the crash and the next start the folder became a link to a folder that looks like it."""
    kept.mkdir(parents=True)
    number = "0123456789abcdef"
    places = [
        str(kept / f"{number}.kept"),
        *(f"folder/.everindex-{number}{end}" for end in (".tmp", ".old.tmp")),
    ]
    said = {"path": "folder/gone.md", "read": "b2xk", "new_sha256": "", "places": places, "started": 0.0}
    (kept / f"{number}.json").write_text(json.dumps(said))
    for end in (".tmp", ".old.tmp"):
        (outside / f".everindex-{number}{end}").write_bytes(b"theirs")
    (vault / "folder").symlink_to(outside)
    make_quiet(outside)
    before = listed(outside)
    assert lates(kept, later=LATER) == []
    assert listed(outside) == before


def test_files_that_a_crash_left_are_not_searched_behind_a_link(vault, outside, kept):
    (outside / ".everindex-0123456789abcdef.tmp").write_bytes(b"theirs")
    make_quiet(outside)
    (vault / "link").symlink_to(outside)
    assert leftovers(vault, kept) == []
    assert (outside / ".everindex-0123456789abcdef.tmp").exists()


def test_a_displaced_file_is_not_kept_behind_a_link(outside, elsewhere, kept):
    (elsewhere / "note.md").write_bytes(b"old")
    (elsewhere / ".everindex").symlink_to(outside)
    assert room.replace_if_unchanged(elsewhere, "note.md", b"old", b"new", kept) is None
    assert [path.name for path in outside.iterdir()] == ["note.md"]
    assert (elsewhere / "note.md").read_bytes() == b"new"


@pytest.mark.skipif(not can_exchange(), reason="names cannot be exchanged here")
def test_a_folder_that_is_exchanged_with_a_link_time_and_again_redirects_nothing(vault, outside, kept):
    (vault / "folder").mkdir()
    note = vault / "folder/note.md"
    note.write_bytes(b"old")
    (vault / "link").symlink_to(outside)
    done = {"written": 0, "refused": 0}
    data = b"old"
    with exchanging(vault / "folder", vault / "link"):
        until = time.monotonic() + 60
        while (sum(done.values()) < 300 or not all(done.values())) and time.monotonic() < until:
            new = b"%d" % sum(done.values())
            try:
                assert room.replace_if_unchanged(vault, "folder/note.md", data, new, kept) is None
            except NoteError:
                done["refused"] += 1
            else:
                data = new
                done["written"] += 1
    assert listed(outside) == {outside / "note.md": (listed(outside)[outside / "note.md"][0], b"old")}
    assert all(done.values())


# The state after a power cut


@pytest.mark.parametrize("read", [b"old", None])
def test_bytes_are_on_disk_before_they_get_their_name_and_the_name_before_success_is_returned(
    system, vault, kept, read, monkeypatch
):
    """The system's own calls are watched: what is forced to disk when, by inode."""
    if system == "no links" and not read:
        pytest.skip("nothing can be made here without a risk for what appears meanwhile")
    path = vault / "note.md"
    if read:
        path.write_bytes(read)
    log = []
    fsync = os.fsync

    def forced(fd):
        info = os.fstat(fd)
        now = path.stat().st_ino if path.exists() else None
        log.append((info.st_ino, info.st_size if stat.S_ISREG(info.st_mode) else None, now))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", forced)
    assert exchange(path, read, b"brand new", kept) is None
    inode, folder = path.stat().st_ino, vault.stat().st_ino
    (whole,) = (n for n, (one, size, now) in enumerate(log) if one == inode and size == 9 and now != inode)
    named = [n for n, (one, _, now) in enumerate(log) if one == folder and now == inode]
    assert named, "the folder was not forced to disk after the note got its name"
    assert whole < min(named)


# A person writes meanwhile


@on_every_system
def test_a_save_in_place_just_before_the_exchange_is_put_back(note, kept, monkeypatch):
    during(monkeypatch, lambda: note.write_bytes(b"theirs"))
    assert exchange(note, b"old", b"new", kept) == b"theirs"
    assert note.read_bytes() == b"theirs"
    assert beside(note) == []
    assert lates(kept) == []


@on_every_system
def test_a_save_by_renaming_just_before_the_exchange_is_put_back(note, kept, monkeypatch):
    during(monkeypatch, lambda: save_by_renaming(note, b"theirs"))
    assert exchange(note, b"old", b"new", kept) == b"theirs"
    assert note.read_bytes() == b"theirs"
    assert lates(kept) == []


@on_every_system
@pytest.mark.parametrize("save", [Path.write_bytes, save_by_renaming])
def test_of_two_saves_the_later_stays_and_the_earlier_is_returned(note, kept, monkeypatch, save):
    during(monkeypatch, lambda: save_by_renaming(note, b"first"), lambda: save(note, b"second"))
    assert exchange(note, b"old", b"new", kept) == b"second"
    assert note.read_bytes() == b"second"
    (late,) = lates(kept)
    assert (late.raw, late.base, late.late) == (note.name, b"old", b"first")


@on_every_system
def test_a_file_that_is_deleted_while_it_is_put_back_stays_deleted_and_its_last_save_is_returned(
    note, kept, monkeypatch
):
    during(monkeypatch, lambda: note.write_bytes(b"theirs"), note.unlink)
    with pytest.raises(NoteVanishedError):
        exchange(note, b"old", b"new", kept)
    assert not note.exists()
    assert [late.late for late in lates(kept)] == [b"theirs"]


def test_a_file_that_becomes_a_link_meanwhile_stays_one(note, kept, monkeypatch, vault):
    (vault / "other.md").write_bytes(b"other")

    def become_a_link():
        note.unlink()
        note.symlink_to("other.md")

    during(monkeypatch, become_a_link)
    with pytest.raises(NotARegularFileError):
        exchange(note, b"old", b"new", kept)
    assert note.is_symlink()
    assert note.read_bytes() == b"other"


# Late writes


@on_every_system
def test_a_write_through_an_old_descriptor_is_returned_until_it_is_settled(note, kept):
    with note.open("r+b") as editor:
        exchange(note, b"old", b"new", kept)
        assert lates(kept) == []
        editor.write(b"late")
    for _ in range(2):
        (late,) = lates(kept)
        assert (late.raw, late.base, late.late) == (note.name, b"old", b"late")
    settle(late)
    assert lates(kept) == []


def test_what_is_written_after_settling_is_returned_again(note, kept):
    with note.open("r+b", buffering=0) as editor:
        exchange(note, b"old", b"new", kept)
        editor.write(b"late")
        settle(lates(kept)[0])
        editor.write(b"r")
    (late,) = lates(kept)
    assert (late.base, late.late) == (b"late", b"later")


def test_a_late_write_that_is_under_way_is_returned_when_it_is_quiet(note, kept):
    with note.open("r+b") as editor:
        exchange(note, b"old", b"new", kept)
        editor.truncate()
        editor.flush()
        now = time.monotonic()
        os.utime(editor.fileno(), (time.time(), time.time() + 0.5))
        assert late_writes(kept, now) == []
        assert late_writes(kept, now + LATER) == []
        editor.write(b"late")
    assert [late.late for late in lates(kept, later=LATER)] == [b"late"]


def test_a_displaced_file_is_let_go_after_ten_minutes(note, kept):
    exchange(note, b"old", b"new", kept)
    assert lates(kept, later=KEPT_S - 1) == []
    assert len(list(kept.iterdir())) == 2
    assert lates(kept, later=LATER) == []
    assert list(kept.iterdir()) == []


def test_a_displaced_file_is_let_go_after_a_restart_of_the_machine(note, kept):
    exchange(note, b"old", b"new", kept)
    make_quiet(kept)
    assert late_writes(kept, 0.0) == []
    assert list(kept.iterdir()) == []


def test_a_late_write_is_never_let_go_before_it_is_settled(note, kept):
    with note.open("r+b") as editor:
        exchange(note, b"old", b"new", kept)
        editor.write(b"late")
    for _ in range(2):
        (late,) = lates(kept, later=10 * LATER)
    settle(late)
    assert lates(kept, later=10 * LATER) == []
    assert list(kept.iterdir()) == []


def test_a_kept_file_that_cannot_be_read_stays(note, kept):
    exchange(note, b"old", b"new", kept)
    (place,) = kept.glob("*.kept")
    place.unlink()
    place.mkdir()
    assert lates(kept, later=LATER) == []
    assert place.exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"path": 1}', b"\xff"])
def test_a_damaged_record_is_left_alone(kept, damage):
    kept.mkdir(parents=True)
    (kept / "0123.json").write_bytes(damage)
    assert lates(kept, later=LATER) == []
    assert (kept / "0123.json").read_bytes() == damage


@pytest.mark.parametrize("place", ["state", "dot-folder", "beside"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_record_of_an_earlier_version_is_understood(vault, kept, tmp_path, place, moved):
    """It has absolute paths only; where the vault was moved since, what lies in the state folder is still told."""
    number = "0123456789abcdef"
    (vault / "deep").mkdir()
    (vault / "deep/note.md").write_bytes(b"new")
    (vault / ".everindex/displaced").mkdir(parents=True)
    kept.mkdir(parents=True)
    places = {
        "state": kept / f"{number}.kept",
        "dot-folder": vault / f".everindex/displaced/{number}.kept",
        "beside": vault / f"deep/.everindex-{number}.tmp",
    }
    places[place].write_bytes(b"late")
    record = {
        "path": str(vault / "deep/note.md"),
        "read": base64.b64encode(b"old").decode(),
        "new_sha256": "",
        "places": [*map(str, places.values()), str(vault / f"deep/.everindex-{number}.old.tmp")],
        "started": time.monotonic() - 100,
    }
    (kept / f"{number}.json").write_text(json.dumps(record))
    make_quiet(tmp_path)
    root = vault
    if moved:
        root = vault.rename(tmp_path / "elsewhere")
    told = later.late_writes(root, kept, time.monotonic())
    if moved and place != "state":
        assert told == []
    else:
        (late,) = told
        assert (late.raw, late.base, late.late) == (
            record["path"] if moved else "deep/note.md",
            b"old",
            b"late",
        )
        settle(late)
    assert later.late_writes(root, kept, time.monotonic() + LATER) == []
    assert [path for path in kept.iterdir() if path.is_file()] == []


def test_there_are_no_late_writes_without_a_folder(kept):
    assert late_writes(kept, 0.0) == []


@pytest.fixture
def elsewhere(tmp_path):
    """A folder on another file system than `tmp_path`."""
    other = on_another_system(tmp_path)
    if other is None:
        pytest.skip("no second file system here")
    with tempfile.TemporaryDirectory(dir=other) as folder:
        yield Path(folder)


@pytest.mark.parametrize("has_dot_folder", [True, False])
def test_on_another_file_system_the_displaced_file_stays_on_its_own(kept, elsewhere, has_dot_folder):
    note = elsewhere / "deep" / "note.md"
    note.parent.mkdir()
    note.write_bytes(b"old")
    if has_dot_folder:
        (elsewhere / ".everindex").mkdir()
    with note.open("r+b") as editor:
        room.replace_if_unchanged(elsewhere, "deep/note.md", b"old", b"new", kept)
        assert bool(beside(note)) is not has_dot_folder
        assert len(list(elsewhere.glob(".everindex/displaced/*.kept"))) == has_dot_folder
        editor.write(b"late")
    make_quiet(elsewhere)
    (late,) = later.late_writes(elsewhere, kept, time.monotonic() + 100)
    assert (late.raw, late.late) == ("deep/note.md", b"late")
    settle(late)
    assert later.late_writes(elsewhere, kept, time.monotonic() + LATER) == []
    assert beside(note) == []
    assert list(kept.iterdir()) == []


# Crashes

CHILD = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    from pipelines.vault import in_folder, write as room
    step, note, kept, theirs = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
    refused = theirs and theirs.pop()
    if refused == "links":
        in_folder.rename = lambda *_, **__: False
    def counted(owner, name):
        act = getattr(owner, name)
        def counting(*args, **kwargs):
            global step
            step -= 1
            if not step:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*args, **kwargs)
        setattr(owner, name, counting)
    for name in ("_write_record", "_swap", "_keep"):
        counted(room, name)
    for name in ("write_new", "rename", "look", "sync"):
        counted(in_folder, name)
    for name in ("replace", "rename", "link", "fsync"):
        counted(os, name)
    if theirs and theirs[0]:
        look, first = in_folder.look, [theirs[0]]
        def save_first(folder, name):
            if first:
                with open(os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=folder), "wb") as file:
                    file.write(first.pop().encode())
            return look(folder, name)
        in_folder.look = save_first
    room.replace_if_unchanged(note.parent, note.name, b"old", b"new", kept)
""")


@pytest.mark.parametrize("system", ["exchange", "links"])
@pytest.mark.parametrize("theirs", ["", "theirs"])
def test_a_kill_at_any_step_leaves_one_of_the_contents_and_tells_the_others(note, kept, theirs, system):
    for step in range(1, 40):
        note.write_bytes(b"old")
        command = [sys.executable, "-c", CHILD, str(step), note, kept, theirs, system]
        code = subprocess.run(command, check=False, cwd=Path(__file__).parents[3]).returncode
        make_quiet(note.parent)
        told = {late.late for late in lates(kept, later=LATER)}
        there = note.read_bytes()
        assert there in {b"old", b"new", theirs.encode()}
        assert told <= {theirs.encode()}
        if code == 0:
            assert there == (theirs.encode() or b"new")
            assert step > 5
            break
        assert code == -signal.SIGKILL
        for late in lates(kept, later=LATER):
            settle(late)
        assert lates(kept, later=LATER) == []
        assert leftovers(note.parent, kept) == []
        assert beside(note) == []
    else:
        pytest.fail("never came to its end")


def test_an_exchange_in_three_steps_that_was_killed_between_them_is_undone(note, kept, monkeypatch):
    monkeypatch.setattr(in_folder, "rename", lambda *_, **__: False)
    monkeypatch.setattr(in_folder, "link", refuse)
    child = os.fork()
    if child == 0:
        move = in_folder.move
        in_folder.move = lambda folder, one, other: (
            os._exit(9) if other == note.name else move(folder, one, other)
        )
        exchange(note, b"old", b"new", kept)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.undo()
    assert not note.exists()
    make_quiet(note.parent)
    assert lates(kept, later=100) == []
    assert note.read_bytes() == b"old"


@pytest.mark.parametrize("folder", ["deep", ".everindex"])
def test_files_that_a_crash_left_and_no_record_names_are_moved_and_reported_but_not_deleted(
    vault, kept, folder
):
    (vault / folder).mkdir()
    left = vault / folder / ".everindex-0123456789abcdef.tmp"
    left.write_bytes(b"perhaps the only copy")
    assert leftovers(vault, kept) == []  # it may be in use
    os.utime(left, (1, 1))
    (now,) = leftovers(vault, kept)
    assert now.read_bytes() == b"perhaps the only copy"
    assert now.parent == kept / "unclaimed"
    assert beside(left) == []
    assert lates(kept, later=LATER) == []
    assert now.exists()


def test_files_that_a_crash_left_on_another_file_system_are_reported_in_place(vault, elsewhere):
    left = vault / ".everindex-0123456789abcdef.tmp"
    left.write_bytes(b"perhaps the only copy")
    os.utime(left, (1, 1))
    assert leftovers(vault, elsewhere) == [left]


# A person and Everindex write at once

HUMAN = textwrap.dedent("""
    import os, random, sys, time
    from pathlib import Path
    path, rounds, seed, ways = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
    rng = random.Random(seed)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(rounds):
        token, way = b"<human-%d>" % number, rng.choice(ways)
        if way == "in place":
            with path.open("r+b") as file:
                data = file.read()
                file.seek(0)
                file.truncate()
                file.flush()
                time.sleep(rng.random() / 2000)
                file.write(data + token)
        elif way == "rewritten":
            data = path.read_bytes()
            time.sleep(rng.random() / 2000)
            path.write_bytes(data + token)
        elif way == "renaming":
            data = path.read_bytes()
            other = path.with_name("editor.swp")
            other.write_bytes(data + token)
            time.sleep(rng.random() / 2000)
            other.replace(path)
        elif way == "late":
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            time.sleep(rng.random() / 500)
            os.write(fd, token)
            os.close(fd)
        time.sleep(rng.random() / 500)
""")


def race(note, kept, ways, seed):
    """Let another process write in its ways while we write in ours; return all bytes that are left or were reported.

    On a busy machine we may never come to write: that race shows nothing, and is run again.
    """
    note.write_bytes(b"")
    command = [sys.executable, "-c", HUMAN, note, str(ROUNDS), str(seed), ways]
    ours, told = [], []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as human:
        human.stdout.readline()
        human.stdin.write(b"\n")
        human.stdin.flush()
        while human.poll() is None:
            token = b"<ours-%d>" % len(ours)
            read = note.read_bytes()
            there = exchange(note, read, read + token, kept)
            if there is None:
                ours.append(token)
            else:
                # A person who loads the file before it is put back overwrites that save without having seen it.
                told.append(there)
            if len(ours) % 20 == 0:
                for late in late_writes(kept, time.monotonic()):
                    told.append(late.late)
                    settle(late)
        assert human.returncode == 0
    told += [late.late for late in lates(kept)]
    if not ours:
        return race(note, kept.with_name(f"{kept.name} {seed}"), ways, seed + 1)
    return b"".join([note.read_bytes(), *told])


@pytest.mark.parametrize(
    "ways", ["in place", "rewritten", "renaming", "late", "in place,rewritten,renaming,late"]
)
def test_no_byte_of_a_person_is_lost_however_the_editor_saves(note, kept, ways, monkeypatch):
    monkeypatch.setattr(later, "QUIET_S", 0.0)
    left = race(note, kept, ways, seed=ROUNDS)
    lost = [number for number in range(ROUNDS) if b"<human-%d>" % number not in left]
    assert lost == []
    assert beside(note) == []


@pytest.mark.parametrize("ways", ["in place", "rewritten", "late"])
def test_no_byte_is_lost_where_there_is_no_exchange_but_by_renaming(note, kept, ways, monkeypatch):
    monkeypatch.setattr(in_folder, "rename", lambda *_, **__: False)
    monkeypatch.setattr(later, "QUIET_S", 0.0)
    left = race(note, kept, ways, seed=ROUNDS)
    assert [number for number in range(ROUNDS) if b"<human-%d>" % number not in left] == []


def test_the_record_says_where_a_displaced_file_came_from(note, kept):
    exchange(note, b"old", b"new", kept)
    (file,) = kept.glob("*.json")
    said = json.loads(file.read_text())
    assert said["path"] == note.name
    assert base64.b64decode(said["read"]) == b"old"
