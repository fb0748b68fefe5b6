"""A hit opens in a program of the user's, with an address or arguments that nothing in a vault can manipulate."""

from __future__ import annotations

import json
import sys
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from pipelines.errors import ConfigurationError, NotFoundError, UnsafePathError, VaultNotFoundError
from pipelines.state.attention import Attention
from queue_config.settings import Settings
from service.cli.main import app
from service.cli.options import open_hit
from service.runtime.programs import open_note
from service.usecases.maintenance import index_once
from tests.programs import put_programs
from workers.attention import _RECORDER
from workers.resources import Resources

ODD = "-x & path=b %20 #1 $(touch y) 'ü.md"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A real program in place of the editor and of the system's opener, which writes down its arguments."""
    calls = put_programs(tmp_path / "bin", ("xdg-open", "open", "editor"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "editor --wait")
    return lambda: calls()[-1][1:]


def test_an_editor_is_given_the_line_and_an_absolute_path(vault, opened):
    (vault / ODD).write_text("clay")
    open_note(vault, ODD, 7)
    assert opened() == ["--wait", "+7", str(vault / ODD)]


@pytest.mark.parametrize("recording", [True, False])
def test_a_note_that_is_opened_is_recorded_if_the_operator_says_so(
    vault, opened, tmp_path, monkeypatch, recording
):
    (vault / "Soil.md").write_text("clay")
    monkeypatch.setenv("EVERINDEX_ATTENTION", str(recording))
    resources = Resources(Settings(vault=vault, state=tmp_path / "state"))
    open_hit({"vault": vault, "state": tmp_path / "state"}, vault, "Soil.md", 1)
    assert opened() == ["--wait", "+1", str(vault / "Soil.md")]
    _RECORDER.submit(lambda: None).result()
    found = [(one.path, one.how) for one in resources.stores.of(Attention).choices()]
    assert found == ([("Soil.md", "opened")] if recording else [])


def test_obsidian_is_given_the_path_encoded(vault, opened):
    (vault / ".obsidian").mkdir()
    (vault / ODD).write_text("clay")
    open_note(vault, ODD, 7)
    (address,) = opened()
    parts = urlsplit(address)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("obsidian", "open", "")
    assert parse_qs(parts.query) == {"path": [str(vault / ODD)]}


def test_without_an_opener_a_vault_of_obsidian_s_goes_to_the_editor(vault, opened, tmp_path):
    (vault / ".obsidian").mkdir()
    (vault / "Soil.md").write_text("clay")
    for name in ("xdg-open", "open"):
        (tmp_path / "bin" / name).write_text(f"#!{sys.executable}\nraise SystemExit(3)\n")
    open_note(vault, "Soil.md", 1)
    assert opened() == ["--wait", "+1", str(vault / "Soil.md")]


@pytest.mark.parametrize("path", ["link.md", "../outside.md", "folder"])
def test_what_is_no_file_of_the_vault_is_not_opened(vault, tmp_path, opened, path):
    (tmp_path / "outside.md").write_text("mine")
    (vault / "link.md").symlink_to(tmp_path / "outside.md")
    (vault / "folder").mkdir()
    with pytest.raises(UnsafePathError):
        open_note(vault, path, 1)
    with pytest.raises(FileNotFoundError):
        opened()


DECOMPOSED, COMPOSED = "Cafe\u0301/Mu\u0308sli.md", "Caf\u00e9/M\u00fcsli.md"


def test_a_name_that_the_disk_has_in_another_form_is_opened_as_the_disk_has_it(vault, opened):
    (vault / DECOMPOSED).parent.mkdir()
    (vault / DECOMPOSED).write_text("oats")
    open_note(vault, COMPOSED, 1)
    assert opened() == ["--wait", "+1", str(vault / DECOMPOSED)]
    (vault / ".obsidian").mkdir()
    open_note(vault, COMPOSED, 1)
    (address,) = opened()
    assert parse_qs(urlsplit(address).query) == {"path": [str(vault / DECOMPOSED)]}


def test_an_editor_s_quotes_are_those_of_a_shell(vault, tmp_path, opened, monkeypatch):
    (vault / "Soil.md").write_text("clay")
    (tmp_path / "bin/editor").rename(tmp_path / "bin/my editor")
    monkeypatch.setenv("EDITOR", "'my editor' --title \"two words\"")
    open_note(vault, "Soil.md", 3)
    assert opened() == ["--title", "two words", "+3", str(vault / "Soil.md")]


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [("code --wait", ["--wait", "--goto", "{}:7"]), ("zed", ["{}:7"]), ("nano", ["+7", "{}"])],
)
def test_an_editor_is_given_the_line_in_its_own_way(vault, tmp_path, opened, monkeypatch, editor, arguments):
    (vault / "Soil.md").write_text("clay")
    (tmp_path / "bin/editor").rename(tmp_path / "bin" / editor.split()[0])
    monkeypatch.setenv("EDITOR", editor)
    open_note(vault, "Soil.md", 7)
    assert opened() == [word.format(vault / "Soil.md") for word in arguments]


