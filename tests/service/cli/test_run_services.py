"""What `everindex up` prints for a user's other terminals."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.child import Child
from pipelines.errors import ModelUnavailableError
from pipelines.sqlite import corrupt
from queue_config.settings import Settings
from service.cli.options import settings_of
from service.cli.run import _checked, print_findable, this_command, vault_choice
from service.runtime.client import Service, announced
from workers.resources import Resources


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A program in a folder whose name has a space; the current folder is its parent."""
    program = tmp_path / "my venv" / "everindex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["my venv/everindex", "up"])
    return program


def test_a_command_that_is_printed_works_in_any_folder(installed, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert [Path(word) for word in shlex.split(this_command())] == [installed]


def test_a_command_on_the_path_is_printed_by_its_name(installed, monkeypatch):
    monkeypatch.setenv("PATH", str(installed.parent))
    assert this_command() == "everindex"


def test_where_several_vaults_run_a_printed_command_names_its_own(tmp_path):
    services = []
    for number, root in enumerate([tmp_path / "my notes", tmp_path / "other"]):
        root.mkdir()
        services.append(Service(root, Resources(Settings(vault=root)).place.state, number, os.getpid()))
    with announced(services[0].state, 1, f"here:{os.getpid()}/1.0"):
        assert vault_choice(services[0]) == ""
        with announced(services[1].state, 2, f"here:{os.getpid()}/1.0"):
            assert vault_choice(services[0]) == f" --vault '{services[0].root}'"


def test_a_printed_command_names_a_state_folder_that_is_elsewhere(vault, tmp_path):
    state = tmp_path / "my state"
    Resources(Settings(vault=vault, state=state))
    chosen = vault_choice(Service(vault, state, 1, os.getpid()))
    assert chosen == f" --state '{state}'"
    assert settings_of({"state": Path(shlex.split(chosen)[1])}).vault == vault


@pytest.mark.parametrize(
    ("notes", "parked", "said"),
    [
        (1, 0, ["1 note is findable. Save another, and it will be too."]),
        (0, 0, ["No note is findable yet. Save one, and it will be."]),
        (0, 3, ["No note is findable yet. Save one, and it will be.", "3 could not be indexed:"]),
    ],
)
def test_after_the_first_index_up_says_how_many_notes_are_findable(tmp_path, capsys, notes, parked, said):
    health = {"domains": {"vault": {"notes": notes, "parked": parked}}, "problems": [], "other_files": {}}
    print_findable(health, Service(tmp_path, tmp_path / "state", 1, os.getpid()))
    lines = capsys.readouterr().out.splitlines()
    for sentence in said:
        assert any(line.startswith(sentence) for line in lines), lines


def test_after_the_first_index_up_says_which_files_it_could_index(tmp_path, capsys):
    health = {"domains": {"vault": {"notes": 1, "parked": 0}}, "problems": [], "other_files": {"pdf": 2}}
    health["to_index_other_files"] = ["in _domains.yaml, below `all:`, add the line `formats: [md, pdf]`"]
    print_findable(health, Service(tmp_path, tmp_path / "state", 1, os.getpid()))
    said = capsys.readouterr().out
    assert (
        "2 other files could be indexed: 2 pdf\n  in _domains.yaml, below `all:`, add the line `formats:"
        in said
    )


def test_after_the_first_index_up_says_that_an_index_is_damaged_instead_of_how_many_are_findable(
    tmp_path, capsys
):
    problem = str(corrupt(tmp_path / "cache-vault.1.db", ValueError("malformed")))
    health = {"domains": {"vault": {"notes": 3, "parked": 0}}, "problems": [problem], "other_files": {}}
    print_findable(health, Service(tmp_path, tmp_path / "state", 1, os.getpid()))
    said = capsys.readouterr().out
    assert "is damaged (malformed); `everindex index --rebuild` builds a new cache" in said
    assert "findable" not in said


def test_where_several_vaults_run_each_command_that_up_prints_names_its_own(tmp_path, capsys):
    services = []
    for name in ("notes", "other"):
        (tmp_path / name).mkdir()
        state = Resources(Settings(vault=tmp_path / name)).place.state
        services.append(Service(tmp_path / name, state, 1, os.getpid()))
    health = {"domains": {"vault": {"notes": 3, "parked": 2}}, "problems": [], "other_files": {}}
    running = f"here:{os.getpid()}/1.0"
    with announced(services[0].state, 1, running), announced(services[1].state, 2, running):
        print_findable(health, services[0])
    said = capsys.readouterr().out.splitlines()
    commands = [line for line in said if "status" in line or "search" in line or "open" in line]
    assert len(commands) == 3
    assert all(f" --vault {services[0].root}" in line for line in commands)
    assert commands[0].startswith("2 could not be indexed: ")


def test_up_warns_of_another_that_runs_on_the_vault_with_its_state_elsewhere(vault, tmp_path):
    settings = Settings(vault=vault)
    place = Resources(settings).place
    assert Child().call(_checked, settings) == ([], [])
    words = ["watch", "--vault", str(place.root), "--state", str(tmp_path / "elsewhere")]
    sleeping = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", *words]
    with subprocess.Popen(sleeping, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        _, (said,) = Child().call(_checked, settings)
        other.stdin.close()
    assert f"(process {other.pid}) runs on this vault" in said
    assert "Stop one of the two" in said


def test_up_raises_what_is_wrong_with_the_settings_of_a_model(vault, tmp_path):
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tmp_path / "no-model"))
    with pytest.raises(ModelUnavailableError, match="no-model"):
        Child().call(_checked, settings)
