"""A stranger's vault that is served: saves are found, every command and route answers, nothing outside is touched."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from urllib.parse import quote

import click
import httpx
import pytest

from service.cli.main import app
from tests.racers import exchanging
from tests.whole.conftest import User, wait_for

from .canaries import SECRET, Canaries
from .vaults import TOGETHER, plant

PATIENCE = 60  # a hang has no end, and a loaded machine is slow
LONG_RUNNING = {"up", "demo", "watch", "work", "serve", "service", "restore"}
"""Commands that go on until they are stopped, change the machine, or want the service stopped."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify tells what was opened")


@pytest.fixture(scope="module")
def canaries(lasting_ground):
    return Canaries(lasting_ground / "outside")


@pytest.fixture(scope="module")
def user(lasting_ground, tiny_model, canaries):
    root = lasting_ground / "vault"
    root.mkdir()
    for attack in TOGETHER:
        plant(attack, root, canaries.folder)
    canaries.watch()
    victim = User(lasting_ground, root, EMBEDDING_MODEL=str(tiny_model))
    try:
        process = victim.start("up", *victim.place, "--port", str(victim.port), output=subprocess.DEVNULL)
        wait_for(lambda: "Garden.md" in found(victim, "honestly"), f"the honest note; {victim.logs()}")
        yield victim
        assert process.poll() is None
    finally:
        victim.stop()


def found(user, question):
    try:
        return user.found(question)
    except (OSError, httpx.HTTPError, KeyError):
        return []  # it is starting


def commands(group, *names):
    """Yield each command that ends by itself, as the words that name it and its parameters."""
    for name, command in group.commands.items():
        if name in LONG_RUNNING:
            continue
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield [*names, name], command


def arguments(command, user, tmp_path):
    """Return words for what a command must be given."""
    required = [p.name for p in command.params if isinstance(p, click.Argument) and p.required]
    words = [str(tmp_path / "file") if "file" in name else "Escapes.md" for name in required]
    options = {option for parameter in command.params for option in parameter.opts}
    return [*words, *(user.place if {"--vault", "--state"} <= options else ())]


def run(user, words):
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *words],
        env=user.environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def signs(text):
    """Return the control and bidirectional characters that a terminal would obey."""
    return {
        f"U+{ord(c):04X}"
        for c in text
        if c not in "\n\t\r"
        and (unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c)[:2] in ("LR", "RL", "PD", "FS"))
    }


@pytest.mark.parametrize("name", [" ".join(words) for words, _ in commands(app)])
def test_a_command_prints_text_and_no_traceback(name, user, tmp_path):
    (command,) = [command for words, command in commands(app) if " ".join(words) == name]
    (tmp_path / "file").write_text('[{"path": "Garden.md", "quote": "The garden soil compost honestly."}]')
    done = run(user, [*name.split(), *arguments(command, user, tmp_path)])
    said = (done.stdout + done.stderr).decode()
    assert "Traceback" not in said
    assert signs(said) == set()
    assert SECRET not in said
    assert done.returncode in (0, 1, 2)


def test_every_route_answers_and_says_nothing_of_what_lies_outside(user):
    token = (user.state / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    paths = [
        "linked.md",
        "folder/private.md",
        "zero.md",
        "fifo.md",
        "Escapes.md",
        "Garden.md",
        "a" * 60 + ".md",
    ]
    with httpx.Client(base_url=f"http://127.0.0.1:{user.port}", headers=headers, timeout=PATIENCE) as client:
        described = client.get("/openapi.json").json()["paths"]
        for route, methods in described.items():
            for path in paths if "{path}" in route else ["x"]:
                if "get" in methods:
                    address = re.sub(r"\{\w+\}", quote(path), route)
                    answer = client.get(address, params={"q": "soil honestly", "path": path})
                    assert answer.status_code < 500, (address, answer.text)
                    assert SECRET not in answer.text, address
        for page in (
            "/",
            "/?q=soil",
            "/graph",
            "/ops",
            "/ops/jobs",
            "/ops/parked",
            "/ops/queue",
            "/ops/review",
        ):
            answer = client.get(page, headers={"Accept": "text/html"})
            assert answer.status_code == 200, page
            assert SECRET not in answer.text, page


def test_saves_are_found_while_a_folder_and_a_link_change_places(user, canaries):
    (user.root / "swapped").mkdir()
    (user.root / "swapped" / "private.md").write_text("# Mine\n\nriver boat inside\n")
    (user.root / "trap").symlink_to(canaries.folder / "notes")
    with exchanging(user.root / "swapped", user.root / "trap"):
        for number in range(5):
            word = f"zeppelin{number}"
            (user.root / "Saved.md").write_text(f"# Saved\n\n{word} soil\n")
            wait_for(lambda word=word: "Saved.md" in found(user, word), f"{word}; {user.logs()}")


def test_nothing_outside_was_opened(user, canaries):
    # The last test of the module, because it checks all that the others did.
    assert canaries.touched() == []
    assert canaries.unchanged()
    logs = [path for path in user.state.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert logs == []
