"""`everindex index` on a stranger's vault: nothing outside is touched, nothing hangs, the honest note is indexed."""

from __future__ import annotations

import subprocess
import sys

import apsw
import pytest

from tests.sweeps import ALL
from tests.whole.conftest import User

from .canaries import SECRET, Canaries
from .vaults import ATTACKS, TOGETHER, plant

PATIENCE = 60  # a hang has no end, and a loaded machine is slow

# These files decide which notes exist, and in which domain: a guess could index what must not be indexed.
REFUSED_AS_A_WHOLE = ("_domains.yaml", ".everindex", "a domain", "a taxonomy")

# Each by itself; outside the full run, the attacks that fit into one vault share it.
ALONE = {name: (name,) for name in ATTACKS if ALL or name not in TOGETHER}
VAULTS = ALONE if ALL else {**ALONE, "what one vault can have together": TOGETHER}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify tells what was opened")


@pytest.fixture
def canaries(ground):
    return Canaries(ground / "outside")


@pytest.fixture
def victim(ground, tiny_model):
    root = ground / "vault"
    root.mkdir()
    return User(ground, root, EMBEDDING_MODEL=str(tiny_model))


def index(user):
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "index", *user.place],
        env=user.environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def leaks(folder):
    """Return the files below a folder that contain the secret from outside the vault."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if SECRET.encode() in path.read_bytes()]


def honest_note_is_indexed(state):
    for path in state.glob("cache-*.db"):
        con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        found = list(con.execute("SELECT 1 FROM vault_chunk WHERE path = 'Garden.md'"))
        con.close()
        if found:
            return True
    return False


@pytest.mark.parametrize("name", VAULTS)
def test_nothing_outside_is_touched_and_nothing_hangs(name, victim, canaries):
    for attack in VAULTS[name]:
        plant(attack, victim.root, canaries.folder)
    canaries.watch()
    done = index(victim)
    said = (done.stdout + done.stderr).decode()
    assert canaries.touched() == []
    assert canaries.unchanged()
    assert "Traceback" not in said
    assert leaks(victim.state) == []
    assert SECRET not in said
    if done.returncode and name.startswith(REFUSED_AS_A_WHOLE):
        assert len(said.strip()) > 20, said  # a sentence that says what to do
    else:
        assert done.returncode == 0, said
        assert honest_note_is_indexed(victim.state), said
