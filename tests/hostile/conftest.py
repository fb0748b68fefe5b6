"""Folders for vaults that a stranger made."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture
def ground(tmp_path):
    """Return a folder that is removed by `rm`: Python's own way fails on folders as deep as a stranger's."""
    yield tmp_path
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


@pytest.fixture(scope="module")
def lasting_ground(tmp_path_factory):
    """Return such a folder for all tests of a module."""
    folder = tmp_path_factory.mktemp("ground")
    yield folder
    subprocess.run(["rm", "-rf", *folder.iterdir()], check=True)
