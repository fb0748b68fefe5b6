"""Messages are signed with a key that each vault has of its own."""

import os
import stat

import pytest

from queue_config.queue import read_key
from queue_config.secrets import QUEUE_KEY
from tests.racers import race


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_key_is_32_bytes_that_only_its_owner_may_read(tmp_path, umask):
    before = os.umask(umask)
    try:
        key = read_key(tmp_path)
    finally:
        os.umask(before)
    assert len(key) == 32
    assert stat.S_IMODE((tmp_path / QUEUE_KEY.name).stat().st_mode) == 0o600
    assert read_key(tmp_path) == key
    assert [file.name for file in tmp_path.iterdir()] == [QUEUE_KEY.name]


def test_every_vault_has_a_key_of_its_own(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    assert read_key(tmp_path / "a") != read_key(tmp_path / "b")


def test_processes_that_start_together_agree_on_one_key(tmp_path):
    folders = [tmp_path / f"{number:03}" for number in range(200)]
    for folder in folders:
        folder.mkdir()
    answers = race("from queue_config.queue import read_key", "read_key(folder).hex()", tmp_path)
    stored = [(folder / QUEUE_KEY.name).read_text().strip() for folder in folders]
    assert answers == [stored] * len(answers)
    assert {file.name for folder in folders for file in folder.iterdir()} == {QUEUE_KEY.name}
