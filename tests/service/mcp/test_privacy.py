"""Private notes are absent: no tool, resource, completion, prompt or notice has a word, a title, a path or a count of them."""

from __future__ import annotations

import json

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, PromptReference, ResourceTemplateReference

from queue_config.settings import Settings
from service.mcp.library import Library
from service.mcp.server import make_server
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests import canaries
from tests.service.mcp.conftest import write
from workers.resources import Resources

ASKED = ("kanarytextone", "garden soil and worms", "Kanary title one", "hide the task")
NAMES = sorted(canaries.HIDDEN)
CALLS = [
    *(("search", {"query": asked, "limit": 50}) for asked in ASKED),
    *(("search", {"query": "soil", name: ["kanarytagone", "diary"]}) for name in ("tag", "kind", "author")),
    *(("search", {"query": "soil", "folder": [name.rpartition("/")[0]]}) for name in NAMES),
    ("search", {"query": "soil", "properties": {"status": "kanarystatusone"}}),
    ("search", {"query": "soil", "has": ["task"]}),
    ("search", {"query": "soil", "path": NAMES}),
    ("search", {"query": "soil", "section": ["Kanary heading"], "min_similarity": -1}),
    *(("context", {"question": asked, "budget": budget}) for asked in ASKED for budget in (300, 20_000)),
    *(
        ("context", {"question": "soil", name: ["kanarytagone", "diary"]})
        for name in ("tag", "kind", "author")
    ),
    *(("context", {"question": "soil", "path": [name], "compress": "strong"}) for name in NAMES),
    *(("context", {"recipe": name, "note": "Soil.md"}) for name in ("near", "same", "asks", "none")),
    *(("context", {"recipe": "near", "note": name}) for name in NAMES),
    *(("read", {"note": name}) for name in NAMES),
    *(
        ("read", {"note": name})
        for name in ("n1", "[[n1]]", "kanaryaliasone", "Kanary title one", "vault://n1.md")
    ),
    *(("browse", {"by": by}) for by in ("folder", "tag", "recent")),
    *(("browse", {"by": "folder", "of": name.rpartition("/")[0]}) for name in NAMES),
    *(("browse", {"by": "tag", "of": tag}) for tag in ("earth", "diary", "kanarytagone", "private")),
    *(("browse", {"by": by, "of": name}) for by in ("similar", "backlinks") for name in ("Soil.md", *NAMES)),
    *(("traverse", {"note": name, "depth": 3}) for name in ("Soil.md", "Worms.md", *NAMES)),
    ("browse", {"by": "backlinks", "of": "Soil.md", "type": ["about"]}),
    ("traverse", {"note": "Soil.md", "type": ["about"], "depth": 3}),
    *(("traverse", {"question": asked, "deep": deep}) for asked in ASKED for deep in (False, True)),
    *(("verify_quotes", {"quotes": [{"note": name, "quote": "Garden soil and worms"}]}) for name in NAMES),
    *(("index", {"path": name}) for name in ("Soil.md", *NAMES)),
    *(("similar", {"note": name}) for name in ("Soil.md", *NAMES)),
    ("status", {}),
    *(("status", {"note": name}) for name in NAMES),
    *(("propose", {"note": name, "tags": ["earth"]}) for name in NAMES),
]
OF_A_NOTE = [
    ("read", {"note": "{}"}),
    ("browse", {"by": "backlinks", "of": "{}"}),
    ("browse", {"by": "similar", "of": "{}"}),
    ("context", {"recipe": "near", "note": "{}"}),
    ("index", {"path": "{}"}),
    ("similar", {"note": "{}"}),
    ("context", {"question": "soil", "path": ["{}"]}),
    ("traverse", {"note": "{}"}),
    ("verify_quotes", {"quotes": [{"note": "{}", "quote": "Garden soil and worms"}]}),
    ("status", {"note": "{}"}),
    ("propose", {"note": "{}", "tags": ["earth"]}),
]
RECIPES = """
near: {budget: 20000, slots: [{neighbours: links, k: 24}, {neighbours: {type: about, depth: 4}, k: 24}]}
same: {slots: [{neighbours: community, k: 24}]}
asks: {slots: [{query: "{title} worms", k: 24}, {query: worms, where: {tag: diary}}, {query: worms, where: {folder: Private}}]}
"""


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    base = tmp_path_factory.mktemp("canaries")
    write(base / "vault", {**canaries.NOTES, "_contexts.yaml": RECIPES})
    found = Resources(
        Settings(
            vault=base / "vault",
            state=base / "state",
            agents_see_private="Trusted",
            agents_have_all_tools=True,
        )
    )
    index_once(found, lambda *_: None)
    return found


@pytest.fixture(scope="module")
def server(resources):
    questions = View(resources, wait_for_model=True)
    return make_server(Library(questions))


def as_client(server, use, name="An agent"):
    async def main():
        async with Client(server, client_info=Implementation(name=name, version="1")) as client:
            return await use(client)

    return anyio.run(main)


def test_every_tool_is_asked_about_private_notes(server):
    async def use(client):
        return {tool.name for tool in (await client.list_tools()).tools}

    offered = as_client(server, use)
    assert {name for name, _ in CALLS} == offered
    # A tool that takes the name of a note has to be asked for a private one and for one that does not exist.
    assert {name for name, _ in OF_A_NOTE} == offered - {"search"}


