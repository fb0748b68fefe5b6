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
from service.cli.options import summary

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
        if not one.hidden:
            yield from commands(one) if hasattr(one, "commands") else [one]


def listed(said):
    """Return what a help lists under each heading: the commands with their summaries."""
    parts = re.findall(r"^([A-Z][^\n]*):\n((?:  .*\n?)+)", said, re.MULTILINE)
    return {
        heading: dict(re.findall(r"^  (\S+) +(\S.*)$", text, re.MULTILINE))
        for heading, text in parts
        if heading != "Options"
    }


@pytest.mark.parametrize("group", ["service", "tags", "evidence"])
def test_the_help_of_a_group_lists_its_commands_as_they_are_defined(group):
    defined: Any = app.commands[group]
    said = CliRunner().invoke(app, [group, "--help"]).output.partition("Commands:")[2]
    told = " ".join(said.split())
    assert told == " ".join(f"{n} {summary(one)}" for n, one in defined.commands.items() if not one.hidden)


def test_the_help_lists_ten_commands_a_line_each_and_says_how_to_see_the_others():
    said = CliRunner().invoke(app, ["--help"], terminal_width=80).output
    first = listed(said)
    assert [len(names) for names in first.values()] == [10]
    shown = CliRunner().invoke(app, ["--help", "--all"], terminal_width=80).output
    every = listed(shown)
    assert first.items() <= every.items()
    more = sum(map(len, every.values())) - 10
    assert f"`{app.name or 'root'} --help --all` shows {more} more commands" in " ".join(said.split())
    assert "more commands" not in shown
    assert max(map(len, (said + shown).splitlines())) <= 80


def test_with_all_the_help_lists_every_command_once_but_no_former_name():
    every = listed(CliRunner().invoke(app, ["--help", "--all"]).output)
    named = {name: text for names in every.values() for name, text in names.items()}
    assert sum(map(len, every.values())) == len(named)
    assert named == {name: summary(one) for name, one in app.commands.items() if not one.hidden}


def test_help_is_found_in_each_way_in_which_other_programs_have_it(everindex):
    every = everindex("--help", "--all")
    assert every[0] == 0
    for words in (("--all", "--help"), ("-h", "--all"), ("--all",), ("help", "--all")):
        assert everindex(*words) == every
    assert everindex("help") == everindex("--help")
    assert everindex("help", "tags", "rename") == everindex("tags", "rename", "--help")
    assert everindex("search", "--all", "--help") == everindex("search", "--help")


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
            if not isinstance(here, click.Group) or word.startswith("-"):
                break  # what follows is an argument or an option
            assert word in here.commands, line
            here = here.commands[word]


def test_every_command_is_in_the_readme_or_the_documents():
    text = "".join(
        page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    )
    for name, one in app.commands.items():
        assert one.hidden or re.search(rf"everindex {name}\b", text), name


def former(group, words=()):
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from former(one, (*words, name))
        elif one.hidden or words == ("rx",):
            yield (*words, name)


@pytest.mark.parametrize("words", [*former(app)], ids=" ".join)
def test_a_former_name_names_a_form_that_exists(everindex, words):
    code, said, complaint = everindex(*words, "--help")
    assert (code, complaint) == (0, "")
    (now,) = re.findall(r"Now `everindex (.+?)`\.", " ".join(said.split()))
    here, (first, *others) = app, [word for word in now.split() if not word.isupper()]
    command = here.commands[first]
    if isinstance(command, click.Group):
        command = command.commands[others.pop(0)]
    assert not command.hidden
    options = {name for one in command.params for name in one.opts}
    assert set(others) <= options


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
    assert "There is no option '-t'" in complaint
    assert "write -- before the question" in complaint
    assert "write --" not in everindex("status", "-t")[2]
    assert "write --" not in everindex("deep", "daily", "note", "-k", "3")[2]


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_an_answer(everindex, option):
    code, said, complaint = everindex("search", option)
    assert (code, complaint) == (0, "")
    assert "Find notes, by meaning and by exact word." in said


@pytest.mark.parametrize(
    ("group", "heading"),
    [((), "Commands:"), *(((name,), "Commands:") for name in ("service", "tags", "evidence"))],
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
        (("deep",), "QUESTION"),
        (("deep", "x", "--depth", "1"), "--from"),
        (("deep", "--from", "x", "--mode", "fast"), "--mode"),
        (("list", "x", "--like", "y"), "--like"),
        (("list", "x", "--sort", "date"), "--sort"),
        (("links", "--orphans", "--broken"), "--orphans"),
        (("graph", "--json"), "--communities"),
        (("index", "--retry", "--rebuild"), "--retry"),
        (("index", "--confirm-deletions", "x.md"), "--confirm-deletions"),
        (("tags", "rename", "dirt"), "new name"),
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

    monkeypatch.setattr(app.commands["verify"], "callback", wrong)
    ended, said, complained = everindex("verify")
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
        ("find", "everindex search QUESTION"),
        ("start", "everindex up VAULT"),
        ("rename", "everindex tags rename OLD NEW"),
    ],
)
def test_a_command_of_another_program_is_answered_with_ours(everindex, word, instead):
    code, _, complaint = everindex(word, "x")
    assert code == 2
    assert f"There is no command '{word}'; " in complaint
    assert instead in complaint
    assert "did you mean" not in complaint


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("serch", "soil"), "search"),
        (("opne",), "open"),
        (("link", "x"), "links"),
        (("tags", "renmae"), "rename"),
        (("tags", "lst"), "list"),
        (("search", "x", "--jsno"), "--json"),
        (("search", "x", "--rerannk"), "--rerank"),
        (("search", "x", "--no-rernk"), "--no-rerank"),
        (("status", "--weit"), "--wait"),
        (("--hlep",), "--help"),
    ],
    ids=" ".join,
)
def test_a_misspelt_command_or_option_is_offered_corrected(everindex, words, meant):
    code, said, complaint = everindex(*words)
    assert (code, said) == (2, "")
    assert complaint.endswith(f"; did you mean `{meant}`?\n")


@pytest.mark.parametrize(
    "words",
    [
        ("frobnicate",),
        ("vault",),
        ("xx",),
        ("orphan",),
        ("search", "x", "--recent"),
        ("search", "x", "--color"),
        ("status", "--quiet"),
    ],
    ids=" ".join,
)
def test_what_is_near_to_nothing_gets_no_suggestion(everindex, words):
    code, said, complaint = everindex(*words)
    assert (code, said) == (2, "")
    assert f"There is no {'option' if words[1:] else 'command'} '{words[-1]}'\n" in complaint
    assert "did you mean" not in complaint.lower()
