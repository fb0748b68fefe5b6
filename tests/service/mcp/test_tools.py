"""Every tool, asked by the official client library in both eras of the protocol."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from pipelines.search import walk
from service.mcp.tools import FURTHER, TOOLS, plain_schema
from service.usecases.maintenance import index_once
from tests.service.mcp.conftest import ERAS, answered, complained, linked


def test_a_search_says_whether_it_is_an_answer_and_where_it_is(ask):
    result = ask("search", query='"pricing power"', limit=1)
    found = answered(result)
    (hit,) = found["hits"]
    assert hit["path"] == "Concepts/Moats.md"
    assert hit["locator"] == {"kind": "lines", "first": 5, "last": 7}
    assert hit["uri"] == "vault://Concepts/Moats.md#L5-L7"
    assert "pricing power" in hit["text"]
    assert found["freshness"]["behind"] == 0
    assert found["freshness"]["generation"]
    assert "match" in found
    assert linked(result) == [hit["uri"]]


def test_a_page_of_a_search_continues_where_the_last_one_ended(ask):
    first = answered(ask("search", query="notes", limit=2))
    assert first["truncated"]
    second = answered(ask("search", query="notes", limit=2, cursor=first["cursor"]))
    paths = [hit["path"] for page in (first, second) for hit in page["hits"]]
    assert len(set(paths)) == 4


@pytest.mark.parametrize("change", ["query", "letter", "made up"])
def test_a_cursor_that_was_altered_or_is_of_another_question_is_refused(ask, change):
    cursor = answered(ask("search", query="notes", limit=1))["cursor"]
    if change == "letter":
        cursor = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    elif change == "made up":
        cursor = "eyJvZmZzZXQiOjF9"
    query = "other" if change == "query" else "notes"
    assert "cursor" in complained(ask("search", query=query, limit=1, cursor=cursor))


def test_a_search_takes_other_phrasings_and_merges_what_they_find(ask):
    alone = {hit["path"] for hit in answered(ask("search", query="pricing power", limit=3))["hits"]}
    merged = answered(ask("search", query="pricing power", also=["boat", "soil"], limit=50))["hits"]
    every = [
        answered(ask("search", query=one, limit=50))["hits"] for one in ("pricing power", "boat", "soil")
    ]
    assert alone <= {hit["path"] for hit in merged} == {hit["path"] for hits in every for hit in hits}
    assert "'tag:x' has no words" in complained(ask("search", query="soil", also=["tag:x"]))
    assert "also" in complained(ask("search", query="soil", also=["x"] * 5))


def test_a_search_is_narrowed_before_it_ranks(ask):
    found = answered(ask("search", query="soil", folder=["Garden"], tag=["garden"]))
    assert [hit["path"] for hit in found["hits"]] == ["Garden/Soil.md"]
    # Some clients send lists as JSON in a string.
    assert answered(ask("search", query="soil", folder='["Garden/Pests"]'))["hits"][0]["path"].endswith(
        "Slugs.md"
    )


def test_arguments_that_are_wrong_are_explained(ask):
    said = complained(ask("search", query="", limit=1_000, colour="red", since="x"))
    assert "query: String should have at least 1 character" in said
    assert "limit: Input should be less than or equal to 50" in said
    assert "colour: there is no such argument; the arguments are " in said
    assert "not a date" in complained(ask("search", query="soil", since="yesterday"))


@pytest.mark.parametrize("era", ERAS)
def test_there_is_no_other_tool(server, era):
    async def run():
        async with Client(server, mode=era) as client:
            with pytest.raises(MCPError, match="there is no tool"):
                await client.call_tool("delete_everything", {})

    anyio.run(run)


@pytest.mark.parametrize(
    "name",
    [
        "Concepts/Moats.md",
        "Concepts/Moats",
        "moats",
        "Moat",
        "[[Moats]]",
        "[[Moats|so]]",
        "vault://Concepts/Moats.md",
    ],
)
def test_a_note_is_read_by_any_of_its_names(ask, name, vault):
    result = ask("read", note=name)
    found = answered(result)
    assert found["note"]["path"] == "Concepts/Moats.md"
    assert found["text"] == (vault / "Concepts/Moats.md").read_text()
    assert found["tags"] == ["investing", "moat"]
    assert found["last_line"] == 15
    assert linked(result) == ["vault://Concepts/Moats.md#L1-L15"]


@pytest.mark.parametrize(
    ("asked", "text", "lines"),
    [
        ({"note": "[[Moats#History]]"}, "## History\n\nBuffett used the word in 1986.\n", (9, 11)),
        (
            {"note": "Moats", "section": "Moats > History"},
            "## History\n\nBuffett used the word in 1986.\n",
            (9, 11),
        ),
        ({"note": "Moats", "first_line": 7, "last_line": 7}, "A moat is pricing power that lasts.\n", (7, 7)),
        ({"note": "vault://Concepts/Moats.md#L7"}, "A moat is pricing power that lasts.\n", (7, 7)),
        ({"note": "[[Moats#^erosion]]"}, "Moats erode when switching costs fall.", (15, 15)),
    ],
)
def test_a_section_or_lines_are_read(ask, asked, text, lines):
    found = answered(ask("read", **asked))
    assert found["text"].startswith(text)
    assert (found["note"]["locator"]["first"], found["note"]["locator"]["last"]) == lines


def test_a_long_note_is_read_in_parts_that_join(ask, vault):
    parts, cursor, ends = [], None, []
    while True:
        found = answered(
            ask("read", note="Soil", max_characters=300, **({"cursor": cursor} if cursor else {}))
        )
        parts.append(found["text"])
        ends.append(found["note"]["locator"]["last"])
        cursor = found["cursor"]
        if not found["truncated"]:
            break
    assert len(parts) > 2
    assert "".join(parts) == (vault / "Garden/Soil.md").read_text()
    assert ends[-1] == 6


def test_a_note_that_has_changed_since_is_read_as_it_is_and_says_so(ask, vault):
    assert not answered(ask("read", note="Inbox"))["stale"]
    (vault / "Inbox.md").write_text("# Inbox\n\nNothing.\n")
    found = answered(ask("read", note="Inbox"))
    assert (found["text"], found["stale"]) == ("# Inbox\n\nNothing.\n", True)


def test_while_the_vault_is_unavailable_no_note_is_reported_as_gone(ask, vault):
    vault.rename(vault.with_name("moved"))
    assert "is not there" in complained(ask("read", note="Inbox"))


@pytest.mark.parametrize("mark", ["---\nprivate: true\n---\n", "#private ", "---\nprivate: [\n---\n"])
def test_a_note_that_has_become_private_is_not_read_although_the_index_does_not_know(ask, vault, mark):
    (vault / "Inbox.md").write_text(f"{mark}# Inbox\n\nNobody's business.\n")
    for name in ("Inbox", "Inbox.md", "vault://Inbox.md"):
        told = ask("read", note=name)
        assert told.is_error
        assert "business" not in str(told)


def test_a_line_ends_where_the_index_ends_it(ask, vault, resources):
    text = "# Feed\n\nOne\u2028two\x0cthree\x85four.\n\n## Other\n\nFound here.\n"
    (vault / "Feed.md").write_text(text)
    index_once(resources, lambda *_: None)
    found = answered(ask("read", note="Feed", section="Other"))
    assert found["text"] == "## Other\n\nFound here.\n"
    assert found["last_line"] == 7


@pytest.mark.parametrize("quote", ['["used", "the", "word", "moat"]', '{"used": "the word moat"}'])
def test_a_quote_may_look_like_json(ask, vault, resources, quote):
    (vault / "Feed.md").write_text(f"# Feed\n\nBuffett {quote} said so.\n")
    index_once(resources, lambda *_: None)
    (found,) = answered(ask("verify_quotes", quotes=[{"note": "[[Feed#Feed]]", "quote": quote}]))["quotes"]
    assert found["verified"]


def test_lists_and_objects_may_come_as_json_in_a_string(ask):
    found = answered(ask("search", query="moat", folder='["Concepts"]', properties="{}"))
    assert {hit["path"] for hit in found["hits"]} == {"Concepts/Moats.md", "Concepts/Pricing.md"}


@pytest.mark.parametrize("private", [0, 3])
def test_a_walk_and_a_list_know_nothing_of_private_notes(ask, vault, resources, private):
    (vault / "Start.md").write_text("# Start\n\nA merger with acme. [[H0]]\n")
    (vault / "Behind.md").write_text("# Behind\n\nFish.\n")
    for number in range(private):
        (vault / f"H{number}.md").write_text(
            f"---\nprivate: true\n---\n# H{number}\n\nA merger. [[Behind]]\n"
        )
    index_once(resources, lambda *_: None)
    walked = answered(ask("traverse", note="Start", depth=3))
    assert [one["path"] for one in walked["notes"] if one["hop"]] == []
    deep = answered(ask("traverse", question="a merger with acme", deep=True))
    assert [one for one in deep["notes"] if one["path"] == "Behind.md" and one["hop"]] == []
    assert answered(ask("browse", by="recent", limit=3))["count"] == 4
    assert answered(ask("browse", by="similar", of="Start"))["count"] == 6


@pytest.mark.parametrize("private", [0, 3])
def test_a_walk_counts_the_notes_that_it_did_not_read_but_no_private_ones(
    ask, vault, resources, monkeypatch, private
):
    monkeypatch.setattr(walk, "MOST_PER_HOP", 2)
    linked = [f"[[Seen {number}]]" for number in range(5)] + [f"[[H{number}]]" for number in range(3)]
    (vault / "Start.md").write_text(f"# Start\n\nA merger. {' '.join(linked)}\n")
    for number in range(5):
        (vault / f"Seen {number}.md").write_text(f"# Seen {number}\n\nA merger.\n")
    for number in range(private):
        (vault / f"H{number}.md").write_text(f"---\nprivate: true\n---\n# H{number}\n\nA merger.\n")
    index_once(resources, lambda *_: None)
    assert answered(ask("traverse", note="Start", depth=1))["unread"] == 3


@pytest.mark.parametrize(
    ("name", "path", "first"),
    [
        ("日本 #1", "Trips/日本 #1.md", 1),
        ("[[日本 #1]]", "Trips/日本 #1.md", 1),
        ("[[日本 #1|so]]", "Trips/日本 #1.md", 1),
        ("Trips/日本 #1.md", "Trips/日本 #1.md", 1),
        ("Issue #7", "Trips/Seven.md", 1),
        ("C#", "Trips/Sharp.md", 1),
        ("日本#2", "Trips/日本.md", 5),
        ("[[日本#2]]", "Trips/日本.md", 5),
    ],
)
def test_a_hash_in_a_name_is_part_of_it_before_it_begins_a_section(ask, vault, resources, name, path, first):
    (vault / "Trips").mkdir()
    (vault / "Trips/日本 #1.md").write_text("Kyoto.\n")
    (vault / "Trips/日本.md").write_text("# 日本\n\nOsaka.\n\n## 2\n\nNara.\n")
    (vault / "Trips/Seven.md").write_text('---\ntitle: "Issue #7"\n---\nIt rains.\n')
    (vault / "Trips/Sharp.md").write_text('---\naliases: ["C#"]\n---\nA language.\n')
    index_once(resources, lambda *_: None)
    found = answered(ask("read", note=name))
    assert (found["note"]["path"], found["note"]["locator"]["first"]) == (path, first)


@pytest.mark.parametrize("name", ["Affair", "Affair/photo.png", "Affair/none.png", "Nowhere"])
def test_the_state_of_what_is_no_note_says_nothing_of_it(ask, vault, name):
    (vault / "Affair").mkdir()
    (vault / "Affair/photo.png").write_bytes(b"x")
    state = answered(ask("status", note=name))["note"]
    assert (state["state"], state["path"]) == ("unknown", f"{name}.md")


@pytest.mark.parametrize(
    "name", ["../secret.md", "/etc/passwd", "Concepts/../../x", "vault://../x", "x\x00y", "Nothing like it"]
)
def test_what_is_not_in_the_vault_is_not_there(ask, name):
    assert "there is no note" in complained(ask("read", note=name))


def test_a_missing_section_names_those_that_there_are(ask):
    assert "Moats > History" in complained(ask("read", note="Moats", section="Herstory"))


def test_folders_and_tags_are_browsed(ask):
    top = answered(ask("browse", by="folder"))
    assert top["groups"] == [{"name": "Concepts", "notes": 2}, {"name": "Garden", "notes": 2}]
    assert [note["path"] for note in top["notes"]] == ["Inbox.md"]
    garden = answered(ask("browse", by="folder", of="Garden"))
    assert garden["groups"] == [{"name": "Garden/Pests", "notes": 1}]
    tags = answered(ask("browse", by="tag"))
    assert tags["groups"][0] == {"name": "investing", "notes": 2}
    assert {note["path"] for note in answered(ask("browse", by="tag", of="investing"))["notes"]} == {
        "Concepts/Moats.md",
        "Concepts/Pricing.md",
    }


def test_a_list_is_browsed_page_by_page(ask):
    seen, cursor = [], None
    while True:
        page = answered(ask("browse", by="recent", limit=2, **({"cursor": cursor} if cursor else {})))
        seen += [note["path"] for note in page["notes"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(set(seen))
    assert len(seen) == 5


def test_neighbours_in_meaning_and_by_links_are_browsed(ask):
    near = answered(ask("browse", by="similar", of="Moats"))
    assert near["count"] == 4
    assert all(note["similarity"] is not None for note in near["notes"])
    (link,) = answered(ask("browse", by="backlinks", of="Soil"))["notes"]
    assert (link["path"], link["locator"]["first"]) == ("Garden/Pests/Slugs.md", 3)
    assert "needs a note" in complained(ask("browse", by="similar"))


def test_a_walk_follows_links_from_a_note_or_a_question(ask):
    walked = answered(ask("traverse", note="Moats", depth=1))
    assert walked["stopped"]
    found = answered(ask("traverse", question="what is a moat", deep=True))
    assert found["notes"]
    assert "give `note`" in complained(ask("traverse"))


def test_quotes_are_checked(ask):
    checked = answered(
        ask(
            "verify_quotes",
            quotes=[
                {"note": "Concepts/Moats.md", "quote": "A moat is pricing power that lasts."},
                {"note": "Concepts/Moats.md", "quote": "A moat is a castle for everyone alive."},
                {"note": "Nowhere.md", "quote": "A moat is pricing power that lasts."},
            ],
        )
    )
    assert [one["verified"] for one in checked["quotes"]] == [True, False, False]
    assert checked["status"] == "has_mismatch"


def test_the_state_of_the_index_and_of_a_note(ask, vault):
    state = answered(ask("status"))
    assert [part["notes"] for part in state["parts"]] == [5]
    assert str(vault) not in str(state)
    assert answered(ask("status", note="Inbox.md"))["note"]["state"] == "indexed"
    assert answered(ask("status", note="Not there.md"))["note"]["state"] == "unknown"


def test_an_ignored_a_private_and_a_missing_note_are_unknown_for_one_and_the_same_reason(
    ask, vault, resources
):
    (vault / "Own.md").write_text("---\nprivate: true\n---\n# Own\n")
    (vault / ".everindexignore").write_text("/Drafts/\n")
    (vault / "Drafts").mkdir()
    (vault / "Drafts/secret.md").write_text("# Secret\n")
    index_once(resources, lambda *_: None)
    names = ("Drafts/secret.md", "Own.md", "Not there.md")
    notes = [answered(ask("status", note=name))["note"] for name in names]
    assert {one["state"] for one in notes} == {"unknown"}
    (reason,) = {one["reason"] for one in notes}
    assert "misspelt, new, ignored or private" in reason


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read", {}),
        ("status", {}),
        ("traverse", {}),
        ("verify_quotes", {"quote": "Deserts erode, too."}),
    ],
)
def test_a_note_may_be_given_as_path_or_uri_as_hits_call_it(ask, tool, more):
    def asked(name, value="Concepts/Moats.md"):
        one = {name: value, **more}
        return answered(ask(tool, **({"quotes": [one]} if more else one)))

    assert asked("path") == asked("note")
    if tool != "status":  # which takes paths alone
        address = "vault://Concepts/Moats.md"
        assert asked("uri", address) == asked("note", address)


def test_every_tool_says_what_it_takes_and_gives_and_whether_it_changes_anything(server):
    async def listed():
        async with Client(server) as client:
            return (await client.list_tools()).tools

    tools = anyio.run(listed)
    assert [tool.name for tool in tools] == [
        "search",
        "read",
        "context",
        "browse",
        "traverse",
        "verify_quotes",
        "status",
        "propose",
    ]
    for tool in tools:
        assert tool.output_schema["type"] == tool.input_schema["type"] == "object"
        assert tool.annotations.read_only_hint == (tool.name != "propose")
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
        assert '"title": "' not in str(tool.input_schema)
        assert len(tool.description) < 1_500


def test_what_is_read_of_a_document_says_where_in_it_each_line_is(ask, vault, resources):
    (vault / "_domains.yaml").write_text("all: {legacy: true, formats: [md, csv]}\n")
    (vault / "Costs.csv").write_text("item,price\n" + "".join(f"Spade {n},{n}\n" for n in range(45)))
    index_once(resources, lambda *_: None)
    read = answered(ask("read", note="Costs.csv"))
    assert [part["place"] for part in read["parts"]] == ["rows 2-21", "rows 22-41", "rows 42-46"]
    lines = read["text"].splitlines()
    middle = read["parts"][1]["lines"]
    shown = lines[middle["first"] - 1 : middle["last"]]
    assert "Spade 20" in shown[1]
    assert "Spade 39" in shown[-1]
    part = answered(ask("read", note="Costs.csv", first_line=middle["first"], last_line=middle["last"]))
    assert [one["place"] for one in part["parts"]] == ["rows 22-41"]
    hit = answered(ask("search", query='"Spade 25"'))["hits"][0]
    assert hit["section"] == "rows 22-41"
    same = answered(ask("read", uri=hit["uri"], section=hit["section"]))
    assert (same["text"], same["note"]) == (part["text"], part["note"])
    assert "its sections are: rows 2-21, rows 22-41" in complained(ask("read", note="Costs.csv", section="x"))
    assert answered(ask("read", note="Inbox.md"))["parts"] == []


def test_a_misspelt_query_is_offered_corrected_and_each_hit_says_its_similarity(ask):
    found = answered(ask("search", query="clya holds watre"))
    assert found["did_you_mean"] == "clay holds water"
    assert all(-1 <= hit["similarity"] <= 1 for hit in found["hits"])


def of(result):
    return [note["path"] for note in answered(result)["notes"]]


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ({"by": "folder", "of": "Garden", "tag": ["garden"]}, ["Garden/Soil.md"]),
        ({"by": "folder", "folder": ["Garden"]}, []),
        ({"by": "folder", "of": "Garden", "folder": ["Concepts"]}, []),
        ({"by": "tag", "of": "investing", "has": ["alias"]}, ["Concepts/Moats.md"]),
        ({"by": "tag", "of": "investing", "tag": ["moat"]}, ["Concepts/Moats.md"]),
        ({"by": "recent", "path": ["Inbox.md", "Nowhere.md"]}, ["Inbox.md"]),
        ({"by": "recent", "properties": {"status": "open"}}, []),
        ({"by": "similar", "of": "Moats", "folder": ["Garden/Pests"]}, ["Garden/Pests/Slugs.md"]),
        ({"by": "backlinks", "of": "Moats", "tag": ["investing"]}, ["Concepts/Pricing.md"]),
        ({"by": "backlinks", "of": "Moats", "folder": ["Garden"]}, []),
    ],
)
def test_a_list_has_only_notes_that_pass_the_filters(ask, asked, paths):
    assert of(ask("browse", **asked)) == paths


def test_groups_of_a_list_count_only_notes_that_pass_the_filters(ask):
    folders = answered(ask("browse", by="folder", tag=["investing"]))["groups"]
    assert [(one["name"], one["notes"]) for one in folders] == [("Concepts", 2)]
    tags = answered(ask("browse", by="tag", folder=["Garden"]))["groups"]
    assert [(one["name"], one["notes"]) for one in tags] == [("garden", 1)]


def test_a_walk_comes_only_to_notes_that_pass_the_filters(ask):
    assert of(ask("traverse", note="Moats", folder=["Garden"])) == ["Concepts/Moats.md"]
    assert of(ask("traverse", question="soil", tag=["garden"])) == ["Garden/Soil.md"]


@pytest.mark.parametrize("tool", ["browse", "traverse"])
def test_filters_that_cannot_be_used_are_refused_by_every_tool(ask, tool):
    asked = {"by": "recent"} if tool == "browse" else {"note": "Moats"}
    assert "not a date" in complained(ask(tool, **asked, since="yesterday"))
    assert "domain" in complained(ask(tool, **asked, domain=["none"]))


def test_a_list_without_a_question_refuses_a_similarity(ask):
    assert "min_similarity" in complained(ask("browse", by="recent", min_similarity="weak"))


def test_the_schemas_of_answers_are_brief_and_leave_out_no_field():
    def fields(schema):
        parts = {"": schema, **schema.get("$defs", {})}
        return {(name, field) for name, part in parts.items() for field in part.get("properties", ())}

    for tool in (*TOOLS, *FURTHER):
        brief = tool.entry().output_schema
        assert fields(brief) == fields(plain_schema(tool.gives, "serialization"))
    listed = [tool.entry().model_dump_json(by_alias=True, exclude_none=True) for tool in TOOLS]
    assert sum(map(len, listed)) < 34_000, "agents read all of it before each session"
