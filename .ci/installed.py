"""Check an installed package from outside the checkout: every file, one name, the demo, and the library.

VENV/bin/python -P .ci/installed.py
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import distribution
from pathlib import Path

import psutil

import everindex

CHECKOUT = Path(__file__).parents[1]
EVERINDEX = str(Path(sys.executable).parent / "everindex")
INSTALLED = Path(everindex.__file__).parent
QUESTION = "how do I stop lying awake at night"
PATIENCE = 600.0


def compare_files() -> int:
    """Return how many files the package has as the checkout has them, apart from imports. Raises SystemExit."""
    rooms = ("everindex", "pipelines", "queue_config", "service", "workers", "examples/vault")
    listed = subprocess.run(
        ["git", "-C", CHECKOUT, "ls-files", "-z", *rooms], capture_output=True, text=True, check=True
    )
    paths = listed.stdout.rstrip("\0").split("\0")
    for path in paths:
        installed = INSTALLED / path.replace("examples/vault", "service/example_vault").removeprefix(
            "everindex/"
        )
        if not installed.is_file() or as_read(installed) != as_read(CHECKOUT / path):
            raise SystemExit(f"{path}: missing in the installed package, or different")
    return len(paths)


def as_read(file: Path) -> bytes:
    """Return a file's bytes, without the name that the wheel puts before ours in imports."""
    return file.read_bytes().replace(b"everindex.", b"") if file.suffix == ".py" else file.read_bytes()


def compare_names() -> None:
    """See that the package installs one name. Raises SystemExit."""
    files = distribution("everindex").files or []
    names = {one.parts[0] for one in files} - {"everindex", ".."}
    if [name for name in names if not name.endswith(".dist-info")]:
        raise SystemExit(f"the package installs {sorted(names)}")


def installed_mb() -> float:
    """Return how much the environment's packages take on the disk, without pip."""
    folder = INSTALLED.parent
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    sizes = (
        one.stat().st_size for one in files if one.relative_to(folder).parts[0] not in {"pip", "setuptools"}
    )
    return sum(sizes) / 1e6


def memory_of(demo: int) -> str:
    """Return what each process of the demo holds, its share of what several hold included (PSS), in MB."""
    roles = {"demo", "serve", "watch", "work"}
    tree = [psutil.Process(demo), *psutil.Process(demo).children(recursive=True)]
    held = {next(iter(roles & set(one.cmdline())), "other"): one.memory_full_info().pss for one in tree}
    return ", ".join(f"{role} {pss / 1e6:.0f}" for role, pss in held.items())


def ask(demo: subprocess.Popen[bytes]) -> str:
    """Return the path of the best answer once the demo has indexed its notes. Raises SystemExit."""
    deadline = time.monotonic() + PATIENCE
    said = ""
    while time.monotonic() < deadline and demo.poll() is None:
        done = subprocess.run(
            [EVERINDEX, "search", QUESTION, "--json"], capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        if done.returncode == 0 and (answer := json.loads(done.stdout))["results"]:
            index = answer["index"]
            if index["model_ready"] and not index["pending"] and not index["vectors_pending"]:
                return str(answer["results"][0]["path"])
        time.sleep(1)
    raise SystemExit(f"the demo does not answer: {said}")


def serve(folder: str) -> None:
    """Start the demo, ask, get a static file, and stop it. Raises SystemExit."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([EVERINDEX, "demo", "--port", str(port)], stdout=subprocess.DEVNULL) as demo:
        try:
            began = time.monotonic()
            if "Sleep" not in (best := ask(demo)):
                raise SystemExit(f"the best answer is {best}")
            print(f"{installed_mb():.0f} MB installed; all findable after {time.monotonic() - began:.0f} s")
            print(f"MB in memory: {memory_of(demo.pid)}")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/static/style.css") as answer:
                served = answer.read()
            if served != (INSTALLED / "service/web/static/style.css").read_bytes():
                raise SystemExit("the style sheet that is served is another")
        finally:
            demo.send_signal(signal.SIGINT)
    if left := list(Path(folder).glob("everindex-demo-*")):
        raise SystemExit(f"the demo left {left}")


def use_the_library(folder: Path) -> None:
    """Index a vault without a service, and ask it from Python. Raises SystemExit."""
    shutil.copytree(CHECKOUT / "examples" / "vault", folder)
    subprocess.run([EVERINDEX, "index", folder], check=True, stdout=subprocess.DEVNULL)
    with everindex.Vault(folder) as vault:
        if "Sleep" not in (best := vault.search(QUESTION).results[0].path):
            raise SystemExit(f"the library's best answer is {best}")


def main() -> None:
    """Check the package that this Python has installed. Raises SystemExit."""
    if INSTALLED.is_relative_to(CHECKOUT):
        raise SystemExit(f"{INSTALLED} is in the checkout")
    with tempfile.TemporaryDirectory() as folder:
        places = dict.fromkeys(("HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"), folder)
        os.environ.update(places, HF_HUB_OFFLINE="1")
        os.chdir(folder)
        compare_names()
        files = compare_files()
        serve(folder)
        use_the_library(Path(folder, "vault"))
    print(f"Python {sys.version.split()[0]}: the wheel has all {files} files; its demo and its library find")


if __name__ == "__main__":
    main()
