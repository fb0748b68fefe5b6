"""A vault in a Python program: the same answers and errors from a running service and from the index alone."""

from __future__ import annotations

import asyncio
import inspect
import socket
import subprocess
import sys
import threading
import typing
from contextlib import contextmanager
from datetime import date

import pytest
import structlog

import everindex
from everindex.errors import (
    DomainNotFoundError,
    EverindexError,
    FilterError,
    NoteNotFoundError,
    NotFoundError,
    OverruledError,
    ServiceError,
    VaultNotFoundError,
)
from pipelines.filters import NAMES
from service.runtime.client import announced
from tests.whole.conftest import User
from workers.heartbeat import process_name

NOTES = {
    "Moats.md": "---\nkind: concept\nticker: NVDA\ncreated: 2025-03-04\ntags: [moat]\n---\n# Moats\n\n## What lasts\n\n"
    "The market gives a moat a price. See [[Garden]].\n",
    "Garden.md": "---\ntags: [soil]\nprivate: true\n---\nThe garden has soil.\n",
    "Bread.md": "The bread needs flour and the market.\n",
}
ANSWERED = {
    "search": lambda vault: vault.search("the market", 2),
    "a filter": lambda vault: vault.search("market", kind="concept", since=date(2025, 3, 4), until="2025-03-04"),
    "a set of values": lambda vault: vault.search("market", path={"Bread.md", "Moats.md"}),
    "several values": lambda vault: vault.search("market", path=["Bread.md", "Moats.md"], has=None),
    "a section": lambda vault: vault.search("market", section="lasts", min_similarity=-1),
    "a property": lambda vault: vault.search("market", properties={"ticker": ["NVDA", "AMD"]}),
    "what is left out": lambda vault: vault.search("market", without={"tag": "moat", "properties": {"ticker": "X"}}),
    "similar": lambda vault: vault.similar("Moats.md", 1),
    "similar, filtered": lambda vault: vault.similar("Moats", tag="soil"),
    "context": lambda vault: vault.context("the market", 300, tag="moat"),
    "a note": lambda vault: vault.note("Moats"),
    "a note by its place": lambda vault: vault.note(vault.root / "Moats.md"),
    "as a passage": lambda vault: vault.embed("the market"),
    "as a question": lambda vault: vault.embed("the market", question=True, domain="vault"),
    "index": lambda vault: vault.index("Bread.md", force=True),
}  # fmt: skip
REFUSED = {
    "an unknown filter": (FilterError, lambda vault: vault.search("market", colour="red")),
    "no filter but a parameter": (FilterError, lambda vault: vault.search("market", q="x")),
    "another's name": (FilterError, lambda vault: vault.search("market", top_k=3)),
    "no value": (FilterError, lambda vault: vault.search("market", path=[])),
    "no date": (FilterError, lambda vault: vault.context("market", since="soon")),
    "a negated day": (FilterError, lambda vault: vault.search("market", without={"domain": "vault"})),
    "no question": (FilterError, lambda vault: vault.search("")),
    "too many": (FilterError, lambda vault: vault.search("market", 1_000)),
    "too many alike": (FilterError, lambda vault: vault.similar("Moats", 1_000)),
    "too small": (FilterError, lambda vault: vault.context("market", 1)),
    "no text": (FilterError, lambda vault: vault.embed("")),
    "no domain": (DomainNotFoundError, lambda vault: vault.search("market", domain="nope")),
    "nowhere to embed": (DomainNotFoundError, lambda vault: vault.embed("market", domain="nope")),
    "no note": (NoteNotFoundError, lambda vault: vault.note("Mots")),
    "no such file": (NoteNotFoundError, lambda vault: vault.index("nope.md")),
    "no inbox": (OverruledError, lambda vault: vault.add_text("A text.", "A title")),
    "no title": (FilterError, lambda vault: vault.add_text("A text.", "")),
}


def plain(answer):
    """Return an answer without what differs between two moments, and between a service and none."""
    if isinstance(answer, list):
        return [round(number, 3) for number in answer]
    return answer.model_dump(exclude={"took_ms", "index", "indexed_at", "generation"})


