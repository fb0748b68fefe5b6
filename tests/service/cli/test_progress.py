"""The progress bar of a first index."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pipelines.model import Counts
from service.cli.progress import IndexProgress

COUNTS = Counts(3, 5, 5, 0, 0.0, 0, 0, 0)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_bars_of_nothing_to_do_do_not_stay(is_terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=80)
    with IndexProgress(console):
        pass
    said = file.getvalue()
    assert said.rpartition("\x1b[2K")[2] == "" if is_terminal else said == ""


def test_vectors_that_were_known_have_no_speed():
    file = io.StringIO()
    with IndexProgress(Console(file=file, width=80)) as bar:
        bar.show("vault", COUNTS)
    assert "5 passages" in file.getvalue()
    assert "/s" not in file.getvalue()


def test_bars_of_what_was_done_stay():
    file = io.StringIO()
    with IndexProgress(Console(file=file, width=80)) as bar:
        bar.show("vault", COUNTS)
    assert "3 notes" in file.getvalue()
