"""A vault that is indexed, and its MCP server."""

from __future__ import annotations

import shutil

import anyio
import pytest
from mcp import Client

from queue_config.settings import Settings
from service.mcp.library import Library
from service.mcp.server import make_server
from service.usecases.search import View
from tests.once import made_once
from tests.whole.conftest import User, wait_for
from workers.resources import Resources

ERAS = ("2026-07-28", "legacy")

NOTES = {
    "Concepts/Moats.md": (
        "---\ntags: [investing, moat]\naliases: [Moat]\n---\n"
        "# Moats\n\nA moat is pricing power that lasts.\n\n## History\n\nBuffett used the word in 1986.\n\n"
        "## Erosion\n\nMoats erode when switching costs fall. See [[Pricing]]. ^erosion\n"
    ),
    "Concepts/Pricing.md": "---\ntags: [investing]\n---\n# Pricing\n\nA price rise that loses no customers. [[Moats]]\n",
    "Garden/Soil.md": "---\ntags: [garden]\n---\n# Soil\n\nClay holds water. "
    + "More words about soil. " * 40
    + "\n",
    "Garden/Pests/Slugs.md": "# Slugs\n\nSlugs eat lettuce at night. See [[Soil]].\n",
    "Inbox.md": "# Inbox\n\nCall the dentist.\n",
}


def write(vault, notes):
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def indexed(tmp_path_factory):
    """A vault and its state folder, indexed once with the embedded model; tests work on copies."""

    def make(base):
        write(base / "vault", NOTES)
        user = User(base, base / "vault")
        user.run("index", *user.place)

    return made_once(tmp_path_factory, "indexed", make)


@pytest.fixture
def vault(tmp_path, indexed):
    root = tmp_path / "vault"
    shutil.copytree(indexed / "vault", root)
    return root


@pytest.fixture
def resources(vault, tmp_path, indexed):
    """The vault's resources; the copies of its files are known as they are."""
    shutil.copytree(indexed / "state", tmp_path / "state")
    return Resources(Settings(vault=vault, state=tmp_path / "state"))


@pytest.fixture
def library(resources):
    questions = View(resources, wait_for_model=True)
    return Library(questions)


@pytest.fixture
def server(library):
    return make_server(library)


@pytest.fixture(params=ERAS)
def ask(request, server):
    """Call tools, each with a client of its own."""

    def call(name, **arguments):
        async def run():
            async with Client(server, mode=request.param) as client:
                await client.list_tools()
                return await client.call_tool(name, arguments)

        return anyio.run(run)

    return call


@pytest.fixture
def user(vault, tmp_path, indexed):
    """The indexed vault with a user at a terminal; nothing runs."""
    shutil.copytree(indexed / "state", tmp_path / "state")
    user = User(tmp_path, vault)
    yield user
    user.stop()


@pytest.fixture(scope="session")
def served(tmp_path_factory, indexed):
    """The indexed vault with a query worker; tests leave its notes as they are."""
    base = tmp_path_factory.mktemp("served")
    for name in ("vault", "state"):
        shutil.copytree(indexed / name, base / name)
    user = User(base, base / "vault")
    serve(user)
    yield user
    user.stop()


def serve(user):
    """Start a query worker, and wait for its model."""
    user.start("serve", *user.place, "--port", str(user.port))
    wait_for(lambda: user.health().get("model_ready"), "a query worker with its model", 240)


def answered(result):
    assert not result.is_error, result.content
    return result.structured_content


def complained(result):
    assert result.is_error
    assert result.structured_content is None
    return result.content[0].text


def linked(result):
    return [one.uri for one in result.content if one.type == "resource_link"]
