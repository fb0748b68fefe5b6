"""The entry by which a program finds the vault is added, and nothing else in the program's file changes."""

from __future__ import annotations

import json
import stat
import tomllib

import pytest
from click.testing import CliRunner

from pipelines.errors import AlreadyThereError, ConfigurationError
from queue_config.settings import Settings
from service.cli.agents import CLIENTS
from service.cli.main import app
from service.usecases.maintenance import index_once
from workers.resources import Resources

ARGUMENTS = ["mcp", "--vault", '/home/ada/My "notes"\\é']


def added(client, file):
    one = CLIENTS[client]
    one.write(file, "everindex", one.entry("/usr/bin/everindex", ARGUMENTS))
    text = file.read_text(encoding="utf-8")
    return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_is_written_into_a_new_file(client, tmp_path):
    file = CLIENTS[client].path(tmp_path)
    entry = added(client, file)[CLIENTS[client].table]["everindex"]
    assert (entry["command"], entry["args"]) == ("/usr/bin/everindex", ARGUMENTS)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_shown_is_what_is_written(client, tmp_path):
    one = CLIENTS[client]
    shown = one.shown("everindex", one.entry("/usr/bin/everindex", ARGUMENTS))
    read = tomllib.loads if one.file.endswith(".toml") else json.loads
    assert read(shown) == added(client, one.path(tmp_path))


@pytest.mark.parametrize(
    ("client", "again"),
    [("claude-desktop", "restart Claude Desktop"), ("codex", "start a new session of Codex")],
)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Nothing was written: paste it there, or add `--client {client} --write`. Then {again}."),
        (["--write"], "Next: {again}, then ask it to search your notes."),
    ],
)
def test_install_says_what_comes_next_for_each_program(client, again, options, said, tmp_path, monkeypatch):
    (tmp_path / "vault").mkdir()
    index_once(Resources(Settings(vault=tmp_path / "vault", state=tmp_path / "state")), lambda *_: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    chosen = ["--vault", str(tmp_path / "vault"), "--state", str(tmp_path / "state")]
    result = CliRunner().invoke(app, ["mcp", "install", "--client", client, *options, *chosen])
    assert said.format(client=client, again=again) in result.output.splitlines(), result.output
    assert CLIENTS[client].path(tmp_path).exists() == bool(options)


def test_other_servers_and_settings_stay(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text('{"theme": "dark", "mcpServers": {"other": {"command": "x"}}}')
    file.chmod(0o600)
    found = added("cursor", file)
    assert found["theme"] == "dark"
    assert found["mcpServers"]["other"] == {"command": "x"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_behind_a_link_is_changed_and_the_link_stays(tmp_path):
    (tmp_path / "dotfiles.json").write_text("{}")
    (tmp_path / "mcp.json").symlink_to(tmp_path / "dotfiles.json")
    assert "everindex" in added("cursor", tmp_path / "mcp.json")["mcpServers"]
    assert (tmp_path / "mcp.json").is_symlink()
    assert "everindex" in (tmp_path / "dotfiles.json").read_text()


def test_the_comments_of_a_toml_file_stay(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"\n')
    assert set(added("codex", file)["mcp_servers"]) == {"other", "everindex"}
    assert file.read_text().startswith('# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"\n')


@pytest.mark.parametrize(
    ("client", "text", "error"),
    [
        ("cursor", '{"mcpServers": {"everindex": {"command": "mine"}}}', AlreadyThereError),
        ("codex", '[mcp_servers.everindex]\ncommand = "mine"\n', AlreadyThereError),
        ("zed", '// a comment\n{"context_servers": {}}', ConfigurationError),
        ("cursor", "[]", ConfigurationError),
        ("cursor", '{"mcpServers": []}', ConfigurationError),
        ("codex", "mcp_servers = 3", ConfigurationError),
        ("codex", "mcp_servers = {}", ConfigurationError),
        ("codex", "[broken", ConfigurationError),
    ],
)
def test_a_file_that_cannot_take_it_stays_as_it_is(client, text, error, tmp_path):
    file = tmp_path / CLIENTS[client].path(tmp_path).name
    file.write_text(text)
    with pytest.raises(error):
        added(client, file)
    assert file.read_text() == text
