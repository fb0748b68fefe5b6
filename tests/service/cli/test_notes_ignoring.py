"""The command that keeps a note out of the index, and lets it in again."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pipelines.errors import UnsafePathError, VaultNotFoundError
from queue_config.settings import Settings
from service.cli.main import app
from service.usecases.maintenance import index_once
from workers.resources import Resources


@pytest.fixture
def settings(vault, tmp_path, tiny_model, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    (vault / "[Soil]*.md").write_text("clay")
    (vault / "[Soil]s.md").write_text("clay and sand")
    made = Settings(vault=vault, state=tmp_path / "state")
    index_once(Resources(made), lambda *_: None)
    return made


@pytest.fixture
def everindex(settings):
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]
    return lambda *words: CliRunner().invoke(app, [*words, *place], catch_exceptions=False)


def listed(everindex, settings):
    index_once(Resources(settings), lambda *_: None)
    return [note["path"] for note in json.loads(everindex("list", "--json").stdout)["notes"]]


def test_exactly_one_note_leaves_the_index_and_comes_back(everindex, settings, vault):
    done = everindex("ignore", "[Soil]*.md")
    assert done.exit_code == 0
    assert done.stdout == (
        "[Soil]*.md is ignored: /\\[Soil]\\*.md was added to .everindexignore; --undo removes it;"
        " Everindex is not running, and does so when it is started\n"
    )
    assert listed(everindex, settings) == ["[Soil]s.md"]
    assert (vault / "[Soil]*.md").read_text() == "clay"
    assert everindex("ignore", "--undo", str(vault / "[Soil]*.md")).exit_code == 0
    assert listed(everindex, settings) == ["[Soil]*.md", "[Soil]s.md"]


def test_undo_says_which_rule_still_ignores_the_note(everindex, vault):
    (vault / "notes").mkdir()
    (vault / "notes" / "a.md").write_text("loam")
    assert everindex("ignore", "notes").exit_code == everindex("ignore", "notes/a.md").exit_code == 0
    assert everindex("ignore", "--undo", "notes/a.md").stdout.startswith(
        "/notes/a.md was removed from .everindexignore; it is still ignored: .everindexignore:2: /notes/"
    )
    assert everindex("ignore", "--undo", "notes").stdout.startswith(
        "/notes/ was removed from .everindexignore; it is indexed again"
    )


def test_why_says_of_an_indexed_note_that_a_rule_ignores_it_now(everindex):
    everindex("ignore", "[Soil]s.md")
    said = everindex("why", "[Soil]s.md").stdout
    assert said.startswith("[Soil]s.md is indexed: it is ignored now (.everindexignore:2: /\\[Soil]s.md); ")


def test_a_file_outside_of_the_vault_is_refused(everindex, tmp_path, vault):
    (tmp_path / "mine.md").write_text("clay")
    with pytest.raises(UnsafePathError):
        everindex("ignore", str(tmp_path / "mine.md"))
    assert not (vault / ".everindexignore").exists()


@pytest.mark.parametrize("undo", [(), ("--undo",)], ids=["ignore", "undo"])
def test_of_a_vault_that_is_moved_away_no_note_is_called_missing(everindex, vault, undo):
    vault.rename(vault.with_name("moved"))
    with pytest.raises(VaultNotFoundError, match="is not there"):
        everindex("ignore", "[Soil]*.md", *undo)


@pytest.mark.parametrize("said", ["odd \udcff.md", r"odd \xff.md"], ids=["bytes", "as-printed"])
def test_a_name_that_is_not_utf_8_is_ignored_and_comes_back(everindex, settings, vault, said):
    (vault / "odd \udcff.md").write_text("peat")
    assert r"odd \xff.md" in listed(everindex, settings)
    assert everindex("ignore", said).stdout.startswith(r"odd \xff.md is ignored: /odd \xff.md was added")
    assert r"odd \xff.md" not in listed(everindex, settings)
    assert everindex("ignore", "--undo", said).stdout.startswith(r"/odd \xff.md was removed")
    assert r"odd \xff.md" in listed(everindex, settings)


@pytest.mark.parametrize("said", ["Büro", "Büro/", "Bu\u0308ro/"])
def test_a_folder_is_named_with_or_without_its_slash(everindex, settings, vault, said):
    (vault / "Büro").mkdir()
    (vault / "Büro" / "desk.md").write_text("oak")
    assert everindex("ignore", said).exit_code == 0
    assert "Büro/desk.md" not in listed(everindex, settings)
    assert everindex("ignore", "--undo", said).exit_code == 0
    assert "Büro/desk.md" in listed(everindex, settings)


@pytest.mark.parametrize(
    ("file", "line", "cure"),
    [
        (".everindexignore", "Drafts/", "`everindex ignore --undo Drafts` removes that line"),
        (".everindexignore", "/Drafts/[[]x].md", "delete line 1 of .everindexignore, or let it match less"),
        (
            ".gitignore",
            "Drafts/",
            "write `!Drafts/` in .everindexignore, which git does not read, and which overrides .gitignore",
        ),
    ],
)
def test_why_says_what_lets_an_ignored_note_in_and_that_does_it(everindex, settings, vault, file, line, cure):
    (vault / "Drafts").mkdir()
    (vault / "Drafts/[x].md").write_text("secret")
    (vault / file).write_text(f"{line}\n")
    assert "Drafts/[x].md" not in listed(everindex, settings)
    said = everindex("why", "Drafts/[x].md").stdout
    assert said == f"Drafts/[x].md is ignored: {file}:1: {line}; {cure}\n"
    if "--undo" in cure:
        assert "it is indexed again" in everindex("ignore", "--undo", "Drafts").stdout
    elif "delete" in cure:
        (vault / file).unlink()
    else:
        (vault / ".everindexignore").write_text("!Drafts/\n")
    assert "Drafts/[x].md" in listed(everindex, settings)


def test_undo_takes_the_line_itself_and_lists_the_lines_where_none_names_the_path(everindex, vault):
    (vault / ".everindexignore").write_text("Drafts/**\n*.tmp\n/Old/\n")
    refused = CliRunner().invoke(
        app, ["ignore", "--undo", "Draft", "--vault", str(vault), "--state", str(vault.parent / "state")]
    )
    assert refused.exit_code != 0
    assert "its lines are Drafts/**, *.tmp, /Old/;" in str(refused.exception)
    for name in ("Drafts/", "*.tmp", "/Old/"):
        assert everindex("ignore", "--undo", name).exit_code == 0
    assert not (vault / ".everindexignore").read_text()


@pytest.mark.parametrize(
    ("domains", "below"),
    [
        ("", ""),
        ("all: {legacy: true}\n", "below `all:`, add the line"),
        ("all: {legacy: true, formats: [md, csv]}\n", "below `all:`, change the line `formats:` to"),
    ],
)
def test_why_and_status_say_what_has_a_format_indexed_and_that_does_it(
    everindex, settings, vault, domains, below
):
    (vault / "r.yaml").write_text("id: X\nname: Ypsilon\ntext: A record of the clay that was bought.\n")
    if domains:
        (vault / "_domains.yaml").write_text(domains)
    listed(everindex, settings)
    present = "md, csv" if "csv" in domains else "md, txt, canvas"
    cure = f"in _domains.yaml, {below} `formats: [{present}, yaml]`; that line lists every format"
    if not domains:
        cure = f"`everindex init {vault}` writes a _domains.yaml with the formats of your files"
    reason = "r.yaml is ignored: its format is not indexed here (yaml)"
    assert everindex("why", "r.yaml").stdout == f"{reason}; {cure}\n"
    assert f"1 other file could be indexed: 1 yaml\n  {cure}\n" in everindex("status").stdout
    if domains:
        new = domains.replace(", formats: [md, csv]", "").replace("}", f", formats: [{present}, yaml]}}")
        (vault / "_domains.yaml").write_text(new)
    else:
        assert everindex("init", "--yes", "--no-ignore").exit_code == 0
    assert "r.yaml" in listed(everindex, settings)
