"""The demo, as its user runs it: a vault that can be asked at once, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from service.cli import run
from service.cli.run import copy_example
from service.runtime.sockets import bind

ROOT = Path(__file__).parents[3]


def everindex(*words, environment):
    line = [sys.executable, "-m", "service.cli", *words]
    return subprocess.run(line, capture_output=True, text=True, env=environment, cwd="/", check=False)


def test_a_demo_can_be_asked_from_another_terminal_and_leaves_nothing(tmp_path):
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": str(ROOT),
    }
    line = [sys.executable, "-m", "service.cli", "demo", "--port", "0"]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd="/"
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while everindex("status", "--wait", environment=environment).returncode:
                assert process.poll() is None
                assert time.monotonic() < deadline, "the demo did not start"
                time.sleep(0.2)
            found = everindex("search", "how do I stop lying awake at night", environment=environment)
            assert "Sleep" in found.stdout, found.stderr
        finally:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "An example vault is in" in said
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "state" / "everindex").iterdir()) == []


def test_a_demo_refuses_a_port_that_is_in_use_and_leaves_nothing(tmp_path):
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": str(ROOT),
    }
    with bind(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        found = everindex("demo", "--port", str(port), environment=environment)
    assert found.returncode == 2
    assert f"port {port} on 127.0.0.1 cannot be used" in found.stderr
    assert "choose another with --port" in found.stderr
    assert found.stdout == ""
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "state").exists()


def test_a_demo_without_a_port_takes_another_if_that_of_the_settings_is_in_use(monkeypatch):
    with bind(0) as taken:
        taken.listen()
        monkeypatch.setenv("EVERINDEX_PORT", str(taken.getsockname()[1]))
        assert run._free_port(None) == 0


def test_the_example_is_copied_without_the_id_of_the_original(tmp_path):
    copy_example(tmp_path / "vault")
    assert (tmp_path / "vault" / "Welcome.md").is_file()
    assert not (tmp_path / "vault" / ".everindex").exists()
