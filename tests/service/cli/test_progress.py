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
    with IndexProgress(Console(file=file, width=80, force_terminal=True)) as bar:
        bar.show("vault", COUNTS)
    assert "5 passages" in file.getvalue()
    assert "/s" not in file.getvalue()


def test_bars_of_what_was_done_stay():
    file = io.StringIO()
    with IndexProgress(Console(file=file, width=80)) as bar:
        bar.show("vault", COUNTS)
    assert "3 notes" in file.getvalue()


def test_a_file_gets_a_line_every_ten_seconds_and_one_when_words_and_when_meaning_are_done():
    file, now = io.StringIO(), [0.0]

    def health(notes, pending, passages, without_vector):
        one = {"notes": notes, "chunks": passages}
        return {"domains": {"a": one}, "pending": pending, "vectors_pending": without_vector}

    with IndexProgress(Console(file=file, width=80), lambda: now[0]) as bar:
        for now[0], *facts in (
            (0.0, 0, 0, 0, 0),
            (1.0, 5, 95, 10, 10),
            (2.0, 9, 91, 18, 18),
            (11.5, 60, 40, 90, 90),
            (12.0, 100, 0, 200, 150),
            (13.0, 100, 0, 200, 120),
            (22.5, 100, 0, 200, 20),
            (23.0, 100, 0, 200, 0),
            (40.0, 100, 0, 200, 0),
        ):
            bar.show_health(health(*facts))
    assert file.getvalue().splitlines() == [
        "listing the files of the vault",
        "words: 5 of 100 notes",
        "words: 60 of 100 notes",
        "words are done: 100 notes; meaning: 50 of 200 passages",
        "words are done: 100 notes; meaning: 180 of 200 passages",
        "words and meaning are done: 100 notes, 200 passages",
    ]
