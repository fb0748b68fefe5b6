"""Run the public conformance suite of the protocol against our server, and print what passed.

python -m tests.conformance.run NODE SUITE

NODE is the program (22 or newer), SUITE the script `dist/index.js` of the npm package
`@modelcontextprotocol/conformance`. The scenarios that need nothing of a server but the protocol run against the
server as it is; every scenario runs against the same server with what the suite calls (`fixtures`). Both serve the
example vault behind the guard.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from tests.whole.conftest import free_port
from workers.resources import Resources

REVISION = "2026-07-28"
WITHOUT_FIXTURES = (
    "completion-complete",
    "tools-list",
    "resources-list",
    "sep-2164-resource-not-found",
    "prompts-list",
    "dns-rebinding-protection",
    "caching",
    "http-header-validation",
    "server-sse-multiple-streams",
    "input-required-result-unsupported-methods",
)
_VAULT = Path(__file__).parents[2] / "examples/vault"
_PATIENCE = 300
_RESULT = re.compile(r"^. ([a-z0-9-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
_SINGLE = re.compile(r"^Passed: (\d+)/\d+, (\d+) failed", re.MULTILINE)


@contextmanager
def served(folder, *options):
    """Serve the vault, and yield the address. The suite gives some answers half a second, so the model is loaded."""
    port = free_port()
    command = [sys.executable, "-m", "tests.conformance.serve", str(folder), str(port), *options]
    process = subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _is_ready(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the server for the conformance suite does not start")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=10).json()["model_ready"]
    except httpx.HTTPError:
        return False


def suite(program, url, *options):
    """Return what the suite prints for some scenarios."""
    command = [*program, "server", "--url", url, "--spec-version", REVISION, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False).stdout


def main(node, script):
    """Run the scenarios. Raises SystemExit if one fails."""
    program = [node, script]
    results, said = [], []
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        shutil.copytree(_VAULT, folder / "vault")
        index_once(Resources(Settings(vault=folder / "vault", state=folder / "state")), lambda *_: None)
        with served(folder) as url:
            for name in WITHOUT_FIXTURES:
                said.append(suite(program, url, "--scenario", name))
                found = _SINGLE.search(said[-1])
                results.append(("as it is", name, *(map(int, found.groups()) if found else (0, 1))))
        with served(folder, "--fixtures") as url:
            said.append(suite(program, url, "--suite", "all"))
            every = _RESULT.findall(said[-1])
            results += [("with fixtures", name, int(good), int(bad)) for name, good, bad in every]
    failed = [(server, name) for server, name, _, bad in results if bad]
    if failed or len(results) <= len(WITHOUT_FIXTURES):
        raise SystemExit("\n".join([*said, f"failed: {failed or 'the suite does not run'}"]))
    for server in ("as it is", "with fixtures"):
        own = [one for one in results if one[0] == server]
        checks = sum(good for *_, good, _ in own)
        print(f"conformance, the server {server}: {len(own)} scenarios, {checks} checks")  # noqa: T201 - a script's output


if __name__ == "__main__":
    main(*sys.argv[1:])
