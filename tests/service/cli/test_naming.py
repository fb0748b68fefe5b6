"""Notes as a person names them in a terminal."""

from __future__ import annotations

import json
import sys

import pytest

from queue_config.settings import Settings
from service.cli.main import main
from service.runtime.lock import only_one
from service.usecases.maintenance import index_once
from workers.resources import Resources

UNDO = "`everindex ignore --undo"


@pytest.fixture
def run(vault, tmp_path, tiny_model, monkeypatch, capsys):
    """Run a command on a vault of three notes: exit code, output and complaints."""
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    for path, text in {
        "Sleep/Protecting Sleep.md": "---\naliases: [Rest]\n---\n# How to sleep\n\nDarkness helps.\n",
        "Soil.md": "# Soil\n\nIt is alive. [[Protecting Sleep]]\n",
        "Attic/Soil.md": "# Soil\n\nAn older one.\n",
    }.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(text)
    (vault / "Attic/Seeds.txt").write_text("Peas and beans.\n")
    (vault / "Sleep.png").touch()
    (vault / "Attic/Long.md").write_text("long " * 10_000)
    monkeypatch.setenv("EVERINDEX_MAX_NOTE_MB", "0.04")
    options = ("--vault", str(vault), "--state", str(tmp_path / "state"))
    index_once(Resources(Settings(vault=vault, state=tmp_path / "state")), lambda *_: None)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["everindex", *words, *options])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


COMMANDS = ["list --like", "links", "deep --from", "show", "why"]