@contextmanager
def notes(base, tiny_model, **environment):
    """A user with indexed notes; this process has his settings."""
    root = base / "notes"
    root.mkdir()
    for name, text in NOTES.items():
        (root / name).write_text(text)
    user = User(base, root, EMBEDDING_MODEL=str(tiny_model), **environment)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("EMBEDDING_MODEL", "XDG_STATE_HOME", "XDG_CONFIG_HOME", *environment):
            patch.setenv(name, user.environment[name])
        user.run("index", *user.place)
        yield user
        user.stop()
        structlog.reset_defaults()


@pytest.fixture(scope="module")
def asked(tmp_path_factory, tiny_model):
    """By way of asking: each answer, and each error."""

    def ask(call):
        try:
            return plain(call(vault))
        except EverindexError as error:
            return type(error), str(error)

    found = {}
    calls = {**ANSWERED, **{name: call for name, (_, call) in REFUSED.items()}}
    with (
        notes(tmp_path_factory.mktemp("asked"), tiny_model) as user,
        everindex.Vault(user.root, state=user.state) as vault,
    ):
        found["alone"] = {name: ask(call) for name, call in calls.items()}
        user.up()
        found["served"] = {name: ask(call) for name, call in calls.items()}
    return found


@pytest.mark.parametrize("name", ANSWERED)
def test_a_service_and_the_index_give_the_same_answer(asked, name):
    alone, served = asked["alone"][name], asked["served"][name]
    assert not isinstance(alone, tuple), alone
    assert alone == served


@pytest.mark.parametrize("name", REFUSED)
def test_a_service_and_the_index_raise_the_same_error(asked, name):
    kind, said = asked["alone"][name]
    assert kind is REFUSED[name][0]
    assert asked["served"][name] == (kind, said)


def test_a_hit_says_what_the_note_is(asked):
    (hit,) = asked["alone"]["a filter"]["results"]
    assert hit["path"] == "Moats.md"
    assert (hit["kind"], hit["date"], hit["section"]) == ("concept", "2025-03-04", "What lasts")
    assert hit["text"] == "## What lasts\n\nThe market gives a moat a price. See [[Garden]]."
    assert hit["properties"]["ticker"] == "NVDA"
    assert -1 <= hit["similarity"] <= 1


def test_filters_choose(asked):
    def paths(name):
        return [hit["path"] for hit in asked["alone"][name]["results"]]

    assert sorted(paths("several values")) == ["Bread.md", "Moats.md"]
    assert paths("a section") == paths("a property") == ["Moats.md"]
    assert "Moats.md" not in paths("what is left out")
    assert paths("similar, filtered") == ["Garden.md"]
    assert asked["alone"]["index"]["passages"] == 1


def test_a_vault_that_is_missing_or_was_never_indexed_is_an_error_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(VaultNotFoundError, match="nowhere"):
        everindex.Vault(tmp_path / "nowhere")
    (tmp_path / "new").mkdir()
    with pytest.raises(NotFoundError, match="never indexed"):
        everindex.Vault(tmp_path / "new")


def test_a_text_becomes_a_note_that_is_found_with_a_service_and_without(tmp_path, tiny_model):
    with (
        notes(tmp_path, tiny_model, EVERINDEX_INBOX="Inbox") as user,
        everindex.Vault(user.root, state=user.state) as vault,
    ):
        for number in (1, 2):
            added = vault.add_text(
                f"Clip {number}.", f"Clip {number}", kind="clip", properties={"ticker": "CLIP"}
            )
            assert (added.path, added.state, added.passages) == (f"Inbox/Clip {number}.md", "indexed", 1)
            found = vault.search("clip", kind="clip", properties={"ticker": "CLIP"}).results
            assert len(found) == number
            if number == 1:
                user.up()
        user.wait_until_quiet()  # its vector may come after its words
        user.wait_until_upkeep_is_done()
        before = vault.search("the market").results
        user.stop()
        assert [hit.path for hit in vault.search("the market").results] == [hit.path for hit in before]


class Dying:
    """A service that proves what it is, takes a request, and ends without an answer."""

    def __init__(self, state):
        self.token = (state / "token").read_text().strip()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ended = threading.Event()
        self.asked = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        from service.runtime.client import proof

        connection, _ = self.listener.accept()
        with connection, connection.makefile("rwb") as stream:
            nonce = stream.readline().split()[1].decode().rpartition("/")[2]
            while stream.readline().strip():
                pass
            said = proof(self.token, nonce, "127.0.0.1", self.port)
            stream.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode())
            stream.flush()
            self.asked.append(stream.readline().split()[1].decode())
        self.listener.close()
        threading.Timer(0.3, self.ended.set).start()


