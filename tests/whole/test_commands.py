"""What every command answers to an unknown note or domain while a service runs: a sentence and an exit code."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from contextlib import closing

import click
import httpx
import pytest

from tests.service.cli.test_commands import arguments, each, ends, is_one_sentence, named, program
from tests.terminal import Terminal


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


FORMER = [
    ("node Caffeine", "show Caffeine"),
    ("titles sleep --limit 1", "list sleep -k 1"),
    ("similar Caffeine -k 3 --tag sleep", "list --like Caffeine -k 3 --tag sleep"),
    ("orphans --domain archive", "links --orphans --domain archive"),
    ("communities --json", "graph --communities --json"),
    ("traverse Caffeine --query sleep --depth 1", "deep sleep --from Caffeine --depth 1"),
    ("traverse Caffeine --all", "deep --from Caffeine --all"),
    ("promote --domain archive", "tags apply --domain archive"),
    ("retry", "index --retry"),
    ("reload", "index"),
    ("confirm-deletions", "index --confirm-deletions"),
    ("rx list --limit 3", "evidence list --limit 3"),
    ("verify-quotes -", "evidence verify -"),
]


@pytest.mark.parametrize(("was", "now"), FORMER, ids=[was for was, _ in FORMER])
def test_a_former_name_does_what_it_did_and_names_the_new_form(everindex, monkeypatch, was, now):
    answers = []
    for words in (was, now):
        monkeypatch.setattr(sys, "stdin", io.StringIO("[]"))
        code, said, complaint = everindex(*words.split())
        answers.append((code, re.sub(r"[\d.]+ ms", "", said)))
        assert complaint.count("is now `everindex ") == complaint.count("\n") == (words == was)
    assert answers[0] == answers[1]


def test_the_former_command_for_backlinks_lists_only_them(everindex):
    code, said, complaint = everindex("backlinks", "Caffeine", "--json")
    assert (code, complaint.count("\n")) == (0, 1)
    assert json.loads(said) == json.loads(everindex("links", "Caffeine", "--json")[1])["backlinks"]
    assert "notes link here" in everindex("backlinks", "Caffeine")[1]


def test_a_name_is_looked_for_only_among_the_notes_that_pass_filters(everindex):
    named = json.loads(everindex("list", "sleep", "--json")[1])["results"]
    fit = json.loads(everindex("list", "sleep", "--domain", "fitness", "--json")[1])
    assert fit["count"] == len(fit["results"]) > 0
    assert {hit["path"] for hit in fit["results"]} == {
        hit["path"] for hit in named if hit["path"].startswith("fitness/")
    }


def test_a_list_ends_after_as_many_notes_as_were_asked_for(everindex):
    newest = json.loads(everindex("list", "--sort", "date", "--json")[1])
    three = json.loads(everindex("list", "--sort", "date", "-k", "3", "--json")[1])
    assert three == newest | {"notes": newest["notes"][:3]}


def test_open_with_print_opens_nothing_and_gives_a_link_that_signs_in_once(example, everindex, opened):
    code, said, _ = everindex("open", "--print")
    address, link = said.splitlines()
    assert (code, address, opened()) == (0, f"http://127.0.0.1:{example.port}", [])
    assert httpx.get(link).cookies
    assert not httpx.get(link).cookies


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return what the browser was asked to open."""
    for name in ("xdg-open", "open"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/opened\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    file = tmp_path / "opened"
    return lambda: file.read_text().splitlines() if file.exists() else []


def test_the_token_is_alone_in_a_pipe_and_explained_on_a_terminal(example, everindex):
    token = (example.state / "token").read_text().strip()
    assert everindex("token") == (0, f"{token}\n", "")
    command = [sys.executable, "-m", "service.cli", "token", *example.place]
    with closing(Terminal(command, example.environment)) as shown:
        assert shown.ended() == 0
    first, how = shown.said.splitlines()
    assert first == token
    assert "Bearer $(everindex token)" in how
    assert f"http://127.0.0.1:{example.port}/search?q=" in how


def test_the_port_in_the_configuration_is_that_of_the_running_service(example, everindex):
    shown = json.loads(everindex("config", "--json")[1])
    assert shown["port"] == {"value": str(example.port), "from": "running"}
    assert json.loads(everindex("config", "--port", "1", "--json")[1])["port"]["value"] == "1"


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
