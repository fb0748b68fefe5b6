import os
import stat
import threading

import pytest

from pipelines.vault.atomic import write_atomic, write_in_folder


def test_a_file_is_made_or_replaced_and_nothing_is_left_beside_it(vault):
    path = vault / "a.md"
    for data in (b"one", b"", b"three" * 1000):
        write_atomic(path, data)
        assert path.read_bytes() == data
        assert [file.name for file in vault.iterdir()] == ["a.md"]


def test_a_reader_never_sees_a_part(vault):
    path = vault / "a.md"
    versions = {letter * 300_000 for letter in (b"a", b"b")}
    write_atomic(path, min(versions))
    stop = threading.Event()
    seen = []

    def watch():
        while not stop.is_set():
            data = path.read_bytes()
            if data not in versions:
                seen.append(data[:10])

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        for _ in range(50):
            for version in versions:
                write_atomic(path, version)
    finally:
        stop.set()
        reader.join()
    assert seen == []


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(vault):
    (vault / "a.md").mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
        write_atomic(vault / "a.md", b"new")
    assert [file.name for file in vault.iterdir()] == ["a.md"]
    assert stat.S_ISDIR((vault / "a.md").stat().st_mode)


def test_a_file_with_the_longest_name_can_be_written(vault):
    name = "x" * 252 + ".md"
    write_atomic(vault / name, b"text")
    assert [file.name for file in vault.iterdir()] == [name]


def test_a_file_is_written_into_the_folder_that_is_held_whatever_took_its_place(vault, tmp_path):
    fd = os.open(vault, os.O_RDONLY)
    vault.rename(tmp_path / "moved")
    vault.symlink_to(tmp_path)
    for data, once in ((b"one", True), (b"two", True), (b"three", False)):
        write_in_folder(fd, "a.md", data, once=once)
        assert (tmp_path / "moved" / "a.md").read_bytes() == (b"three" if not once else b"one")
        assert [file.name for file in (tmp_path / "moved").iterdir()] == ["a.md"]
    os.close(fd)
