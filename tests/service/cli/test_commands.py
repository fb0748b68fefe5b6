"""Every command answers an unknown note or domain, an empty vault and a missing one with a sentence, no traceback.

The cases are made from the commands themselves, so that a new command is tested, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest

from queue_config.settings import Settings
from service.cli.main import app, main
from service.runtime.client import announced
from service.usecases.maintenance import index_once
from tests.queue_config.test_visible import is_obeyed
from tests.whole.conftest import free_port
from workers.heartbeat import process_name
from workers.resources import Resources

# They run until they are stopped, or install themselves: without a vault they end at once.
RUNS_ON = {
    "up",
    "demo",
    "watch",
    "work",
    "serve",
    "service install",
    "service uninstall",
    "service status",
}
TAKES_A_NEW_VAULT = {"init", "index", "restore", "doctor"}
"""They may be given a folder that was never indexed, beside those that run on."""
NEEDS_NO_VAULT = {"init", "config", "doctor", "models"}
"""They have an answer where no vault is named and none runs."""
NEEDS_A_SERVICE = "is not running"


def commands(
    group: Any = app, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, one in group.commands.items():
        if isinstance(one, click.Group) and not one.hidden:
            yield from commands(one, (*words, name))
        elif not one.hidden:
            yield (*words, name), one


def each(wanted):
    found = [pytest.param(words, one, id=" ".join(words)) for words, one in commands() if wanted(words, one)]
    return pytest.mark.parametrize(("words", "command"), found)


def named(command, name):
    return any(one.name == name for one in command.params)


def ends(words):
    return " ".join(words) not in RUNS_ON


def arguments(command, folder):
    """Return a value for each argument that a command requires."""
    (folder / "quotes.json").write_text("[]")
    values = {"file": str(folder / "quotes.json"), "host": "127.0.0.1", "record": "nope", "path": "nope.md"}
    given = []
    for one in command.params:
        value = values.get(one.name, "soil")
        if isinstance(one, click.Argument) and (one.required or one.name in ("path", "query")):
            given.append(value)
        elif one.required:
            given += [one.opts[0], value]
    return given or (["soil.md"] if command.name == "propose" else [])


@pytest.fixture
def everindex(monkeypatch, capsys):
    return program(monkeypatch, capsys)


def program(monkeypatch, capsys):
    """Return a function that runs the program: exit code, stdout and stderr. Uncaught exceptions are raised."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["everindex", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture(autouse=True)
def own_port(monkeypatch):
    """A port that nothing uses: Everindex may be running beside the tests."""
    monkeypatch.setenv("EVERINDEX_PORT", str(free_port()))


@pytest.fixture
def place(vault, tmp_path, tiny_model, monkeypatch):
    """The options that name a vault of three notes, indexed."""
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    (vault / "Soil.md").write_text("# Soil\n\nIt is alive. See [[Compost]] and [[Nowhere]].\n")
    (vault / "Compost.md").write_text("# Compost\n\nIt makes [[Soil]].\n")
    return indexed(vault, tmp_path)


@pytest.fixture
def empty(vault, tmp_path, tiny_model, monkeypatch):
    """The options that name an indexed vault without notes."""
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    return indexed(vault, tmp_path)


def indexed(vault, tmp_path, **settings):
    state = tmp_path / "state"
    index_once(Resources(Settings(vault=vault, state=state, **settings)), lambda *_: None)
    return ("--vault", vault, "--state", state)


def is_one_sentence(complaint):
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert not set("{}") & set(complaint)
    return True


ODD = "".join(filter(is_obeyed, map(chr, range(1, 0xD800))))
"""Every character that a terminal obeys, but NUL, which no name can have, and half a pair of surrogates."""
MARKUP = "[red]x[/y] :boom: "


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, tiny_model):
    """The options that name a vault with such characters wherever something is written, and its oddest note."""
    base = tmp_path_factory.mktemp("hostile")
    vault = base / f"vault {ODD}[x]"
    vault.mkdir()
    # No newline: what a list shows is a line each. JSON's escapes are YAML's, too.
    odd = json.dumps(MARKUP + ODD)
    section = ODD.replace("\r", "")
    text = (
        f"---\ntitle: {odd}\nauthor: {odd}\naliases: [{odd}]\ntags: [{odd}]\nkind: {odd}\n---\n"
        f"# soil {section}\n\nsoil {MARKUP}{ODD} [[nowhere{section}|{section}]] [[Plain]]\n\n## {section}\n\nsoil\n"
    )
    name = f"Odd [b] {ODD}.md"
    (vault / name).write_text(text, newline="")
    (vault / "Plain.md").write_text(f"# Plain\n\nsoil [[Odd [b] {section}]] [a]({section})\n", newline="")
    (vault / os.fsdecode(b"bad\xff.md")).write_text("soil\n")
    (vault / "Broken.md").write_text(f"---\n{section}: [\n---\nsoil\n")
    options = indexed(vault, base, embedding_model=str(tiny_model))
    return name, options


