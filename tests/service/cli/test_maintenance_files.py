"""The command that indexes single files of a vault, here without a service."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from service.cli.main import app
from tests.working import indexed
from workers.resources import Resources

NOTES = {"Soil.md": "# Soil\n\nclay\n\n## Worms\n\nThey dig.\n", "Garden/Fern.md": "# Fern\n\nshade\n"}


@pytest.fixture
def settings(vault, tmp_path, tiny_model, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    return indexed(vault, tmp_path / "state", tiny_model, NOTES)


@pytest.fixture
def index(settings):
    place = ["--vault", str(settings.vault), "--state", str(settings.state)]
    return lambda *words: CliRunner().invoke(app, ["index", *words, *place], catch_exceptions=False)


def log_of(settings, path):
    """Return what was done to a note: actions, newest first, with the texts that were embedded."""
    from pipelines.state.note_log import NoteLog

    entries = Resources(settings).stores.of(NoteLog).of_note(path, 50)
    return [(one.action, one.texts_embedded) for one in entries]


def test_each_file_is_indexed_and_named_with_its_passages_and_milliseconds(index, settings, vault):
    (vault / "Boat.md").write_text("a wherry")
    (vault / "Soil.md").write_text("# Soil\n\nloam\n")
    done = index("Boat.md", "Soil.md")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        "Boat.md: 1 passage",
        "Soil.md: 1 passage",
    ]
    assert all(line.endswith(" ms") for line in done.stdout.splitlines())
    cache = Resources(settings).reader(Resources(settings).domains()[0])
    assert {"Boat.md", "Soil.md", "Garden/Fern.md"} == set(cache.ledger.settled())  # with vectors


def test_only_a_forced_file_is_indexed_again_unchanged_and_its_vectors_are_kept(index, settings):
    before = log_of(settings, "Soil.md")
    index("Soil.md")
    assert log_of(settings, "Soil.md") == before
    assert index("Soil.md", "--force").stdout.startswith("Soil.md: 2 passages, ")
    assert log_of(settings, "Soil.md") == [("indexed", 0), *before]


def test_a_file_is_named_as_the_shell_completes_it_or_from_the_vault_or_by_its_title(
    index, vault, monkeypatch
):
    monkeypatch.chdir(vault / "Garden")
    (vault / "Fern.md").write_text("another one")
    said = index("Fern.md", "../Soil.md", str(vault / "Fern.md"), "Garden/Fern.md", "Worms.md").output
    assert [line.split(":")[0] for line in said.splitlines()] == [
        "Garden/Fern.md",
        "Soil.md",
        "Fern.md",
        "Garden/Fern.md",
        "error",
    ]
    assert index("Soil", "Soil").stdout.count("Soil.md: 2 passages") == 2


def test_the_vault_is_the_one_around_the_file(settings, vault, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["index", str(vault / "Soil.md"), "--state", str(settings.state)]
    assert CliRunner().invoke(app, words).stdout.startswith("Soil.md: 2 passages, ")


def test_a_file_that_cannot_be_indexed_is_named_with_the_reason_and_stops_no_other(
    index, settings, vault, tmp_path
):
    (tmp_path / "Secret.md").write_text("secret")
    (vault / "Hidden.md").write_text("")
    (vault / ".everindexignore").write_text("/Hidden.md\n")
    (vault / "record.yaml").write_text("a: 1")
    (vault / "picture.png").write_bytes(b"")
    with (vault / "Large.md").open("wb") as file:
        file.truncate(settings.max_note_bytes + 1)
    reasons = {
        "../No.md": "outside the vault",
        str(tmp_path / "Secret.md"): "outside the vault",
        "Hidden.md": ".everindexignore:1: /Hidden.md",
        "record.yaml": "writes a _domains.yaml with the formats",
        "picture.png": "not of a format that is indexed",
        "Garden": "a folder",
        "Missing.md": "no such file",
        "Large.md": "Large.md is parked: it has 10.0 MB, more than max_note_mb",
    }
    done = index(*reasons, "Soil.md")
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].startswith("Soil.md: 2 passages")
    for line, (name, reason) in zip(done.output.splitlines(), reasons.items(), strict=False):
        assert name in line
        assert reason in line
    for name in reasons:
        assert index(name).exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--force",), "name some, or use --rebuild"), (("Soil.md", "--rebuild"), "leave out the files")],
)
def test_what_is_for_files_is_refused_for_a_vault_and_the_reverse(index, words, said):
    done = index(*words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_folder_of_a_vault_is_not_made_a_vault_of_its_own(settings, vault):
    (vault / "Garden").mkdir(exist_ok=True)
    done = CliRunner().invoke(app, ["index", str(vault / "Garden"), "--state", str(settings.state)])
    assert done.exit_code == 2
    assert "Garden is a folder of the vault" in " ".join(done.stderr.split())
    assert not (vault / "Garden/.everindex").exists()


def test_a_single_folder_is_a_vault(settings, vault):
    done = CliRunner().invoke(app, ["index", str(vault), "--state", str(settings.state)])
    assert "2 as they were" in done.stdout
