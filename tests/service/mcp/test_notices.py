"""A client that watches a note is notified of its next version, and of no other note's."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import anyio
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated

from service.mcp.notices import Notices, _Watch
from service.usecases.maintenance import index_once
from workers.tasks import compare

PATIENCE = 120


@pytest.fixture
def save(vault, resources):
    """Write notes, and index them."""

    def write(**notes):
        for name, text in notes.items():
            path = vault / f"{name}.md"
            path.write_text(text) if text is not None else path.unlink()
        index_once(resources, lambda *_: None, confirmed=True)

    return lambda **notes: anyio.to_thread.run_sync(lambda: write(**notes))


def test_a_stream_tells_of_the_notes_that_are_watched(server, save):
    async def main():
        async with (
            Client(server) as client,
            client.listen(resource_subscriptions=["vault://Inbox.md"]) as stream,
        ):
            await save(Other="# Other\n")
            await save(Inbox="# Inbox\n\nChanged.\n")
            with anyio.fail_after(PATIENCE):
                assert await anext(aiter(stream)) == ResourceUpdated(uri="vault://Inbox.md")
            read = await client.read_resource("vault://Inbox.md")
            assert "Changed." in read.contents[0].model_dump()["text"]

    anyio.run(main)


def test_a_save_that_is_not_indexed_yet_causes_no_notice(server, save, vault, resources):
    def see():
        (vault / "Inbox.md").write_text("# Inbox\n\nSeen, and not indexed.\n")
        compare(resources)

    async def main():
        async with (
            Client(server) as client,
            client.listen(resource_subscriptions=["vault://Inbox.md"], resources_list_changed=True) as stream,
        ):
            told = aiter(stream)
            await anyio.to_thread.run_sync(see)
            with anyio.move_on_after(1):
                pytest.fail(f"told of {await anext(told)}")
            await save(Other="# Other\n")
            with anyio.fail_after(PATIENCE):
                kinds = {type(await anext(told)), type(await anext(told))}
            assert kinds == {ResourceUpdated, ResourcesListChanged}
            read = await client.call_tool(
                "verify_quotes", {"quotes": [{"note": "Inbox.md", "quote": "Seen, and not indexed."}]}
            )
            assert read.structured_content["status"] == "all_verified"

    anyio.run(main)


def test_a_stream_tells_that_a_watched_note_is_gone(server, save):
    async def main():
        async with (
            Client(server) as client,
            client.listen(resource_subscriptions=["vault://Inbox.md"]) as stream,
        ):
            await save(Inbox=None)
            with anyio.fail_after(PATIENCE):
                assert await anext(aiter(stream)) == ResourceUpdated(uri="vault://Inbox.md")

    anyio.run(main)


def test_a_stream_tells_that_the_list_of_notes_is_another(server, save):
    async def main():
        async with Client(server) as client, client.listen(resources_list_changed=True) as stream:
            await save(Inbox="# Inbox\n\nOnly its text changed.\n")
            await save(New="# New\n")
            with anyio.fail_after(PATIENCE):
                assert await anext(aiter(stream)) == ResourcesListChanged()

    anyio.run(main)


@pytest.mark.filterwarnings("ignore:resources/")
def test_a_session_of_the_earlier_era_is_notified_until_it_unsubscribes(server, save):
    async def main():
        told, first = [], anyio.Event()

        async def note(message):
            told.append(str(message.params.uri))
            first.set()

        async with Client(server, mode="legacy", message_handler=note) as client:
            await client.session.subscribe_resource("vault://Inbox.md")
            await client.session.subscribe_resource("vault://Garden/Soil.md")
            await client.session.unsubscribe_resource("vault://Garden/Soil.md")
            await save(**{"Garden/Soil": "# Soil\n\nSandy.\n", "Inbox": "# Inbox\n\nChanged.\n"})
            with anyio.fail_after(PATIENCE):
                await first.wait()
            assert told == ["vault://Inbox.md"]

    anyio.run(main)


def test_a_note_that_is_indexed_while_the_list_is_read_does_not_change_the_list(
    library, vault, resources, monkeypatch
):
    told, read_list = [], type(library).paths
    loop = SimpleNamespace(call_soon_threadsafe=lambda tell, event: tell(event))
    watch = _Watch(library, {}, lists=True, tell=told.append, loop=loop)
    watch.look()
    (vault / "Inbox.md").write_text("# Inbox\n\nSeen, then indexed.\n")
    compare(resources)
    before = read_list(library)

    def index_meanwhile(asked):
        found = read_list(asked)
        index_once(resources, lambda *_: None)
        return found

    monkeypatch.setattr(type(library), "paths", index_meanwhile)
    watch.look()
    monkeypatch.undo()
    assert before != read_list(library), "agents see no note whose new version was not judged"
    watch.look()
    assert told == []


def test_a_watch_whose_client_left_with_its_loop_ends(library):
    notices = Notices(library)

    async def leave():
        notices.watch(library, ["vault://Inbox.md"], lambda _: None, lists=False)

    asyncio.run(leave())
    deadline = time.monotonic() + PATIENCE
    while notices._following:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not notices._watches