@pytest.mark.parametrize("as_json", [False, True])
@each(lambda words, _: ends(words))
def test_nothing_that_a_command_prints_is_obeyed_by_a_terminal(
    everindex, words, command, hostile, tmp_path, as_json, monkeypatch, tiny_model
):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    name, options = hostile
    given = [name if one == "nope.md" else one for one in arguments(command, tmp_path)]
    if as_json and not named(command, "as_json"):
        pytest.skip("it prints no JSON")
    _, said, complaint = everindex(*words, *given, *options, *(["--json"] if as_json else []))
    assert not [char for char in said + complaint if is_obeyed(char)]
    if as_json and said:
        json.loads(said)
    if words == ("show",):
        assert "\\x1b" in said or "\\u001b" in said


def test_a_name_of_a_domain_or_a_file_in_an_error_is_made_visible(everindex, vault):
    (vault / "_domains.yaml").write_text(json.dumps({"domains": {ODD: {"path": "."}}}))
    code, _, complaint = everindex("index", "--vault", vault)
    assert code == 2
    assert not [char for char in complaint if is_obeyed(char)]
    code, _, complaint = everindex("index", "--vault", vault / ODD)
    assert "\\x1b" in complaint
    assert not [char for char in complaint if is_obeyed(char)]
    code, _, complaint = everindex("index", "--nonsense" + ODD)
    assert not [char for char in complaint if is_obeyed(char)]


@each(lambda words, one: ends(words) and named(one, "path"))
def test_an_unknown_note_is_answered_with_a_sentence(everindex, words, command, place, tmp_path):
    code, said, complaint = everindex(*words, *arguments(command, tmp_path), *place)
    if code:
        assert code == 1
        assert is_one_sentence(complaint)
    assert "nope.md" in said + complaint or NEEDS_A_SERVICE in complaint


@each(lambda words, one: ends(words) and named(one, "domain"))
def test_an_unknown_domain_is_answered_with_the_known_ones(everindex, words, command, place, tmp_path):
    without_note = named(command, "all_untagged") or words == ("links",)
    given = [] if without_note else arguments(command, tmp_path)
    given += ["--all-untagged"] if named(command, "all_untagged") else []
    code, said, complaint = everindex(*words, *given, "--domain", "nope", *place)
    assert (code, said) == (1, "")
    assert is_one_sentence(complaint)
    assert "there is no domain 'nope'; the vault has vault" in complaint or NEEDS_A_SERVICE in complaint


@pytest.mark.parametrize("with_state", [False, True])
@each(
    lambda words, one: (
        ends(words) and named(one, "vault") and " ".join(words) not in TAKES_A_NEW_VAULT | {"config"}
    )
)
def test_a_folder_that_was_never_indexed_is_left_as_it_is(
    everindex, words, command, vault, tmp_path, with_state
):
    state = ("--state", tmp_path / "state") if with_state else ()
    given = arguments(command, tmp_path)
    before = everything_below(tmp_path)
    code, said, complaint = everindex(*words, *given, "--vault", vault, *state)
    assert (code, said) == (1, "")
    assert complaint == f"error: {vault} was never indexed; run `everindex up {vault}`\n"
    assert everything_below(tmp_path) == before


def everything_below(folder):
    return sorted(folder.rglob("*"))


@each(lambda words, one: ends(words) and named(one, "vault"))
def test_the_vault_is_the_one_in_whose_folder_the_user_stands(
    everindex, words, command, vault, tmp_path, tiny_model, monkeypatch
):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    index_once(Resources(Settings(vault=vault)), lambda *_: None)
    (vault / "Folder").mkdir()
    monkeypatch.chdir(vault / "Folder")
    _, _, complaint = everindex(*words, *arguments(command, tmp_path))
    for odd in ("no vault", "never indexed", "Traceback"):
        assert odd not in complaint


