"""Another process parses the notes that come next: the index is the same, and nothing is lost when it dies."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from pipelines.child import LastingChild
from pipelines.errors import ApartStoppedError, ChildDiedError
from pipelines.indexing import parse
from pipelines.indexing.ingest import index_words_ahead
from pipelines.indexing.parse import ParserAhead, read_files
from pipelines.sqlite import one

ON_BOTH_STORES = True


@pytest.fixture
def ahead(house, monkeypatch):
    """Index what is pending as a worker does with many notes, in small batches."""
    monkeypatch.setattr(parse, "_ROWS_AHEAD", 8)
    monkeypatch.setattr(parse, "ROWS_PER_SLICE", 2)

    class Ahead:
        ingest = replace(house.ingest, apart=True)
        parser = ParserAhead()

        def work(self, enough=lambda: False):
            return index_words_ahead(house.cache, self.ingest, self.parser, enough)

    made = Ahead()
    yield made
    made.parser.stop()


def fill(house, notes: int) -> None:
    for number in range(notes):
        house.write(
            f"{number}.md", f"---\ntags: [soil]\n---\n# Note {number}\n\nCompost, see [[{number - 1}]].\n"
        )


def leased(house) -> int:
    (count,) = one(house.cache.con, "SELECT count(*) FROM vault_file WHERE lease_token IS NOT NULL")
    return count


def test_the_index_is_the_one_that_a_single_process_makes(house, ahead):
    fill(house, 50)
    house.write("_domains.yaml", "vault:\n  legacy: true\n  formats: [txt, csv]\n")
    house.write("plain.txt", "A line about gardens.")
    house.write("sheet.csv", "a,b\n1,2\n")
    house.write("heavy.md", "[" * 30_000)
    house.write("not-utf8.md", b"\xff\xfe\xfa compost")
    house.reconcile()
    outcome = ahead.work()
    assert outcome.committed == 52
    assert house.cache.leases.has_pending("words", "apart")
    house.drain()
    assert house.picture() == house.scratch_picture()


def test_a_file_that_cannot_be_indexed_is_parked_alone(house, ahead):
    fill(house, 20)
    house.write("large.md", "x" * (ahead.ingest.max_bytes + 1))
    house.reconcile()
    (house.root / "3.md").unlink()
    ahead.work()
    assert [(path, kind) for path, kind, _ in house.parked()] == [("large.md", "too-large")]
    assert house.cache.counts().pending == 0
    assert leased(house) == 0


def test_the_notes_of_a_process_that_dies_are_parsed_here(house, ahead, monkeypatch):
    fill(house, 40)
    house.reconcile()
    monkeypatch.setattr(parse, "read_files", die)
    assert ahead.work().committed == 40
    assert house.cache.counts().pending == 0


def test_a_note_that_was_tried_before_is_parsed_here_alone(house, ahead):
    fill(house, 6)
    house.reconcile()
    house.cache.con.execute("UPDATE vault_file SET attempts = 1 WHERE path = '3.md'")
    batches = ahead.parser.batches(house.cache.leases, "test", None, lambda: False)
    rows, read = next(batches)
    assert ([row.path for row in rows], read) == (["3.md"], None)
    batches.close()


def test_what_is_left_when_there_was_enough_is_free(house, ahead):
    fill(house, 40)
    house.reconcile()
    left = iter(range(5))
    outcome = ahead.work(lambda: next(left, None) is None)
    assert 0 < outcome.committed < 40
    assert leased(house) == 0
    assert ahead.work().committed == 40 - outcome.committed


def test_a_stopped_parser_loses_nothing(house, ahead):
    fill(house, 40)
    house.reconcile()
    ahead.parser.stop()
    committed = ahead.work().committed
    assert leased(house) == 0
    house.drain()
    assert committed < 40
    assert house.picture() == house.scratch_picture()


def test_a_lasting_child_answers_again_and_ends_when_told():
    child = LastingChild()
    first = child.call(os.getpid)
    assert child.call(os.getpid) == first != os.getpid()
    with pytest.raises(ZeroDivisionError):
        child.call(divmod, 1, 0)
    child.end()
    assert not child.is_running
    assert child.call(os.getpid) != first
    with pytest.raises(ChildDiedError):
        child.call(os.kill, child.call(os.getpid), signal.SIGKILL)
    assert child.call(len, "abc") == 3
    child.stop()
    with pytest.raises(ApartStoppedError):
        child.call(os.getpid)


def die(*_given: object) -> None:
    os._exit(1)


def test_what_is_raised_for_a_file_comes_back_in_its_place(tmp_path):
    (tmp_path / "a.md").write_text("Compost.")
    how = parse.ReadSettings(tmp_path, 1_000, None, None)
    (error,) = read_files([("gone.md", "gone.md")], how)
    assert type(error).__name__ == "NoteVanishedError"
