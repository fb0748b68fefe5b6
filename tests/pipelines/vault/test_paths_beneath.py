"""Nothing in a folder leads outside of it or makes the reader wait."""

import gc
import os
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.errors import UnsafePathError
from pipelines.vault import paths as beneath
from tests.racers import can_exchange, exchanging

LIMIT = 1_000


@pytest.fixture(params=["at once", "step by step"], autouse=True)
def system(request, monkeypatch):
    """How a path is resolved: by the kernel in one call, or folder by folder."""
    if request.param == "step by step":
        monkeypatch.setattr(beneath, "_has_openat2", lambda: False)
    elif not beneath._has_openat2():
        pytest.skip("this kernel has no openat2")
    return request.param


@pytest.fixture
def outside(tmp_path):
    """A folder beside the vault with a file in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_bytes(b"secret")
    return folder


def open_files():
    return len([*Path("/dev/fd").iterdir()])


def test_a_file_is_read_at_any_depth(vault):
    (vault / "a/b").mkdir(parents=True)
    (vault / "a/b/c.md").write_bytes(b"text")
    (vault / "top.md").write_bytes(b"")
    assert beneath.read_file(vault, "a/b/c.md", LIMIT) == b"text"
    assert beneath.read_file(vault, "a//./b/c.md", LIMIT) == b"text"
    assert beneath.read_file(vault, "top.md", LIMIT) == b""


def test_the_root_itself_may_be_behind_a_link(vault, tmp_path):
    (vault / "a.md").write_bytes(b"text")
    (tmp_path / "link").symlink_to(vault)
    assert beneath.read_file(tmp_path / "link", "a.md", LIMIT) == b"text"


def test_a_name_that_is_not_unicode_is_read(vault):
    raw = os.fsdecode(b"bad\xff.md")
    (vault / raw).write_bytes(b"text")
    assert beneath.read_file(vault, raw, LIMIT) == b"text"


@pytest.mark.parametrize("raw", ["missing.md", "folder/missing.md", "missing/x.md"])
def test_a_missing_file_is_distinguished_from_a_refused_one(vault, raw):
    (vault / "folder").mkdir()
    for act in (beneath.open_file, beneath.open_folder, beneath.look):
        with pytest.raises(FileNotFoundError):
            act(vault, raw)


def test_a_file_where_a_folder_is_wanted_is_no_folder(vault):
    (vault / "a.md").touch()
    for act in (beneath.open_file, beneath.look):
        with pytest.raises(NotADirectoryError):
            act(vault, "a.md/b.md")
    with pytest.raises(NotADirectoryError):
        beneath.open_folder(vault, "a.md")


@pytest.mark.parametrize("raw", ["..", "../x.md", "a/../../x.md", "/etc/passwd", "a\0.md", "\ud800.md"])
def test_a_path_that_leads_out_by_its_text_is_refused(vault, raw):
    (vault / "a").mkdir()
    for act in (beneath.open_file, beneath.open_folder, beneath.look):
        with pytest.raises(UnsafePathError, match="leaves the vault"):
            act(vault, raw)


@pytest.mark.parametrize("target", ["../outside", "{outside}", "inner", "."])
@pytest.mark.parametrize("place", ["link", "a/link"])
def test_no_link_to_a_folder_is_followed_wherever_it_leads(vault, outside, target, place):
    (vault / "a/inner").mkdir(parents=True)
    (vault / "inner").mkdir()
    (vault / place).symlink_to(target.format(outside=outside))
    for act in (beneath.open_file, beneath.look, beneath.open_folder):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            act(vault, f"{place}/secret.md")
    with pytest.raises(UnsafePathError, match="symbolic link"):
        beneath.open_folder(vault, place)


def test_a_link_to_a_file_is_not_read_and_is_seen_as_a_link(vault, outside):
    for number, target in enumerate(
        [outside / "secret.md", "/dev/zero", "/proc/self/environ", "loop", "real.md"]
    ):
        (vault / "real.md").write_bytes(b"text")
        link = vault / ("loop" if target == "loop" else f"{number}.md")
        link.symlink_to(target)
        with pytest.raises(UnsafePathError, match="symbolic link"):
            beneath.read_file(vault, link.name, LIMIT)
        assert stat.S_ISLNK(beneath.look(vault, link.name).st_mode)


def a_device(path):
    """Make a device that reads as zeros."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        pytest.skip("devices cannot be made here")


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, a_socket, a_device])
def test_what_is_no_regular_file_is_refused_and_not_even_opened(vault, make, monkeypatch):
    make(vault / "it")
    opened, opening = [], beneath._open

    def recorded(root, parts, flags):
        opened.append((parts, flags))
        return opening(root, parts, flags)

    monkeypatch.setattr(beneath, "_open", recorded)
    with pytest.raises(UnsafePathError, match="regular file"):
        beneath.read_file(vault, "it", LIMIT)
    assert "it" not in [part for parts, _ in opened for part in parts]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [os.mkfifo, a_device])
def test_what_takes_the_place_of_a_file_between_a_look_and_its_opening_is_refused_and_nothing_waits(
    vault, make, monkeypatch
):
    (vault / "it").write_bytes(b"text")
    looking = beneath.look

    def looked(root, raw):
        found = looking(root, raw)
        (vault / "it").unlink()
        make(vault / "it")
        return found

    monkeypatch.setattr(beneath, "look", looked)
    with pytest.raises(UnsafePathError, match="regular file"):
        beneath.read_file(vault, "it", LIMIT)


