"""The commands of docs/tutorial.md and the counts of the README are those of the example vault."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.whole.conftest import EXAMPLES, User

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
README = PAGE.parent.parent / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = "127.0.0.1:8741"
LATER = "everindex tags list"
WRITTEN = "grep '`dilution`' _review-queue.md"
PATIENCE = 60.0
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]


def examples(text):
    """Yield each command of the page with the lines that it is to print."""
    for block in BLOCK.findall(text):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            yield command, shown


def pattern(shown):
    """Return an expression for what a page shows: `…` is anything, and any white space is a blank."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in shown.split("…")]
    return re.compile(r"\A\s*" + r"\s*.*?\s*".join(parts) + r"\s*\Z", re.DOTALL)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """What runs a command in the vault, while the vault is served."""
    base = tmp_path_factory.mktemp("recipes")
    shutil.copytree(EXAMPLES, base / "vault")
    (base / "backups").mkdir()
    # Else a tick is applied after five seconds, which may be before `everindex tags apply` on a slow machine.
    domains = base / "vault" / "_domains.yaml"
    text = domains.read_text(encoding="utf-8")
    domains.write_text(
        text.replace("finance:\n", "finance:\n  review: {promote: manual}\n"), encoding="utf-8"
    )
    user = User(base, base / "vault")
    user.up()
    environment = user.environment | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "EVERINDEX_STATE": str(user.state),
        "EVERINDEX_VAULT": str(user.root),
        "STATE": str(user.state),
        "BACKUPS": str(base / "backups"),
        "COLUMNS": "200",
    }

    def run(command):
        return subprocess.run(
            ["bash", "-c", command.replace(PORT, f"127.0.0.1:{user.port}")],
            cwd=user.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    yield run
    user.stop()


def test_each_reader_has_commands():
    assert len(SECTIONS) == 5
    assert all(len(list(examples(section))) >= 3 for section in SECTIONS)


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "perl"))), reason="the tutorial needs bash, curl and perl"
)
@pytest.mark.parametrize("section", [pytest.param(s, id=s.partition("\n")[0]) for s in SECTIONS])
def test_each_command_prints_what_the_page_shows(terminal, section):
    for command, shown in examples(section):
        wanted, deadline = pattern(shown), time.monotonic() + PATIENCE
        done = terminal(command)
        # Proposals are made and written in the background, and asking for them again changes nothing.
        while command == LATER and time.monotonic() < deadline:
            if wanted.match(done.stdout) and terminal(WRITTEN).returncode == 0:
                break
            done = terminal(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert wanted.match(done.stdout), f"{command}\n{done.stdout}\n\nis not\n\n{shown}"


def test_the_readme_counts_what_the_example_vault_has(terminal):
    domains = json.loads(terminal("everindex status --json").stdout)["domains"].values()
    notes, passages = (sum(domain[name] for domain in domains) for name in ("notes", "chunks"))
    told = README.read_text(encoding="utf-8")
    assert f"{notes} notes are findable" in told
    assert f"100% {passages} passages" in told


def test_the_readme_fits_in_120_lines():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a  b\n", "a b", True),
        ("a\n…\n", "a\nb\nc\n", True),
        ("a\n", "a\nb\n", False),
        ("1 … 3\n", "1 2 4\n", False),
        ("", "a", False),
    ],
)
def test_a_line_may_leave_out_only_what_it_marks(shown, printed, fits):
    assert bool(pattern(shown).match(printed)) == fits