@pytest.mark.parametrize("name", ["Protecting Sleep", "protecting-sleep", "rest", "Sleep/Protecting Sleep"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_one_note_has_is_as_good_as_its_path(run, command, name):
    by_name, by_path = (run(*command.split(), one, "--json") for one in (name, "Sleep/Protecting Sleep.md"))
    assert by_name[0] == by_path[0] == 0
    assert without_times(by_name[1]) == without_times(by_path[1])


@pytest.mark.parametrize("name", ["Seeds.txt", "seeds.TXT", "Seeds"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_document_is_named_by_its_file_name_too(run, command, name):
    by_name, by_path = (run(*command.split(), one, "--json") for one in (name, "Attic/Seeds.txt"))
    assert by_name[0] == by_path[0] == 0
    assert without_times(by_name[1]) == without_times(by_path[1])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_is_named_by_its_absolute_path_too(run, vault, command):
    by_name, by_path = (run(*command.split(), one, "--json") for one in (str(vault / "Soil.md"), "Soil.md"))
    assert by_name[0] == by_path[0] == 0
    assert without_times(by_name[1]) == without_times(by_path[1])


def test_an_absolute_path_outside_the_vault_is_no_note_of_it(run, tmp_path):
    code, said, complaint = run("why", str(tmp_path / "Elsewhere.md"))
    assert (code, complaint) == (0, "")
    assert said.endswith("Elsewhere.md is ignored: outside the vault\n")


def test_a_parked_note_is_named_without_its_suffix_too(run):
    assert run("why", "Attic/Long")[1].startswith("Attic/Long.md is parked: it has 0.1 MB")
    assert "parked" in run("log", "Attic/Long")[1]
    assert run("why", "Attic/Longer")[1].startswith("Attic/Longer is unknown")


def without_times(said):
    answer = json.loads(said)
    return {**answer, "took_ms": 0} if isinstance(answer, dict) else answer


@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_a_name_that_several_notes_have_is_answered_with_their_paths(run, command):
    code, said, complaint = run(*command.split(), "Soil")
    assert (code, said) == (1, "")
    assert complaint.startswith("error: Soil is the name of several notes: ")
    assert "Attic/Soil.md" in complaint


@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_a_name_that_no_note_has_is_answered_with_those_like_it(run, command):
    code, said, complaint = run(*command.split(), "Protect")
    assert (code, said) == (1, "")
    assert complaint == "error: no note is called Protect; did you mean Sleep/Protecting Sleep.md?\n"
    assert run(*command.split(), "Protecting Slep.md")[2].endswith(
        "; did you mean Sleep/Protecting Sleep.md?\n"
    )


def test_why_suggests_notes_for_a_name_that_no_note_or_several_have(run):
    assert run("why", "Protect")[1].endswith("; did you mean Sleep/Protecting Sleep.md?\n")
    assert run("why", "Sleep/Protecting Slep.md")[1].endswith("; did you mean Sleep/Protecting Sleep.md?\n")
    assert run("why", ".trash/Protecting Slep.md")[1] == ".trash/Protecting Slep.md is ignored: dot-folder\n"
    code, said, complaint = run("why", "Soil")
    assert (code, said) == (1, "")
    assert complaint.startswith("error: Soil is the name of several notes: ")
    assert complaint.endswith("; give a path\n")


def test_why_names_the_line_of_the_rule_that_decides(run, vault):
    (vault / ".everindexignore").write_text("# ours\ndrafts/\n")
    assert (
        run("why", "drafts/a.md")[1]
        == f"drafts/a.md is ignored: .everindexignore:2: drafts/; {UNDO} drafts` removes that line\n"
    )
    answer = json.loads(run("why", "--json", "drafts/a.md")[1])
    assert answer["rule"] == {"file": ".everindexignore", "line": 2, "pattern": "drafts/"}
    (vault / "drafts" / "old").mkdir(parents=True)
    assert run("why", "drafts/old")[1].startswith("drafts/old is ignored: .everindexignore:2: drafts/")
    (vault / "drafts" / "Protecting Slep").mkdir()  # a note is called almost so
    assert run("why", "drafts/Protecting Slep")[1].endswith("` removes that line\n")


def test_why_knows_a_file_that_was_not_read_yet_and_what_became_of_one_that_is_gone(run, vault):
    (vault / "New.md").write_text("new\n")
    assert run("why", "New.md")[1].startswith(
        "New.md is pending: it was not read yet; `everindex index` indexes it now"
    )
    assert run("index")[0] == 0
    assert run("why", "New.md")[1].startswith("New.md is indexed")
    (vault / "New.md").rename(vault / "Newer.md")
    assert run("index")[0] == 0
    assert run("why", "New.md")[1].startswith("New.md is unknown: it was renamed to Newer.md")
    (vault / "Newer.md").rename(vault / "Newest.md")
    assert run("index")[0] == 0
    assert run("why", "New.md")[1].startswith("New.md is unknown: it was renamed to Newest.md")
    (vault / "Newest.md").rename(vault / "Newer.md")
    assert run("index")[0] == 0
    (vault / "Newer.md").unlink()
    assert run("index")[0] == 0
    assert "Newer.md is unknown: it was taken out of the index on 20" in run("why", "Newer.md")[1]


def test_why_asks_the_rules_as_they_are_now(run, vault):
    (vault / "Soon.md").write_text("soon\n")
    (vault / ".everindexignore").write_text("/Soon.md\n")
    assert run("index")[0] == 0
    assert (
        run("why", "Soon.md")[1]
        == f"Soon.md is ignored: .everindexignore:1: /Soon.md; {UNDO} Soon.md` removes that line\n"
    )
    (vault / ".everindexignore").unlink()
    assert run("why", "Soon.md")[1].startswith("Soon.md is pending: it was not read yet")
    (vault / "Soon.md").unlink()
    assert run("why", "Soon.md")[1].startswith("Soon.md is unknown: there is no such file")


def test_a_file_that_a_rule_ignores_is_named_by_its_file_name_unless_a_note_is_called_so(run, vault):
    for path in ("Drafts/Worms.md", "Drafts/Soil.md", "Drafts/Twice.md", "Drafts/More/Twice.md"):
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text("A draft.\n")
    (vault / ".everindexignore").write_text("Drafts/\n")
    assert run("index")[0] == 0
    ignored = f"Drafts/Worms.md is ignored: .everindexignore:1: Drafts/; {UNDO} Drafts` removes that line\n"
    for name in ("Worms", "worms", "Drafts/Worms", "Worms.md", "worms.MD"):
        assert run("why", name)[1] == ignored
    assert "Drafts/Worms.md is ignored" in run("show", "Worms")[2]
    assert run("why", "How to sleep")[1].startswith("Sleep/Protecting Sleep.md is indexed")
    assert "is the name of several notes" in run("why", "Soil")[2]
    assert run("why", "Twice")[1].startswith(
        "Twice is unknown: no note has this path, and no indexed note this title"
    )


def test_a_file_that_was_just_deleted_is_said_to_be_gone(run, vault):
    (vault / "Sleep/Protecting Sleep.md").unlink()
    gone = "Sleep/Protecting Sleep.md is pending: its file is gone, so no answer has it"
    assert run("why", "Sleep/Protecting Sleep.md")[1].startswith(gone)
    code, _, complaint = run("show", "Sleep/Protecting Sleep.md")
    assert (code, gone in complaint) == (1, True)


def test_why_finds_a_note_that_leaves_the_index_between_its_two_questions(run, vault, tmp_path, monkeypatch):
    (vault / ".everindexignore").write_text("/Sleep/\n")

    def no_longer_named(*_):
        index_once(Resources(Settings(vault=vault, state=tmp_path / "state")), lambda *_: None)
        return [], []

    monkeypatch.setattr("service.cli.search.paths_called", no_longer_named)
    assert run("why", "Protecting Sleep")[1].startswith(
        "Sleep/Protecting Sleep.md is ignored: .everindexignore:1"
    )


def test_an_answer_without_a_running_everindex_says_that_saves_are_missing(run, tmp_path):
    asked = [("search", "worms"), ("status",)]
    for command in asked:
        assert "Everindex is not running, so notes saved since are missing" in run(*command)[1]
    with only_one(tmp_path / "state"):  # what the watcher does
        for command in asked:
            said = run(*command)[1]
            assert "Everindex starts just now; until its query worker answers" in said
            assert "running" not in said
    code, said, complaint = run("status", "--wait")
    assert (code, said) == (1, "")
    assert complaint.startswith("error: Everindex is not running on this vault")


@pytest.mark.parametrize("question", ["", " ", "\t\n"])
@pytest.mark.parametrize("command", ["search", "deep", "list"])
def test_an_empty_question_is_refused_with_a_sentence(run, command, question):
    code, said, complaint = run(command, question)
    assert (code, said) == (2, "")
    assert complaint.endswith("the question is empty; give at least one word\n")


def test_why_says_of_a_name_that_no_note_has_what_is_known_of_that_path(run):
    assert run("why", "Nowhere") == (
        0,
        "Nowhere is unknown: no note has this path, and no indexed note this title\n",
        "",
    )
    assert run("why", "Attic")[1] == "Attic is a folder: `everindex list -f folder=Attic` lists its notes\n"
    assert run("show", "Attic")[2] == (
        "error: Attic is a folder: `everindex list -f folder=Attic` lists its notes\n"
    )
    assert run("why", ".")[1] == ". is a folder: `everindex list` lists its notes\n"
    assert run("why", "Sleep.png") == (0, "Sleep.png is ignored: not of a format that is indexed\n", "")


def test_why_of_a_file_without_a_suffix_is_about_that_file(run):
    assert run("why", ".everindex/id")[1].startswith(".everindex/id is ignored: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_without_a_character_is_refused_with_a_sentence(run, command):
    code, said, complaint = run(*command.split(), " ")
    assert (code, said) == (1, "")
    assert complaint == "error: the name is empty; give the path of a note, or its title\n"


def test_why_knows_a_folder_whose_name_is_decomposed_on_disk(run, vault):
    (vault / "Re\u0301sume\u0301s").mkdir()
    assert run("why", "R\u00e9sum\u00e9s")[1].startswith("R\u00e9sum\u00e9s is a folder: ")


def test_a_note_that_links_and_embeds_counts_once_among_the_backlinks(run, vault):
    (vault / "Twice.md").write_text("[[Worms alone]] and ![[Worms alone]].\n")
    (vault / "Worms alone.md").write_text("They dig.\n")
    assert run("index")[0] == 0
    code, said, complaint = run("links", "Worms alone")
    assert (code, complaint) == (0, "")
    assert said.splitlines()[-1] == "links to 0 files; 1 note links here"
    assert len(said.splitlines()) == 3


def test_the_links_of_a_note_are_listed_both_ways(run, vault):
    (vault / "Sleep/Protecting Sleep.md").write_text("# Rest\n\n[[Seeds.txt]]\n\nSee [[Nowhere]].\n")
    assert run("index")[0] == 0
    assert run("links", "Protecting Sleep")[1].splitlines() == [
        "Sleep/Protecting Sleep.md:3 → Attic/Seeds.txt",
        "Sleep/Protecting Sleep.md:5 → Nowhere  (no file matches)",
        "Soil.md:3 → Sleep/Protecting Sleep.md",
        "links to 1 file and to 1 missing; 1 note links here",
    ]
    assert run("links", "Protecting Sleep", "--broken")[0] == 2


def test_a_note_that_no_other_can_be_compared_with_is_told_so(run):
    assert run("list", "--like", "Protecting Sleep", "-f", "folder=Nowhere")[1] == (
        "No note that passes the filters can be compared with it.\n"
    )


def test_a_note_is_ignored_by_its_name_or_its_alias(run):
    assert run("ignore", "rest")[1].startswith("Sleep/Protecting Sleep.md is ignored: ")
    code, _, complaint = run("ignore", "Soil")
    assert code == 1
    assert "Soil is the name of several notes" in complaint


def test_attention_without_a_command_lists_it(run):
    assert run("attention")[:2] == run("attention", "list")[:2]
    assert run("attention")[0] == 0