def test_the_root_itself_is_no_file(vault):
    with pytest.raises(UnsafePathError, match="regular file"):
        beneath.read_file(vault, "", LIMIT)


def test_a_file_is_read_up_to_its_limit_and_a_larger_one_not_at_all(vault):
    (vault / "fits").write_bytes(b"x" * LIMIT)
    (vault / "large").write_bytes(b"x" * (LIMIT + 1))
    with (vault / "sparse").open("wb") as file:
        file.truncate(5_000_000_000_000)
    assert len(beneath.read_file(vault, "fits", LIMIT)) == LIMIT
    for raw in ("large", "sparse"):
        with pytest.raises(UnsafePathError, match="too much"):
            beneath.read_file(vault, raw, LIMIT)


def test_a_folder_stays_the_same_whatever_is_put_in_its_place(vault, outside):
    (vault / "a").mkdir()
    with beneath.folder(vault, "a") as fd:
        (vault / "a").rename(vault / "b")
        (vault / "a").symlink_to(outside)
        assert [*os.scandir(fd)] == []
    with beneath.folder(vault) as fd:
        assert {entry.name for entry in os.scandir(fd)} == {"a", "b"}


def test_no_descriptor_is_left_open(vault, outside):
    (vault / "a/b").mkdir(parents=True)
    (vault / "a/b/c.md").write_bytes(b"text")
    (vault / "a/link").symlink_to(outside)
    os.mkfifo(vault / "fifo")
    gc.collect()  # what other tests left is not closed meanwhile
    before = open_files()
    for raw in ("a/b/c.md", "a/link/secret.md", "a/link", "fifo", "a/b/c.md/x", "a/no/x.md", "a", "", "../x"):
        for act in (
            lambda raw: beneath.read_file(vault, raw, LIMIT),
            lambda raw: beneath.look(vault, raw),
            lambda raw: os.close(beneath.open_folder(vault, raw)),
        ):
            with suppress(OSError, UnsafePathError):
                act(raw)
    assert open_files() == before


@pytest.mark.skipif(not can_exchange(), reason="names cannot be exchanged here")
def test_a_folder_that_is_exchanged_with_a_link_time_and_again_never_leads_out(vault, outside):
    (vault / "a").mkdir()
    (vault / "a/secret.md").write_bytes(b"own")
    (vault / "link").symlink_to(outside)
    said = {b"own": 0, "refused": 0}
    with exchanging(vault / "a", vault / "link"):
        until = time.monotonic() + 60
        while (sum(said.values()) < 5_000 or not all(said.values())) and time.monotonic() < until:
            try:
                data = beneath.read_file(vault, "a/secret.md", LIMIT)
                assert beneath.look(vault, "a/secret.md").st_size == 3
            except UnsafePathError:
                data = "refused"
            assert data != b"secret"
            said[data] += 1
    assert all(said.values()), said


NAMES = ("a", "b", "c")
paths = st.lists(st.sampled_from((*NAMES, "..", ".", "")), min_size=1, max_size=5).map("/".join)
trees = st.lists(
    st.tuples(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
        st.one_of(
            st.just("file"),
            st.just("folder"),
            st.lists(st.sampled_from((*NAMES, "..", "..", "outside")), min_size=1, max_size=4).map("/".join),
        ),
    ),
    max_size=8,
)


def grow(root, tree):
    """Make files, folders and links wherever that is possible."""
    for parts, what in tree:
        path = root.joinpath(*parts)
        with suppress(OSError):
            if what == "folder":
                path.mkdir(parents=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"own") if what == "file" else path.symlink_to(what)


def is_reached_without_a_link(root, raw):
    """Say so by the slow way: part by part, by name."""
    path = root
    for part in raw.split("/"):
        path /= part
        if part == ".." or path.is_symlink():
            return False
    return True


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees, paths)
def test_whatever_links_there_are_only_what_is_reached_without_one_is_read(tmp_path_factory, tree, raw):
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as name:
        folder = Path(name).resolve()
        for place in (folder, folder / "outside"):
            place.mkdir(exist_ok=True)
            for file in NAMES:
                (place / file).write_bytes(b"secret")
        root = folder / "vault"
        root.mkdir()
        grow(root, tree)
        try:
            data = beneath.read_file(root, raw, LIMIT)
        except (OSError, UnsafePathError):
            data = None
        readable = is_reached_without_a_link(root, raw) and (root / raw).is_file()
        assert data == (b"own" if readable else None)


def test_a_walk_follows_no_link_and_leaves_out_dot_folders(vault, outside):
    (vault / "a/b").mkdir(parents=True)
    (vault / ".git").mkdir()
    (vault / "a/b/c.md").touch()
    (vault / ".git/d.md").touch()
    (vault / "a/link").symlink_to(outside)
    assert {raw: names for raw, _, names in beneath.walk(vault)} == {"": [], "a": ["link"], "a/b": ["c.md"]}
    assert {raw: names for raw, _, names in beneath.walk(vault, ".git")} == {".git": ["d.md"]}


def test_the_folders_in_a_folder_are_listed_and_never_those_behind_a_link(vault, outside):
    (outside / "other").mkdir()
    (vault / "a/b").mkdir(parents=True)
    (vault / "link").symlink_to(outside)
    (vault / "a.md").write_bytes(b"text")
    assert beneath.subfolders(vault, "") == ["a"]
    assert beneath.subfolders(vault, "a") == ["a/b"]
    assert beneath.subfolders(vault, "link") == []
    assert beneath.subfolders(vault, "gone") == []
