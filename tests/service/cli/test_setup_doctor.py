"""Faults in a real installation, one at a time: the doctor finds each, names its cure, and writes nothing."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
import redis
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

from pipelines import formats
from pipelines.embedding.models import EMBEDDED_MODEL
from pipelines.formats import install_command
from pipelines.state.state import State
from queue_config.folders import config_file, state_home
from queue_config.secrets import QUEUE_KEY, TOKEN, read_secret
from queue_config.settings import Settings
from service.cli.main import app
from service.runtime import watch_limits
from service.runtime.client import announced
from service.usecases import doctor
from service.usecases.maintenance import index_once
from tests.fakes.embedding_api import MODEL, Reply, fake_embedding
from workers.resources import GOOD_DOMAINS_FILE, Resources


@pytest.fixture(autouse=True)
def port(monkeypatch):
    """A port that is free, as the only setting of the environment."""
    for name in [name for name in os.environ if name.startswith("EVERINDEX_")]:
        monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number = probe.getsockname()[1]
    monkeypatch.setenv("EVERINDEX_PORT", str(number))
    return number


@pytest.fixture
def place(vault, tiny_model, monkeypatch):
    """An indexed vault with a note and no fault."""
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    (vault / "Soil.md").write_text("# Soil\n\nIt is alive.\n")
    place = indexed(vault)
    for secret in (TOKEN, QUEUE_KEY):
        read_secret(place.state, secret)
    return place


def indexed(root):
    """Index a vault, and leave no connection open that would write later."""
    resources = Resources(Settings(vault=root))
    index_once(resources, lambda *_: None)
    place = resources.place
    del resources
    gc.collect()
    return place


def everything(*folders):
    """Return the files below folders, with the time, mode and size of each."""
    return {
        path: (info.st_mtime_ns, info.st_mode, info.st_size)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if (info := path.lstat())
    }


def diagnose(root, *options):
    """Return the exit code and the problems by check."""
    places = [folder for folder in (root, state_home(), config_file().parent.parent) if folder.is_dir()]
    before = everything(*places)
    done = CliRunner().invoke(app, ["doctor", str(root), "--json", *map(str, options)])
    assert everything(*places) == before, "the doctor wrote something"
    assert done.stdout, done.exception
    said = json.loads(done.stdout)
    found = {one["check"]: one for one in said["findings"] if one["level"] != "ok"}
    assert said["ok"] == (done.exit_code == 0)
    assert all(one["cure"] for one in found.values())
    return done.exit_code, found


def test_a_variable_that_is_a_misspelled_setting(place, monkeypatch):
    monkeypatch.setenv("EVERINDEX_HISTRY_DAYS", "1")
    monkeypatch.setenv("EVERINDEX_HISTORY_DAYS", "1")
    code, found = diagnose(place.root)
    assert code == 0
    meant = "EVERINDEX_HISTRY_DAYS is set, and there is no such setting; did you mean EVERINDEX_HISTORY_DAYS?"
    assert found["environment"]["message"] == meant


def test_an_endpoint_that_does_not_answer(place, monkeypatch):
    with fake_embedding(dimension=32) as server:
        named = [{"name": "studio", "url": f"{server.url}/v1", "model": MODEL, "key": "sk-secret"}]
        monkeypatch.setenv("EVERINDEX_ENDPOINTS", json.dumps(named))
        monkeypatch.setenv("EMBEDDING_MODEL", MODEL)
        _, found = diagnose(place.root)
        assert "model" not in found
        server.by_default = lambda _: Reply(status=401)
        _, found = diagnose(place.root)
    assert (
        found["model"]["message"]
        == f"no endpoint of the model {MODEL} answers (studio: HTTP 401; check its key)"
    )
    assert "sk-secret" not in str(found)


def test_a_healthy_installation_has_no_findings(place):
    code, found = diagnose(place.root)
    assert code == 0
    assert set(found) <= {"python", "memory", "disk"}  # what the machine of the tests may lack


def test_each_finding_is_a_line_with_its_cure_and_a_sum_follows(place):
    (place.state / TOKEN.name).write_text("")
    done = CliRunner().invoke(app, ["doctor", str(place.root)])
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert all(line.startswith(("ok ", "warning ", "failure ")) for line in lines[:-1])
    (line,) = [line for line in lines if line.startswith("failure")]
    assert line == (
        f"failure secrets   {place.state / TOKEN.name} is empty or damaged; "
        "delete it, stop Everindex and start it again: that creates a new one"
    )
    assert lines[-1].startswith("1 failure, ")


# The machine


def test_a_python_that_was_not_tested(place, monkeypatch):
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(version_info=SimpleNamespace(major=3, minor=99)))
    code, found = diagnose(place.root)
    assert code == 0
    assert "not tested with Python 3.99" in found["python"]["message"]
    assert "uv tool install --python 3." in found["python"]["cure"]


def test_a_vector_extension_that_does_not_load(place, monkeypatch, tmp_path):
    (tmp_path / "vec0.so").write_bytes(b"no library")
    monkeypatch.setattr("sqlite_vec.loadable_path", lambda: str(tmp_path / "vec0.so"))
    code, found = diagnose(place.root)
    assert (code, found["sqlite"]["cure"]) == (1, "install apsw and sqlite-vec again")


def test_a_container_whose_memory_is_used_up(place, monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("500000000\n")
    (tmp_path / "memory.current").write_text("400000000\n")
    monkeypatch.setattr("service.usecases.doctor._CGROUP", tmp_path)
    code, found = diagnose(place.root)
    assert code == 0
    assert found["memory"]["message"].startswith("100 MB of memory are free")
    assert "give the container more memory" in found["memory"]["cure"]


def test_a_clock_that_was_never_set(place, monkeypatch):
    monkeypatch.setattr(time, "localtime", lambda: SimpleNamespace(tm_year=1970))
    code, found = diagnose(place.root)
    assert (code, found["clock"]["message"]) == (1, "the clock says that it is 1970")
    assert "timedatectl set-ntp true" in found["clock"]["cure"]


def test_notes_from_the_future(place):
    os.utime(place.root / "Soil.md", (4e9, 4e9))
    code, found = diagnose(place.root)
    assert code == 0
    assert "1 note was saved in the future, the latest on 2096-10-0" in found["clock"]["message"]
    assert "Soil.md" in found["clock"]["message"]
    assert "`touch`" in found["clock"]["cure"]


@pytest.fixture
def timeless(tmp_path):
    """A folder whose file system stores times that no calendar has; ext4 ends in 2446, memory does not."""
    for parent in (tmp_path, Path("/dev/shm")):  # noqa: S108 - a folder of its own is made in it
        if not os.access(parent, os.W_OK):
            continue
        with TemporaryDirectory(dir=parent) as folder:
            os.utime(folder, (1e12, 1e12))
            if Path(folder).stat().st_mtime == 1e12:
                yield Path(folder)
                return
    pytest.skip("no file system here stores such times")


def test_a_note_from_a_year_that_no_calendar_has(timeless, tiny_model, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    (timeless / "Soil.md").write_text("It is alive.\n")
    os.utime(timeless / "Soil.md", (1e12, 1e12))
    code, found = diagnose(timeless)
    assert code == 0
    assert "the latest on an impossible day (Soil.md)" in found["clock"]["message"]
    assert "`touch`" in found["clock"]["cure"]


# The model


def test_notes_in_another_language_than_the_model_of_their_index(vault, monkeypatch):
    monkeypatch.delenv("EMBEDDING_MODEL", raising=False)
    (vault / "Soil.md").write_text("# Soil\n\nIt is the life of all that is in the garden.\n")
    place = indexed(vault)
    for number in range(4):
        (place.root / f"{number}.md").write_text(
            "Die Tomaten brauchen viel Wasser, und man soll sie nicht im Garten lassen."
        )
    code, found = diagnose(place.root)
    assert code == 0
    assert "not in English (mostly German), and its model knows English" in found["languages"]["message"]
    assert "`embedding: multilingual-e5-small`" in found["languages"]["cure"]


def test_a_model_whose_weights_are_cut(place, tiny_model, tmp_path, monkeypatch):
    copy = shutil.copytree(tiny_model, tmp_path / "model")
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    monkeypatch.setenv("EMBEDDING_MODEL", str(copy))
    code, found = diagnose(place.root)
    assert code == 1
    assert "cannot be loaded" in found["model"]["message"]
    assert "choose another with EMBEDDING_MODEL" in found["model"]["cure"]


def test_a_model_that_computes_no_numbers(place, tiny_model, tmp_path, monkeypatch):
    copy = shutil.copytree(tiny_model, tmp_path / "model")
    weights = load_file(copy / "model.safetensors")
    save_file({name: np.full_like(one, np.nan) for name, one in weights.items()}, copy / "model.safetensors")
    monkeypatch.setenv("EMBEDDING_MODEL", str(copy))
    code, found = diagnose(place.root)
    assert code == 1
    assert "not finite" in found["model"]["message"]
    assert "install the model again" in found["model"]["cure"]


def test_a_model_whose_weights_were_exchanged(place, monkeypatch):
    monkeypatch.delenv("EMBEDDING_MODEL")
    monkeypatch.setattr("pipelines.embedding.models._PUBLISHED_WEIGHTS", {EMBEDDED_MODEL: "0" * 64})
    code, found = diagnose(place.root)
    assert code == 1
    assert "differs from what was published" in found["model"]["message"]
    assert "install its package again" in found["model"]["cure"]


def test_downloaded_weights_that_differ_from_their_hash(place, tiny_model, tmp_path, monkeypatch):
    copy = shutil.copytree(tiny_model, tmp_path / "model")
    stored = tmp_path / ("0" * 64)
    (copy / "model.safetensors").rename(stored)
    (copy / "model.safetensors").symlink_to(stored)
    monkeypatch.setenv("EMBEDDING_MODEL", str(copy))
    code, found = diagnose(place.root)
    assert (code, found["model"]["message"]) == (1, f"{stored} is not what was downloaded")
    assert "fetches it again" in found["model"]["cure"]


def test_a_model_that_was_never_fetched_is_not_fetched_now(place, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", "no-such-people/no-such-model")
    code, found = diagnose(place.root)
    assert code == 0
    assert "not on this machine yet" in found["model"]["message"]
    assert "downloads it" in found["model"]["cure"]


def test_a_model_that_only_the_vault_names(place, monkeypatch):
    monkeypatch.delenv("EMBEDDING_MODEL")
    (place.root / "_domains.yaml").write_text(
        "a:\n  legacy: true\n  embedding: no-such-people/no-such-model\n"
    )
    code, found = diagnose(place.root)
    assert code == 0
    assert "EVERINDEX_ALLOWED_MODELS" in found["model"]["cure"]


# The queue


def test_a_redis_that_is_not_there(place, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        gone = probe.getsockname()[1]
    monkeypatch.setenv("REDIS_URL", f"redis://:secret-word@127.0.0.1:{gone}/0")
    code, found = diagnose(place.root)
    assert code == 1
    assert "start Redis" in found["queue"]["cure"]
    assert "secret-word" not in json.dumps(found)


def test_a_redis_that_deletes_the_queue_when_it_is_full(place, redis_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", redis_url)
    with redis.Redis.from_url(redis_url) as server:
        server.config_set("maxmemory-policy", "allkeys-lru")
        try:
            code, found = diagnose(place.root)
        finally:
            server.config_set("maxmemory-policy", "noeviction")
        assert code == 0
        assert "maxmemory-policy noeviction" in found["queue"]["cure"]
        assert server.keys() == []
    assert "queue" not in diagnose(place.root)[1]


def test_a_vault_that_cannot_be_written(place, monkeypatch):
    (place.root / ".everindex" / "id").unlink()
    # A tester may be root, who may write everything.
    monkeypatch.setattr("os.access", lambda path, mode: not (Path(path) == place.root and mode == os.W_OK))
    code, found = diagnose(place.root)
    assert code == 0
    assert "cannot be written" in found["id"]["message"]
    assert "make the folder writable" in found["id"]["cure"]


@pytest.mark.parametrize(("check", "file"), [("scopes", "_scopes.yaml"), ("contexts", "_contexts.yaml")])
def test_a_file_of_scopes_or_recipes_that_cannot_be_read(place, check, file):
    (place.root / file).write_text("work: [\n")
    code, found = diagnose(place.root)
    assert code == 1
    assert found[check]["message"].startswith(file)
    assert f"correct {file}" in found[check]["cure"]


def test_a_damaged_queue(place):
    (place.state / "queue.db").write_bytes(b"no database" * 1000)
    code, found = diagnose(place.root)
    assert code == 0
    assert "when you start it; nothing is lost" in found["queue"]["cure"]


# The vault


def test_a_damaged_id_that_the_state_folder_remembers(place):
    (place.root / ".everindex/id").write_text("<<<<<<< HEAD\n")
    code, found = diagnose(place.root)
    assert (code, set(found) & {"id", "state"}) == (0, {"id"})
    assert f"writes {place.identity.vault_id} again" in found["id"]["cure"]


def test_a_damaged_id_that_nothing_remembers(place):
    (place.root / ".everindex/id").write_text("<<<<<<< HEAD\n")
    shutil.rmtree(place.state)
    code, found = diagnose(place.root)
    assert code == 1
    assert "or delete it to index the vault from scratch" in found["id"]["cure"]


def test_a_lost_id(place):
    (place.root / ".everindex/id").unlink()
    code, found = diagnose(place.root)
    assert code == 0
    assert "writes it again" in found["id"]["cure"]


@pytest.mark.parametrize(
    ("name", "text", "check", "cure"),
    [
        ("_domains.yaml", "a:\n  nonsense: 1\n", "domains", "correct _domains.yaml"),
        ("_taxonomy.md", "## Renames\n\n- a -> b\n- b -> a\n", "taxonomy", "correct the file"),
        ("_queries.yaml", "- a\n- b\n", "queries", "correct _queries.yaml"),
    ],
)
def test_an_invalid_file_of_the_vault(place, name, text, check, cure):
    (place.root / name).write_text(text)
    code, found = diagnose(place.root)
    assert code == 1
    assert name in found[check]["message"]
    assert cure in found[check]["cure"]


def test_what_holds_until_the_domains_are_corrected(place):
    (place.root / "_domains.yaml").write_text("a: {}\nb: nonsense\n")
    assert "until then Everindex does not start" in diagnose(place.root)[1]["domains"]["cure"]
    (place.state / GOOD_DOMAINS_FILE).write_text("a: {legacy: true}\n")
    assert "until then the last valid one is in force" in diagnose(place.root)[1]["domains"]["cure"]


def test_a_format_whose_reader_is_not_installed(place, monkeypatch):
    (place.root / "_domains.yaml").write_text("all: {legacy: true, formats: [md, pdf, csv]}\n")
    monkeypatch.setattr(formats, "find_spec", {}.get)
    code, found = diagnose(place.root)
    assert code == 0
    assert found["readers"]["message"].startswith("_domains.yaml names pdf, but no reader")
    assert found["readers"]["cure"] == f"run: {install_command('documents')}"


def test_scanned_pages_that_are_not_read_are_no_fault(place, monkeypatch):
    (place.root / "_domains.yaml").write_text("all: {legacy: true, formats: [md, pdf]}\n")
    monkeypatch.setattr(formats, "find_spec", lambda package: None if package == "tesserocr" else package)
    assert "readers" not in diagnose(place.root)[1]
    said = CliRunner().invoke(app, ["doctor", str(place.root)]).stdout
    assert f"scanned pages of pdf files are not read; to read them: {install_command('ocr')}" in said


def test_a_vault_on_a_network_file_system(place, monkeypatch):
    mounts = [SimpleNamespace(mountpoint=str(place.root), fstype="fuse.sshfs")]
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: mounts)
    code, found = diagnose(place.root)
    assert code == 0
    assert "fuse.sshfs" in found["watcher"]["message"]
    assert "local disk" in found["watcher"]["cure"]


@pytest.mark.parametrize("name", ["max_user_watches", "max_user_instances"])
def test_limits_that_are_too_low_for_a_watcher(place, monkeypatch, tmp_path, name):
    for one in ("max_user_watches", "max_user_instances"):
        (tmp_path / one).write_text("0" if one == name else "1000000")
    monkeypatch.setattr(watch_limits, "LIMITS", tmp_path)
    code, found = diagnose(place.root)
    assert code == 0
    assert f"sudo sysctl fs.inotify.{name}=" in found["watcher"]["cure"]


def test_a_vault_that_was_never_indexed_is_left_as_it_is(tmp_path):
    root = tmp_path / "new"
    root.mkdir()
    code, found = diagnose(root)
    assert (code, found["state"]["cure"]) == (0, f"run `everindex up {root}`")


# The state folder


def test_a_state_folder_that_others_may_open(place):
    place.state.chmod(0o755)
    code, found = diagnose(place.root)
    assert (code, found["state"]["cure"]) == (1, f"close it: `chmod 700 {place.state}`")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_state_folder_of_another_user(place):
    os.chown(place.state, 65534, 65534)
    code, found = diagnose(place.root)
    assert (code, found["state"]["cure"]) == (1, "choose another with --state")


@pytest.mark.parametrize("secret", [TOKEN, QUEUE_KEY], ids=lambda one: one.name)
def test_a_secret_that_others_may_read(place, secret):
    (place.state / secret.name).chmod(0o644)
    code, found = diagnose(place.root)
    assert code == 1
    assert f"{secret.name} is open to other users" in found["secrets"]["message"]
    assert "delete it" in found["secrets"]["cure"]


def test_each_secret_that_cannot_be_used_is_named(place):
    for secret in (TOKEN, QUEUE_KEY):
        (place.state / secret.name).write_text("")
    said = CliRunner().invoke(app, ["doctor", str(place.root)]).stdout
    for secret in (TOKEN, QUEUE_KEY):
        assert f"{secret.name} is empty or damaged" in said


def test_a_damaged_database_of_decisions(place):
    (place.state / "state.db").write_bytes(b"no database" * 1000)
    code, found = diagnose(place.root)
    assert code == 1
    assert "everindex restore FILE" in found["database"]["cure"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_damaged_index(place, number):
    with closing(State(place.state)) as state:
        if number > 1:
            shutil.copy(state.cache_path("vault"), state.numbered("vault", number))
            state.switch_cache("vault", number)
    index = place.state / f"cache-vault.{number}.db"
    data = index.read_bytes()
    index.write_bytes(data[:4096] + bytes(len(data) - 8192) + data[-4096:])
    code, found = diagnose(place.root)
    assert code == 1
    assert f"{index} is damaged" in found["index"]["message"]
    assert "`everindex index --rebuild`" in found["index"]["cure"]


def test_records_that_have_one_id(place, vault):
    (vault / "_domains.yaml").write_text("vault: {legacy: true, formats: [md, yaml]}\n")
    for name in ("a.yaml", "b.yaml"):
        (vault / name).write_text("_meta: {id: EA-1}\nthesis: {statement: It keeps growing.}\n")
    indexed(vault)
    before = everything(place.state)
    code, found = diagnose(place.root)
    assert (code, everything(place.state)) == (0, before)
    assert found["ids"]["message"] == "2 records have the id EA-1: a.yaml, b.yaml"


def test_an_index_that_waits_for_reembed_to_follow_the_settings(place, monkeypatch):
    monkeypatch.setenv("EVERINDEX_EMBEDDING_CONTEXT", "breadcrumb")
    code, found = diagnose(place.root)
    assert code == 0
    assert "embedding_context off, and the settings say breadcrumb" in found["passages"]["message"]
    assert "`everindex reembed`" in found["passages"]["cure"]


def test_a_disk_with_little_space(place, monkeypatch):
    free = shutil.disk_usage(place.state).free
    monkeypatch.setattr("service.usecases.doctor._LITTLE_SPACE", 2 * free)
    code, found = diagnose(place.root)
    assert (code, found["disk"]["cure"]) == (0, "free some space")
    monkeypatch.setattr("service.usecases.status._LITTLE_SPACE", 2 * free)
    assert diagnose(place.root)[0] == 1


# What runs


def test_a_port_that_another_program_uses(place, port):
    with socket.create_server(("127.0.0.1", port)):
        code, found = diagnose(place.root)
    assert code == 1
    assert found["port"]["message"].startswith(f"port {port} is used by another program")
    assert f"process {os.getpid()}" in found["port"]["message"]
    assert "--port" in found["port"]["cure"]


def test_a_port_that_another_vault_uses(place, port, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    state = indexed(other).state
    with (
        socket.create_server(("127.0.0.1", port)),
        announced(state, port, f"here:{os.getpid()}/1.0"),
    ):
        _, found = diagnose(place.root)
    assert found["port"]["message"] == f"port {port} is used by Everindex on {other}"


def test_outside_of_two_running_vaults_the_port_of_one_is_no_fault(place, port, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    state = indexed(other).state
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with (
        socket.create_server(("127.0.0.1", port)),
        announced(state, port, f"here:{os.getpid()}/1.0"),
        announced(place.state, 1, f"here:{os.getpid()}/1.0"),
    ):
        done = CliRunner().invoke(app, ["doctor", "--json"])
    found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["port"]["level"] == "ok"
    assert found["port"]["message"] == f"port {port} is used by Everindex on {other}"


def test_a_stranger_at_the_services_port_does_not_get_the_token(place, port):
    heard = []
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(30)

        def stranger():
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
                heard.append(connection.recv(65536))

        thread = threading.Thread(target=stranger)
        thread.start()
        with announced(place.state, port, f"here:{os.getpid()}/1.0"):
            code, found = diagnose(place.root)
        thread.join(30)
    assert code == 1
    assert "is not the service of" in found["service"]["message"]
    assert heard[0].startswith(b"GET /proof/")
    assert (place.state / TOKEN.name).read_bytes().strip() not in b"".join(heard)


def test_a_second_watcher_of_the_vault_with_state_of_its_own(place, tmp_path):
    other = tmp_path / "other-state"
    words = ["watch", "--vault", str(place.root), "--state", str(other)]
    line = [sys.executable, "-c", "input()", *words]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as process:
        try:
            code, found = diagnose(place.root)
        finally:
            process.communicate(b"\n")
    assert code == 1
    assert f"process {process.pid}" in found["services"]["message"]
    assert str(other) in found["services"]["message"]
    assert "stop one of the two" in found["services"]["cure"]


def test_another_state_folder_of_the_vault(place):
    other = shutil.copytree(place.state, place.state.with_name("0123456789ab"))
    code, found = diagnose(place.root)
    assert code == 0
    assert f"{other} is another state folder" in found["services"]["message"]
    assert f"--state {other}" in found["services"]["cure"]


def test_a_unit_of_a_vault_that_is_gone(place):
    from service.runtime.systemd import Installed, unit_folder

    unit_folder().mkdir(parents=True)
    gone = place.root.with_name('go%ne "$x"')
    for name, text in Installed("0123456789ab", gone, place.state, 1).units().items():
        (unit_folder() / name).write_text(text)
    for name, text in Installed("ba9876543210", place.root, place.state, 1).units().items():
        (unit_folder() / name).write_text(text)
    code, found = diagnose(place.root)
    assert code == 0
    assert f"needs {gone}, which does not exist" in found["units"]["message"]
    assert "systemctl --user disable --now everindex-0123456789ab-" in found["units"]["cure"]


def test_a_unit_of_an_earlier_version(place):
    from service.runtime.systemd import Installed, unit_folder

    unit_folder().mkdir(parents=True)
    for name, text in (
        Installed("0123456789ab", place.root, place.state, 1, Path(sys.executable)).units().items()
    ):
        (unit_folder() / name).write_text(text.replace('"everindex"', '"service.cli"'))
    code, found = diagnose(place.root)
    assert code == 0
    assert "starts service.cli, which only earlier versions have" in found["units"]["message"]
    assert f"everindex service install {place.root}" in found["units"]["cure"]


# The cures, carried out


def rebuild(place, _):
    assert CliRunner().invoke(app, ["index", str(place.root), "--rebuild"]).exit_code == 0


def start(place, _):
    indexed(place.root)


def delete_the_token_and_start(place, _):
    (place.state / TOKEN.name).unlink()
    read_secret(place.state, TOKEN)


def correct_the_domains(place, _):
    (place.root / "_domains.yaml").write_text("vault:\n  legacy: true\n")


def touch_the_note(place, _):
    (place.root / "Soil.md").touch()


def run_the_command(_, finding):
    command = re.search(r"`((?:chmod|rm) [^`]+)`", finding["cure"])[1]
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - as the user would, who reads it first


def leave_a_unit(_):
    from service.runtime.systemd import unit_folder

    unit_folder().mkdir(parents=True)
    command = 'ExecStart="/gone/python" "-m" "everindex" "--vault" "/gone" "--state" "/gone"\n'
    (unit_folder() / "everindex-x-work.service").write_text(command)


@pytest.mark.parametrize(
    ("check", "fault", "cure"),
    [
        ("state", lambda place: place.state.chmod(0o755), run_the_command),
        ("secrets", lambda place: (place.state / TOKEN.name).write_text(""), delete_the_token_and_start),
        ("database", lambda place: (place.state / "state.db").write_bytes(b"no database" * 1000), rebuild),
        (
            "index",
            lambda place: (place.state / "cache-vault.1.db").write_bytes(b"no database" * 1000),
            rebuild,
        ),
        ("id", lambda place: (place.root / ".everindex/id").write_text("<<<<<<< HEAD\n"), start),
        ("clock", lambda place: os.utime(place.root / "Soil.md", (4e9, 4e9)), touch_the_note),
        ("domains", lambda place: (place.root / "_domains.yaml").write_text("a: 1\n"), correct_the_domains),
        ("units", leave_a_unit, run_the_command),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_fault_is_gone_when_its_cure_was_carried_out(place, check, fault, cure):
    fault(place)
    cure(place, diagnose(place.root)[1][check])
    gc.collect()  # the last connection of a cure writes when it is closed
    code, found = diagnose(place.root)
    assert code == 0
    assert check not in found


# Without a vault


def test_without_a_vault_the_machine_is_examined(tmp_path, monkeypatch, tiny_model):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0
    assert "name one: `everindex doctor VAULT`" in done.stdout
    assert "model" in done.stdout