def test_no_tool_has_a_word_of_a_private_note(server):
    async def use(client):
        return [await client.call_tool(name, arguments) for name, arguments in CALLS]

    for (name, arguments), answer in zip(CALLS, as_client(server, use), strict=True):
        said = answer.model_dump_json()
        assert canaries.leaks(said, json.dumps(arguments)) == [], (name, arguments)
        assert "_contexts.yaml:" not in said  # a recipe that is refused would test nothing


def test_no_typed_link_of_a_private_note_leads_an_agent_anywhere(server):
    async def use(client):
        walk = {"note": "Soil.md", "type": ["about"], "depth": 3}
        back = {"by": "backlinks", "of": "Soil.md", "type": ["about"]}
        return [await client.call_tool(*call) for call in (("traverse", walk), ("browse", back))]

    walked, browsed = (answer.structured_content for answer in as_client(server, use))
    assert [note["path"] for note in walked["notes"]] == ["Soil.md"], (
        "not Beds/Alone.md, which lies behind them"
    )
    assert (walked["unread"], browsed["notes"], browsed["count"]) == (0, [], 0)
    walked, browsed = (answer.structured_content for answer in as_client(server, use, "Trusted"))
    assert {"Beds/Alone.md", "kanaryfolder1/n1.md"} <= {note["path"] for note in walked["notes"]}
    assert browsed["count"] > 1


def test_a_recipe_by_community_tells_nothing_of_the_notes_that_make_it(server):
    async def use(client):
        asked = ({"recipe": "same", "note": note} for note in ("Soil.md", "Worms.md"))
        return [await client.call_tool("context", one) for one in asked]

    for answer in as_client(server, use):
        assert answer.structured_content["passages"] == []
        assert "communities are not available to agents" in str(answer.structured_content["warnings"])


def test_a_private_note_answers_like_one_that_does_not_exist(server):
    async def use(client):
        for name, arguments in OF_A_NOTE:
            said = []
            for path in ("kanaryfolder1/n1.md", "kanaryfolder1/nx.md"):
                asked = json.loads(json.dumps(arguments).replace("{}", path))
                answer = await client.call_tool(name, asked)
                said.append(answer.model_dump_json(exclude={"meta"}).replace(path, "{}"))
            assert said[0] == said[1], name

    as_client(server, use)


def test_nothing_is_counted_that_is_not_shown(server):
    async def use(client):
        state = (await client.call_tool("status", {})).structured_content
        top = (await client.call_tool("browse", {"by": "folder"})).structured_content
        tags = (await client.call_tool("browse", {"by": "tag"})).structured_content
        return state, top, tags

    state, top, tags = as_client(server, use)
    assert sum(part["notes"] for part in state["parts"]) == len(canaries.SEEN)
    assert top["groups"] == [{"name": "Beds", "notes": 2}]
    assert top["count"] == 4
    assert tags["groups"] == [{"name": "earth", "notes": 2}]


def test_no_resource_or_completion_has_a_word_of_a_private_note(server):
    references = [
        (ResourceTemplateReference(uri="vault://{+path}"), "path"),
        (PromptReference(name="weekly_review"), "folder"),
        (PromptReference(name="any"), "tag"),
    ]

    async def use(client):
        said = [(await client.list_resources()).model_dump_json()]
        said += [
            (await client.complete(ref, {"name": name, "value": typed})).model_dump_json()
            for ref, name in references
            for typed in ("k", "kanary", "n", "s", "office")
        ]
        for path in NAMES:
            with pytest.raises(MCPError, match="there is no such resource"):
                await client.read_resource(f"vault://{path}")
            known = {"path": path}
            section = ResourceTemplateReference(uri="vault://{+path}{#section}")
            said.append(
                (await client.complete(section, {"name": "section", "value": ""}, known)).model_dump_json()
            )
        return said

    assert [word for text in as_client(server, use) for word in canaries.leaks(text)] == []


def test_a_private_note_causes_no_notice(server, resources):
    async def use(client):
        watched = ["vault://kanaryfolder1/n1.md", "vault://Soil.md"]
        async with client.listen(resource_subscriptions=watched, resources_list_changed=True) as stream:
            await anyio.to_thread.run_sync(save, "kanaryfolder1/n1.md", "kanaryfolder1/new.md")
            await anyio.to_thread.run_sync(save, "Soil.md")
            with anyio.fail_after(120):
                return (await anext(aiter(stream))).uri

    def save(*paths):
        for path in paths:
            file = resources.root / path
            text = file.read_text() if file.exists() else "---\nprivate: true\n---\n# Kanary\n"
            file.write_text(f"{text}\nOne line more.\n")
        index_once(resources, lambda *_: None)

    assert as_client(server, use) == "vault://Soil.md"


def test_only_the_operators_setting_opens_them_for_a_client(server):
    async def use(client):
        return (await client.call_tool("read", {"note": "kanaryfolder1/n1.md"})).is_error

    assert as_client(server, use)
    assert not as_client(server, use, "Trusted")
