"""What holds for every command: the help that lists them, and how the program ends."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pipelines.errors import ConfigurationError, NotRunningError
from service.cli.main import app, main

ROOT = Path(__file__).parents[3]


@pytest.fixture
def everindex(monkeypatch, capsys):
    """Run the program: exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["everindex", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


def commands(group):
    for one in group.commands.values():
        yield from commands(one) if hasattr(one, "commands") else [one]


@pytest.mark.parametrize("group", ["service", "tags", "rx"])
def test_help_lists_the_commands_as_they_are_defined_each_in_whole(group):
    defined: Any = app.commands[group]
    said = CliRunner().invoke(app, [group, "--help"]).output.partition("Commands:")[2]
    told = " ".join(said.split())
    firsts = {name: one.help.partition("\n\n")[0] for name, one in defined.commands.items()}
    assert told == " ".join(f"{name} {first}" for name, first in firsts.items())


def test_the_help_lists_every_command_once_by_who_uses_it():
    named = [name for names in app.sections.values() for name in names]
    assert sorted(named) == sorted(name for name, one in app.commands.items() if not one.hidden)
    said = CliRunner().invoke(app, ["--help"]).output
    places = [said.index(f"{heading}:") for heading in app.sections]
    assert places == sorted(places)
    for heading, names in app.sections.items():
        told = " ".join(said.partition(f"{heading}:\n")[2].partition("\n\n")[0].split())
        firsts = {name: app.commands[name].help.partition("\n\n")[0] for name in names}
        assert told == " ".join(f"{name} {first}" for name, first in firsts.items())


def test_every_command_says_what_it_does_and_what_each_option_does():
    for command in commands(app):
        assert command.help, command.name
        for option in command.params:
            assert option.param_type_name == "argument" or option.hidden or option.help, command.name


def test_help_shows_what_an_option_is_unless_given_and_how_far_it_goes():
    assert "[default: 10; 1<=x<=200]" in CliRunner().invoke(app, ["search", "--help"]).output


def test_every_command_that_the_documents_name_is_one():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = {
        line
        for page in pages
        for line in re.findall(r"`(?:\S*/)?everindex ((?:[a-z-]+ ?)+)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    for line in named:
        here = app
        for word in line.split():
            if not isinstance(here, click.Group):
                break  # what follows is an argument
            assert word in here.commands, line
            here = here.commands[word]


def test_every_command_is_in_the_readme_or_the_documents():
    text = "".join(
        page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    )
    for name, one in app.commands.items():
        assert one.hidden or re.search(rf"everindex {name}\b", text), name


def test_a_command_is_hidden_only_where_it_is_the_former_name_of_another():
    shown = [one.callback for one in app.commands.values() if not one.hidden]
    hidden = {name: one.callback for name, one in app.commands.items() if one.hidden}
    assert list(hidden) == ["node"]
    assert all(callback in shown for callback in hidden.values())


def test_the_version_is_the_packages(everindex):
    assert everindex("--version") == (0, f"everindex {version('everindex')}\n", "")


@pytest.mark.parametrize("words", [(), ("tags",)])
def test_an_option_before_its_command_is_told_its_place(everindex, words):
    code, said, complaint = everindex(*words, "--vault", "/notes", "list")
    assert (code, said) == (2, "")
    assert "Options follow the command: " in complaint
    assert complaint.endswith("".join(f"{word} " for word in words) + "COMMAND --vault\n")
    assert "Options follow" not in everindex(*words, "--vult", "/notes", "list")[2]


def test_a_word_to_leave_out_that_looks_like_an_option_is_explained(everindex):
    code, said, complaint = everindex("search", "daily", "note", "-template")
    assert (code, said) == (2, "")
    assert "No such option" in complaint
    assert "write -- before the question" in complaint
    assert "write --" not in everindex("orphans", "-t")[2]
    assert "write --" not in everindex("deep", "daily", "note", "-k", "3")[2]


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_an_answer(everindex, option):
    code, said, complaint = everindex("search", option)
    assert (code, complaint) == (0, "")
    assert "Find notes." in said


@pytest.mark.parametrize(
    ("group", "heading"),
    [((), "Your notes:"), *(((name,), "Commands:") for name in ("service", "tags", "rx"))],
)
def test_a_group_alone_shows_its_help(everindex, group, heading):
    code, said, complaint = everindex(*group)
    assert code == 2
    assert heading in said + complaint


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("serch", "x"), "search"),
        (("search",), "QUERY"),
        (("search", "x", "-k", "0"), "1<=x<=200"),
        (("search", "x", "-k", "many"), "many"),
        (("search", "x", "-f", "tag"), "NAME=VALUE"),
        (("search", "x", "--nonsense"), "--nonsense"),
        (("search", "x", "--no-json"), "--no-json"),
        (("deep", "x", "--mode", "slow"), "compare"),
        (("service", "serve"), "--host"),
        (("tags", "propose"), "--all-untagged"),
        (("tags", "undo", "last"), "last"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_what_is_wrong(everindex, words, named):
    code, said, complaint = everindex(*words)
    assert (code, said) == (2, "")
    assert named in complaint


@pytest.mark.parametrize(
    ("error", "code", "complaint"),
    [
        (NotRunningError("it does not run"), 1, "error: it does not run\n"),
        (ConfigurationError("it is [not] set"), 2, "error: it is [not] set\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_a_failure_is_reported_and_is_the_exit_code(everindex, monkeypatch, error, code, complaint):
    def wrong(**_):
        raise error

    monkeypatch.setattr(app.commands["reload"], "callback", wrong)
    ended, said, complained = everindex("reload")
    assert (ended, said) == (code, "")
    assert complained == complaint


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("delete", "everindex ignore PATH"),
        ("reindex", "everindex index --rebuild"),
        ("reset", "everindex index --rebuild"),
        ("validate", "everindex verify"),
        ("embed", "everindex index FILE"),
    ],
)
def test_a_command_of_another_program_is_answered_with_ours(everindex, word, instead):
    code, _, complaint = everindex(word, "x")
    assert code == 2
    assert f"There is no command '{word}'." in complaint
    assert instead in complaint
    assert "Did you mean" not in complaint


def test_a_misspelt_command_is_still_answered_with_one_like_it(everindex):
    assert "Did you mean one of: 'search'" in everindex("serch")[2]
