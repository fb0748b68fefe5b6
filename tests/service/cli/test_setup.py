"""The command that sets up a vault: what it shows, what it asks on a terminal, and what it writes."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest
from click.testing import CliRunner

from pipelines import domains, formats
from pipelines.errors import NotFoundError
from pipelines.formats import install_command
from queue_config.settings import Settings
from service.cli.main import app
from service.runtime.client import announced
from tests.terminal import Terminal
from workers.resources import Resources

QUESTIONS = ("Ignore Templates/ (10 notes)? [Y/n]", "(Enter: none):", "files? [Y/n]")


@pytest.fixture
def notes(vault):
    for folder in ("Garden", "Work", "Templates"):
        (vault / folder).mkdir()
        for number in range(10):
            (vault / folder / f"{number}.md").write_text(f"#{folder.lower()}\n")
    return vault


def everindex(*words):
    return CliRunner().invoke(app, ["init", *map(str, words)], catch_exceptions=False)


def at_a_terminal(vault, *answers):
    """Run the command on a real terminal, type each answer after its question, and return all that it printed."""
    terminal = Terminal([sys.executable, "-m", "service.cli", "init", str(vault)])
    try:
        for question, answer in zip(QUESTIONS, answers, strict=True):
            terminal.until(question)
            terminal.press(f"{answer}\n")
        assert terminal.ended() == 0, terminal.said
    finally:
        terminal.close()
    return terminal.said.replace("\r\n", "\n")


def created(vault):
    return sorted(path.relative_to(vault).as_posix() for path in vault.rglob("*") if path.name[0] in "._")


def test_the_files_are_shown_in_full_and_then_written(notes):
    done = everindex(notes, "--yes", "--domain", "Garden/", "--ignore", "Templates/")
    assert done.exit_code == 0
    assert created(notes) == [".everindexignore", "Garden/_taxonomy.md", "_domains.yaml", "_taxonomy.md"]
    for path in created(notes):
        text = (notes / path).read_text()
        shown = "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
        assert f"{path}\n{shown}" in done.stdout
    assert done.stdout.endswith(f"up {notes}\n")
    assert "4 files written." in done.stdout


def test_a_dry_run_writes_nothing(notes):
    done = everindex(notes, "--yes", "--dry-run", "--domain", "Garden")
    assert done.exit_code == 0
    assert "    - work\n" in done.stdout
    assert re.search(r"\nNothing was written. Next: \S+ init \S+\n\Z", done.stdout)
    assert created(notes) == []


def test_without_a_terminal_the_files_are_shown_and_the_option_that_writes_them(notes):
    done = everindex(notes)
    assert done.exit_code == 2
    assert "    - work\n" in done.stdout
    assert "--yes writes these files" in done.stderr
    assert "Next:" not in done.stdout
    assert created(notes) == []


def test_options_leave_files_out(notes):
    done = everindex(notes, "--yes", "--no-ignore", "--no-vocabulary")
    assert done.exit_code == 0
    assert "There is nothing to set up" in done.stdout
    assert created(notes) == []


def test_documents_are_named_with_what_to_install_before_they_can_be_read(notes, monkeypatch):
    (notes / "report.pdf").write_bytes(b"x")
    (notes / "prices.csv").write_text("apple;2\n")
    monkeypatch.setattr(formats, "find_spec", lambda package: None if package == "pypdfium2" else package)
    done = everindex(notes, "--dry-run")
    assert "2 other files could be indexed, by `formats:` in _domains.yaml: 1 csv, 1 pdf\n" in done.stdout
    assert f"To read pdf: {install_command('documents')}\n" in done.stdout
    assert "      formats: [md, txt, canvas, csv, pdf]\n" in done.stdout
    assert "formats: [" not in everindex(notes, "--dry-run", "--no-documents").stdout


def test_what_an_existing_file_lacks_is_shown_for_the_user_to_add(notes):
    assert everindex(notes, "--yes", "--domain", "Garden", "--ignore", "Templates").exit_code == 0
    before = (notes / "_domains.yaml").read_text()
    done = everindex(notes, "--yes", "--domain", "Work", "--domain", "Garden")
    lines = "work:\n  path: Work\n"
    assert done.exit_code == 0
    assert (
        "_domains.yaml exists, and stays as it is.\nAdd these lines to it yourself:\n    work:\n      path: Work\n"
        in done.stdout
    )
    assert ".everindexignore exists, and stays as it is.\nNext:" in done.stdout
    assert (notes / "_domains.yaml").read_text() == before
    (notes / "_domains.yaml").write_text(before + lines)
    assert {one.path for one in domains.load(notes).domains} == {"", "Garden", "Work"}
    assert "Add these lines" not in everindex(notes, "--yes", "--domain", "Work").stdout
    assert "yourself:\n    /Work/\n" in everindex(notes, "--yes", "--ignore", "Work").stdout


def test_a_program_reads_what_is_planned_and_what_was_written(notes):
    (notes / "_taxonomy.md").write_text("- mine\n")
    planned = json.loads(everindex(notes, "--json").stdout)
    assert planned["vault"] == str(notes)
    assert {file["path"]: file["state"] for file in planned["files"]} == {
        "_taxonomy.md": "exists",
        ".everindexignore": "planned",
    }
    assert created(notes) == ["_taxonomy.md"]
    written = json.loads(everindex(notes, "--json", "--yes").stdout)
    assert [file["state"] for file in written["files"]] == ["exists", "written"]
    assert (notes / ".everindexignore").read_text() == written["files"][1]["content"]
    assert (notes / "_taxonomy.md").read_text() == "- mine\n"


def test_the_current_folder_is_the_vault_if_none_is_given(notes, monkeypatch):
    monkeypatch.chdir(notes)
    assert everindex("--yes").exit_code == 0
    assert created(notes) == [".everindexignore", "_taxonomy.md"]


def test_a_folder_that_is_not_in_the_vault_is_refused(notes):
    with pytest.raises(NotFoundError, match="no folder Nowhere"):
        everindex(notes, "--yes", "--ignore", "Nowhere")
    assert created(notes) == []


def test_on_a_terminal_each_decision_is_asked_for(notes):
    said = at_a_terminal(notes, "", "2", "y")
    assert "  1  Garden/ (10 notes)\n  2  Work/ (10 notes)\n" in said
    assert [(one.slug, one.path) for one in domains.load(notes).domains] == [("vault", ""), ("work", "Work")]
    assert (notes / ".everindexignore").read_text().endswith("\n/Templates/\n")
    assert created(notes) == [".everindexignore", "Work/_taxonomy.md", "_domains.yaml", "_taxonomy.md"]


def test_on_a_terminal_no_is_an_answer_to_the_question_for_domains(notes):
    assert "Write 2 files?" in at_a_terminal(notes, "y", "no", "n")
    assert created(notes) == []


def test_on_a_terminal_many_folders_to_ignore_are_asked_for_together(notes):
    for number in range(22):
        (notes / f"{number:02}" / "Trash").mkdir(parents=True)
        (notes / f"{number:02}" / "Trash" / "a.md").write_text("gone\n")
    terminal = Terminal([sys.executable, "-m", "service.cli", "init", str(notes)])
    try:
        terminal.until("Ignore 00/Trash/ (1 note)?")
        terminal.press("\n" * 20)
        terminal.until("Ignore 3 more such folders (12 notes)? [Y/n]")
        terminal.press("\n\ny\n")
        assert terminal.ended() == 0, terminal.said
    finally:
        terminal.close()
    lines = (notes / ".everindexignore").read_text().splitlines()[1:]
    assert lines == [*(f"/{number:02}/Trash/" for number in range(22)), "/Templates/"]


def test_on_a_terminal_nothing_is_written_unless_the_user_agrees(notes):
    said = at_a_terminal(notes, "y", "1", "n")
    assert "Nothing was written." in said
    assert created(notes) == []


def test_while_everindex_runs_it_need_not_be_started(notes):
    state = Resources(Settings(vault=notes)).place.state
    with announced(state, 1, f"here:{os.getpid()}/1.0"):
        done = everindex(notes, "--yes")
    assert done.stdout.endswith("Everindex is running, and uses what was written at once.\n")