@contextmanager
def dying_service(state):
    service = Dying(state)

    def announce():
        with announced(state, service.port, process_name()):
            started.set()
            service.ended.wait(30)

    started = threading.Event()
    thread = threading.Thread(target=announce, daemon=True)
    thread.start()
    started.wait(10)
    yield service
    service.ended.set()
    thread.join(10)


def test_what_a_service_leaves_unanswered_when_it_ends_this_process_does(tmp_path, tiny_model):
    with (
        notes(tmp_path, tiny_model, EVERINDEX_INBOX="Inbox") as user,
        everindex.Vault(user.root, state=user.state) as vault,
    ):
        user.up()
        user.stop()  # there is a token now
        with dying_service(user.state) as service:
            assert [hit.path for hit in vault.search("flour").results][:1] == ["Bread.md"]
            assert service.asked == ["/search"]
        with dying_service(user.state) as service:
            assert vault.add_text("A text.", "a1").state == "indexed"
            assert service.asked == ["/notes"]
        assert vault.add_text("A text.", "a1").path == "Inbox/a1.md"
        assert vault.add_text("Another text.", "a1", title="Ignored").path == "Inbox/a1.md"
        assert [path.name for path in (user.root / "Inbox").iterdir()] == ["a1.md"]


def test_a_service_that_does_not_answer_and_does_not_end_is_an_error(tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr("everindex.vault._ENDING_SECONDS", 0.1)
    with (
        notes(tmp_path, tiny_model) as user,
        everindex.Vault(user.root, state=user.state) as vault,
    ):
        user.up()
        user.stop()
        with dying_service(user.state), pytest.raises(ServiceError, match="did not answer"):
            vault.search("flour")


def test_an_answer_of_another_version_is_an_error_of_ours(tmp_path, tiny_model, monkeypatch):
    with (
        notes(tmp_path, tiny_model) as user,
        everindex.Vault(user.root, state=user.state) as vault,
    ):
        monkeypatch.setattr(vault._client, "call", lambda *_, **__: {"path": "a.md"})
        with pytest.raises(ServiceError, match="another version"):
            vault.note("a.md")


def test_the_async_vault_has_the_same_methods_with_the_same_arguments():
    def methods(kind):
        return {
            name: inspect.signature(method)
            for name, method in vars(kind).items()
            if inspect.isfunction(method) and not name.startswith("_")
        }

    assert methods(everindex.AsyncVault) == methods(everindex.Vault)


def test_questions_of_an_async_vault_run_side_by_side(tmp_path, tiny_model):
    async def ask(user):
        async with everindex.AsyncVault(user.root, state=user.state) as vault:
            return await asyncio.gather(*(vault.search(word) for word in ("flour", "moat", "soil")))

    with notes(tmp_path, tiny_model) as user:
        found = asyncio.run(ask(user))
    assert [answer.results[0].path for answer in found] == ["Bread.md", "Moats.md", "Garden.md"]


def test_what_is_indexed_side_by_side_without_a_service_takes_turns(tmp_path, tiny_model):
    async def index(user):
        async with everindex.AsyncVault(user.root, state=user.state) as vault:
            return await asyncio.gather(*(vault.index(name, force=True) for name in NOTES))

    with notes(tmp_path, tiny_model) as user:
        assert {answer.state for answer in asyncio.run(index(user))} == {"indexed"}


def test_every_filter_is_a_keyword():
    assert typing.get_type_hints(everindex.FilterOptions).keys() == {*NAMES, "properties", "without"}


def test_the_import_is_light_and_a_search_leaves_the_programs_logs_alone(tmp_path, tiny_model):
    code = """
import sys, everindex, logging
print(sorted({"anyio", "click", "fastapi", "numpy", "pydantic", "structlog", "torch"} & set(sys.modules)))
everindex.Vault(sys.argv[1], state=sys.argv[2]).search("market")
print(logging.getLogger().handlers)
"""
    with notes(tmp_path, tiny_model) as user:
        done = subprocess.run(
            [sys.executable, "-c", code, user.root, user.state],
            env=user.environment,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "[]\n[]\n"
