"""A note that takes long to parse costs no other note its time, and a failure of its parser affects only that note."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import psutil
import pytest

from pipelines import child
from pipelines.cache.leases import APART, MAX_ATTEMPTS
from pipelines.documents import read
from pipelines.indexing import parse
from pipelines.indexing.ingest import index_apart, index_saved, index_words
from pipelines.indexing.parse import ApartParser, is_heavy

ON_BOTH_STORES = True

BRACKETS = "[" * 10_000
HOSTILE = {
    "brackets": BRACKETS,
    "pairs of brackets": "[" * 12_000 + "]" * 12_000,
    "wikilinks that never end": "[[a " * 10_000,
    "emphasis": "*a**b_c_" * 12_000,
    "a table": "|a|b|\n|-|-|\n" + "|x|y|\n" * 10_000,
    "a list": "- a\n" * 20_000,
    "nested lists": ("- " * 15 + "a\n") * 2_000,
    "nested numbered lists": ("1. " * 15 + "a\n") * 1_500,
    "headings": "## a\n" * 20_000,
    "one long line": "word " * 50_000,
    "tables whose rows are filled up": ("|a" * 280 + "|\n" + "|-" * 280 + "|\n" + "|\n" * 40 + "\n") * 3,
}

ORDINARY = (
    "Some words about [[Soil]] and *compost*, as people write them.\n\n- [ ] turn it\n- [x] water it\n\n"
) * 490  # 46 KB


@pytest.fixture
def apart_house(house):
    """A house whose workers set heavy notes apart; `work` does what they do until no words are pending."""

    class Apart:
        ingest = replace(house.ingest, apart=True)
        parser = ApartParser()

        def together(self):
            return index_saved(house.cache, self.ingest)

        def alone(self, **given):
            return index_apart(house.cache, self.ingest, self.parser, **given)

    return Apart()


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """Start another program in place of the child."""

    def start(script: str) -> None:
        program = tmp_path / "interpreter"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return start


def error_kind(house, path: str) -> str | None:
    return house.cache.ledger.row(path).error_kind


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in HOSTILE.items()])
def test_what_takes_long_is_heavy_and_gives_the_same_index(house, apart_house, text):
    house.write("heavy.md", text)
    house.write("light.md", "Compost for the tomato.")
    house.notice("heavy.md", "light.md")
    apart_house.together()
    assert [row[0] for row in house.picture()["nodes"]] == ["light.md"]
    assert error_kind(house, "heavy.md") == APART
    apart_house.alone()
    house.drain()
    assert house.picture() == house.scratch_picture()


@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n"], ids=["lf", "cr", "crlf"])
def test_whether_a_note_is_heavy_does_not_depend_on_its_line_endings(ending):
    for name, text in HOSTILE.items():
        assert is_heavy(text.replace("\n", ending).encode()), name
    assert not is_heavy(ORDINARY.replace("\n", ending).encode())


@pytest.mark.parametrize("name", ["long.txt", "long.csv"])
def test_no_thread_waits_until_a_long_document_has_become_a_note(house, apart_house, monkeypatch, name):
    def refuse(**_given):
        raise AssertionError(
            "a long document was judged in this process, where each expression stops all threads"
        )

    monkeypatch.setattr(read, "own_privacy", refuse)
    house.write("_domains.yaml", "vault:\n  legacy: true\n  formats: [txt, csv]\n")
    house.write(name, "a,b [\n" * 40_000)
    house.notice(name)
    apart_house.together()
    assert apart_house.alone().committed == 1


def test_a_note_that_takes_too_much_memory_is_parked_alone_and_says_so(house, apart_house, monkeypatch):
    monkeypatch.setattr(parse, "MOST_MEMORY", 256 * 2**20)
    house.write("heavy.md", "## a\n" * 190_000)
    house.write("light.md", "Compost for the tomato.")
    house.notice("heavy.md", "light.md")
    apart_house.together()
    assert apart_house.alone().parked == 1
    ((path, kind, reason),) = house.parked()
    assert (path, kind) == ("heavy.md", "memory")
    assert "needs more than 0.2 GiB of memory to parse; split it" in reason
    assert [row[0] for row in house.picture()["nodes"]] == ["light.md"]


def test_a_note_that_is_set_apart_is_not_taken_again_with_the_others(house, apart_house):
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()
    leases = house.cache.leases
    assert (
        leases.has_pending("words", "together"),
        leases.has_pending("words", "saves"),
        leases.has_pending("words", "apart"),
    ) == (
        False,
        False,
        True,
    )
    assert index_words(house.cache, apart_house.ingest).touched == 0


def test_newer_content_that_is_not_heavy_is_indexed_with_the_others(house, apart_house):
    house.write("a.md", BRACKETS)
    house.notice("a.md")
    apart_house.together()
    house.write("a.md", "Compost.")
    house.notice("a.md")
    assert apart_house.together().committed == 1


def test_what_a_worker_set_apart_is_indexed_by_one_that_sets_nothing_apart(house, apart_house):
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()
    house.drain()
    assert house.cache.counts().notes == 1


def test_a_note_that_ends_its_parser_each_time_is_parked_and_no_other_note_is(
    house, apart_house, interpreter
):
    interpreter("kill -9 $$")
    house.write("heavy.md", BRACKETS)
    house.write("light.md", "Compost.")
    house.notice("heavy.md", "light.md")
    for _ in range(MAX_ATTEMPTS):
        apart_house.together()
        apart_house.alone()
        house.now += 100
    assert [row[:2] for row in house.parked()] == [("heavy.md", "crash")]
    assert house.cache.counts().notes == 1


def test_an_error_of_the_parser_parks_the_note_with_it(house, apart_house, interpreter):
    code = (
        "import sys; from multiprocessing.connection import Connection; c = Connection(int(sys.argv[-2]));"
        " c.recv_bytes(); c.send(ValueError('odd'))"
    )
    interpreter(f'exec {sys.executable} -c "{code}" "$@"')
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()
    apart_house.alone()
    ((path, kind, reason),) = house.parked()
    assert (path, kind) == ("heavy.md", "internal-error")
    assert "odd" in reason


def test_the_lease_of_a_note_lasts_as_long_as_it_is_parsed(house, apart_house, interpreter, monkeypatch):
    monkeypatch.setattr(child, "_LOOK_SECONDS", 0.1)
    interpreter("exec sleep 600")
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()
    beats = []

    def said(path: str, _: float) -> None:
        beats.append(path)
        house.now += 200  # three of these are longer than a lease
        assert house.cache.leases.take("words", 1, "another worker") == []
        if len(beats) == 4:
            apart_house.parser.stop()

    apart_house.alone(said=said)
    assert beats == ["heavy.md"] * 4


def test_parsing_ends_when_newer_content_is_wanted(house, apart_house, interpreter, monkeypatch):
    monkeypatch.setattr(child, "_LOOK_SECONDS", 0.1)
    interpreter("exec sleep 600")
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()

    def said(*_) -> None:
        house.write("heavy.md", "Compost.")
        house.notice("heavy.md")

    apart_house.alone(said=said)
    assert apart_house.together().committed == 1
    assert house.picture() == house.scratch_picture()


def test_a_worker_that_stops_gives_the_note_back_untried(house, apart_house, interpreter):
    interpreter("exec sleep 600")
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()
    threading.Timer(0.5, apart_house.parser.stop).start()
    apart_house.alone()
    row = house.cache.ledger.row("heavy.md")
    assert (row.pending, row.attempts, house.cache.leases.has_pending("words", "apart")) == (True, 0, True)


def test_nothing_in_the_current_folder_is_run(house, apart_house, monkeypatch):
    for name in (
        "pipelines/__init__.py",
        "pipelines/indexing/parse.py",
        "pipelines/child.py",
        "pickle.py",
        "yaml.py",
        "sitecustomize.py",
    ):
        house.write(name, f"from pathlib import Path; Path({str(house.state / 'ran')!r}).touch()")
    monkeypatch.chdir(house.root)
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()
    assert apart_house.alone().committed == 1
    assert not (house.state / "ran").exists()


def test_no_child_is_left_behind(house, apart_house):
    before = psutil.Process().children()
    house.write("heavy.md", BRACKETS)
    house.notice("heavy.md")
    apart_house.together()
    apart_house.alone()
    assert [child for child in psutil.Process().children() if child not in before] == []