def test_an_editor_whose_quotes_are_open_is_refused(vault, opened, monkeypatch):
    (vault / "Soil.md").write_text("clay")
    monkeypatch.setenv("EDITOR", "'editor --wait")
    with pytest.raises(
        ConfigurationError, match=r"EDITOR cannot be read \(No closing quotation\); correct its"
    ):
        open_note(vault, "Soil.md", 3)
    with pytest.raises(FileNotFoundError):
        opened()


def test_a_missing_editor_is_named(vault, opened, monkeypatch):
    (vault / "Soil.md").write_text("clay")
    monkeypatch.setenv("EDITOR", "no-such-editor")
    with pytest.raises(ConfigurationError, match="set EDITOR"):
        open_note(vault, "Soil.md", 1)
    with pytest.raises(FileNotFoundError):
        opened()


def test_without_an_editor_a_note_opens_in_the_system_s_program_and_a_file_that_it_might_run_does_not(
    vault, opened, monkeypatch, tmp_path
):
    for name in (ODD, "page.html", "script.py"):
        (vault / name).write_text("clay")
    monkeypatch.delenv("EDITOR")
    for name in ("page.html", "script.py"):
        with pytest.raises(ConfigurationError, match="set EDITOR, as in EDITOR=nano"):
            open_note(vault, name, 1)
    with pytest.raises(FileNotFoundError):
        opened()
    open_note(vault, ODD, 7)
    assert opened() == [(vault / ODD).as_uri()]
    for name in ("xdg-open", "open"):
        (tmp_path / "bin" / name).unlink()
    with pytest.raises(ConfigurationError, match="for notes, set EDITOR"):
        open_note(vault, ODD, 7)


def test_a_search_opens_the_hit_of_a_number(vault, tmp_path, tiny_model, monkeypatch, opened):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    (vault / "Soil.md").write_text("# Soil\n\nclay\n")
    (vault / "Clay soil.md").write_text("---\ntags: [a]\n---\nsoil\n")
    state = tmp_path / "state"
    index_once(Resources(Settings(vault=vault, state=state)), lambda *_: None)

    def search(*words):
        line = ["search", "soil", "--vault", str(vault), "--state", str(state), "--json", "--all", *words]
        return CliRunner().invoke(app, line, catch_exceptions=False)

    for options, number in ((["--open"], 1), (["--open", "2"], 2)):
        hit = json.loads(search(*options).stdout)["results"][number - 1]
        assert opened() == ["--wait", f"+{hit['lines'][0]}", str(vault / hit["path"])]
    with pytest.raises(NotFoundError, match="no hit 3"):
        search("--open", "3")


def test_a_document_that_is_not_text_is_opened_by_the_system_and_not_by_the_editor(vault, opened, tmp_path):
    (vault / "The lease.pdf").write_bytes(b"%PDF-1.4")
    (vault / "costs.csv").write_text("a,b")
    open_note(vault, "The lease.pdf", 1)
    assert opened() == [(vault / "The lease.pdf").as_uri()]
    open_note(vault, "costs.csv", 2)
    assert opened() == ["--wait", "+2", str(vault / "costs.csv")]
    for name in ("xdg-open", "open"):
        (tmp_path / "bin" / name).unlink()
    with pytest.raises(ConfigurationError, match="no program could be started that opens"):
        open_note(vault, "The lease.pdf", 1)


@pytest.mark.usefixtures("opened")
def test_of_a_vault_that_is_moved_away_nothing_is_opened_and_the_error_says_so(vault):
    vault.rename(vault.with_name("moved"))
    with pytest.raises(VaultNotFoundError, match="mount it or move it back"):
        open_note(vault, "Soil.md", 1)