@each(lambda words, one: ends(words) and named(one, "vault"))
def test_without_any_vault_one_is_asked_for(everindex, words, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said, complaint = everindex(*words, *arguments(command, tmp_path))
    if " ".join(words) not in NEEDS_NO_VAULT:
        assert (code, said) == (1, "")
        assert "no vault was given and none is running" in complaint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_folder_above_that_another_user_marked_as_a_vault_is_none(everindex, tmp_path, monkeypatch):
    (tmp_path / ".everindex").mkdir()
    (tmp_path / ".everindex" / "id").write_text("0123456789abcdef0123456789abcdef\n")
    os.chown(tmp_path / ".everindex" / "id", 65534, 65534)
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    code, _, complaint = everindex("search", "soil")
    assert code == 1
    assert "no vault was given and none is running" in complaint


@pytest.mark.parametrize("words", [("verify",), ("backup", "file.tar"), ("evidence", "list"), ("reembed",)])
def test_the_vault_is_the_only_one_that_runs(everindex, words, vault, tmp_path, tiny_model, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    monkeypatch.chdir(tmp_path)
    resources = Resources(Settings(vault=vault))
    index_once(resources, lambda *_: None)
    with announced(resources.place.state, 1, process_name()):
        code, _, complaint = everindex(*words)
    assert (code, complaint) == (0, "")


def test_an_option_comes_before_the_environment_and_that_before_the_folder(
    everindex, tmp_path, tiny_model, monkeypatch
):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    roots = [tmp_path / name for name in ("option", "environment", "folder")]
    for root in roots:
        root.mkdir()
        (root / f"{root.name}.md").write_text("soil\n")
        index_once(Resources(Settings(vault=root)), lambda *_: None)
    monkeypatch.chdir(roots[2])
    assert "folder.md" in everindex("links", "--orphans")[1]
    monkeypatch.setenv("EVERINDEX_VAULT", str(roots[1]))
    assert "environment.md" in everindex("links", "--orphans")[1]
    assert "option.md" in everindex("links", "--orphans", "--vault", roots[0])[1]


@each(lambda words, _: ends(words))
def test_an_empty_vault_is_answered(everindex, words, command, empty, tmp_path):
    code, _, complaint = everindex(*words, *arguments(command, tmp_path), *empty)
    if code and code != 2:
        assert code == 1
        assert is_one_sentence(complaint) or not complaint
    elif code:
        assert "Usage: " in complaint or is_one_sentence(complaint)


@each(lambda _, one: named(one, "vault"))
def test_a_vault_that_is_not_there_is_named(everindex, words, command, tmp_path):
    if words[0] == "config":
        return
    missing = tmp_path / "missing"
    code, said, complaint = everindex(*words, *arguments(command, tmp_path), "--vault", missing)
    assert (code, said) == (1, "")
    assert is_one_sentence(complaint)
    assert str(missing) in complaint
    assert not missing.exists()


def test_the_log_is_not_in_the_output_that_a_program_reads(place):
    for file in place[3].glob("cache-*.db*"):  # its journal, too: SQLite reads from it what the file has lost
        file.write_bytes(b"no database" * 1000)
    line = [sys.executable, "-m", "service.cli", "links", "--json", *map(str, place)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"links": [], "count": 0}
    assert "cannot be asked" in done.stderr


def test_no_command_loads_a_web_framework_when_no_service_runs(place, tmp_path):
    """All in one process, which says after which command one was loaded first."""
    lines = [
        ["everindex", *words, *arguments(command, tmp_path), *map(str, place)]
        for words, command in commands()
        if ends(words)
    ]
    code = (
        "import json, sys\n"
        "from service.cli.main import main\n"
        f"for line in json.loads({json.dumps(lines)!r}):\n"
        "    sys.argv = line\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "    loaded = sorted({'fastapi', 'starlette', 'uvicorn'} & set(sys.modules))\n"
        "    if loaded: sys.exit(f'{line} loaded {loaded}')\n"
        "print('none did')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.stdout.endswith("none did\n"), done.stderr[-2000:]
