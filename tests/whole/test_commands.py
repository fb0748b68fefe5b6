"""What every command answers to an unknown note or domain while a service runs: a sentence and an exit code."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from tests.service.cli.test_commands import arguments, each, ends, is_one_sentence, named, program


@pytest.fixture
def everindex(example, monkeypatch, capsys):
    """Run the program against the service of the example vault, in this process."""
    run = program(monkeypatch, capsys)
    return lambda *words: run(*words, *example.place)


ODD = "odd \udcff.md"
"""How Python reads an argument with a byte that is not UTF-8."""


def is_text(parameter):
    return parameter.type.name == "text"


def takes_text(command):
    return any(map(is_text, command.params))


@each(lambda words, one: ends(words) and named(one, "path"))
def test_an_unknown_note_is_answered_with_a_sentence(everindex, words, command, tmp_path):
    code, said, complaint = everindex(*words, *arguments(command, tmp_path))
    if code:
        assert code == 1
        assert is_one_sentence(complaint)
    assert "nope.md" in said + complaint


@each(lambda words, one: ends(words) and named(one, "domain"))
def test_an_unknown_domain_is_answered_with_the_known_ones(everindex, words, command, tmp_path):
    given = ["--all-untagged"] if named(command, "all_untagged") else arguments(command, tmp_path)
    given = [] if words == ("links",) else given  # of one note, no domain is asked
    code, said, complaint = everindex(*words, *given, "--domain", "nope")
    assert (code, said) == (1, "")
    known = "finance, fitness, nutrition, learning, archive"
    assert complaint == f"error: there is no domain 'nope'; the vault has {known}\n"


@each(lambda words, one: ends(words) and takes_text(one))
def test_bytes_that_are_not_utf_8_are_answered_like_any_text(everindex, words, command, tmp_path):
    asked = [ODD if one in ("nope", "nope.md", "soil") else one for one in arguments(command, tmp_path)]
    options = [one for one in command.params if isinstance(one, click.Option) and is_text(one)]
    for option in [[], *([one.opts[0], ODD] for one in options if not one.required)]:
        code, said, complaint = everindex(*words, *option, *asked)
        assert code in (0, 1, 2)
        assert "Traceback" not in complaint
        assert "\\udcff" not in said + complaint


@pytest.mark.parametrize(
    "command", [("list", "--like"), ("links",), ("deep", "--from"), ("show",), ("why",), ("tags", "propose")]
)
def test_a_note_is_found_by_its_title(everindex, command):
    code, said, complaint = everindex(*command, "Protecting Sleep")
    assert (code, complaint) == (0, "")
    assert said


@pytest.mark.parametrize("command", [("list", "--like"), ("index", "--retry"), ("tags", "propose")])
def test_a_title_that_is_nearly_right_is_answered_with_the_note(everindex, command):
    code, said, complaint = everindex(*command, "Protecting Slep")
    assert (code, said) == (1, "")
    assert complaint.endswith("did you mean fitness/Protecting Sleep.md?\n")


def test_a_note_that_is_not_parked_cannot_be_tried_again(everindex):
    code, said, complaint = everindex("index", "--retry", "fitness/Protecting Sleep.md")
    assert (code, said) == (1, "")
    assert "only a parked note can be tried again" in complaint


@pytest.mark.parametrize(
    "command",
    [
        ("search", "sleep"),
        ("status",),
        ("links", "--broken"),
        ("links", "--orphans"),
        ("links", "Protecting Sleep"),
        ("graph", "--communities"),
        ("list", "--like", "Protecting Sleep"),
        ("list", "sleep"),
        ("show", "Protecting Sleep"),
        ("why", "Protecting Sleep"),
        ("deep", "--from", "Protecting Sleep"),
        ("deep", "sleep"),
        ("tags", "list"),
    ],
    ids=" ".join,
)
def test_a_command_that_the_service_answers_does_not_load_what_answers(example, command):
    line = [sys.executable, "-X", "importtime", "-m", "service.cli", *command, *example.place]
    done = subprocess.run(line, env=example.environment, capture_output=True, text=True, check=True)
    loaded = {one.rpartition("|")[2].strip() for one in done.stderr.splitlines()}
    assert "service.cli.search" in loaded
    assert loaded.isdisjoint({"numpy", "apsw", "fastapi", "huey", "pydantic", "torch"})
