"""An agent proposes tags, and nothing that it sends counts as a decision."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import Client
from mcp_types import Implementation

from pipelines.state.tags import Proposals
from pipelines.tagging.review_file import QueuedNote, QueuedTag, Reading, read, render
from service.mcp.library import shown_name
from service.usecases.maintenance import index_once

VOCABULARY = "# Tags\n\n## Topics\n\n- investing: money at work\n- garden: what grows (alias: plants)\n- moat: a defence\n"
PAGE = "p7"


@pytest.fixture
def propose(server, vault, resources):
    """Propose tags in a vault with a vocabulary, as a client of some name."""
    (domain,) = resources.domains()
    (vault / domain.within(domain.taxonomy)).write_text(VOCABULARY)
    index_once(resources, lambda *_: None)

    def call(note, *tags, reason="", client="Tester"):
        async def run():
            info = Implementation(name=client, version="1")
            async with Client(server, client_info=info) as agent:
                arguments = {"note": note, "tags": list(tags), "reason": reason}
                return await agent.call_tool("propose", arguments)

        return anyio.run(run)

    return call


def outcomes(result):
    assert not result.is_error, result.content
    return [(one["tag"], one["outcome"]) for one in result.structured_content["tags"]]


def test_a_tag_of_the_vocabulary_waits_for_the_operator(propose, resources, vault):
    before = (vault / "Inbox.md").read_bytes()
    result = propose("Inbox", "garden", "#Investing", reason="because")
    assert outcomes(result) == [("garden", "waits"), ("investing", "waits")]
    assert result.structured_content["waiting"] == 2
    waiting = resources.stores.of(Proposals).of_state(None, "waiting")
    assert {(one.path, one.tag, one.proposer, one.rationale) for one in waiting} == {
        ("Inbox.md", "garden", "agent Tester", "because"),
        ("Inbox.md", "investing", "agent Tester", "because"),
    }
    assert (vault / "Inbox.md").read_bytes() == before


def test_only_tags_of_the_vocabulary_are_taken(propose, resources):
    result = propose("Inbox", "nonsense", "garden](x) <!-- e:1 -->")
    assert [outcome for _, outcome in outcomes(result)] == ["unknown_tag", "unknown_tag"]
    assert result.structured_content["vocabulary"] == ["investing", "garden", "moat"]
    assert resources.stores.of(Proposals).of_state(None, "waiting") == []


def test_what_the_note_has_or_the_operator_decided_is_not_proposed_again(propose, resources):
    assert outcomes(propose("Moats", "investing")) == [("investing", "already_there")]
    propose("Inbox", "garden")
    store = resources.stores.of(Proposals)
    (waiting,) = store.of_state(None, "waiting")
    store.decide([waiting.id], "rejected", "2026-01-01T00:00:00+00:00")
    assert outcomes(propose("Inbox", "garden")) == [("garden", "decided")]
    assert store.of_state(None, "waiting") == []


def test_a_client_has_at_most_twenty_proposals_waiting(propose, vault, resources):
    for number in range(11):
        (vault / f"N{number}.md").write_text(f"# N{number}\n")
    index_once(resources, lambda *_: None)
    for number in range(10):
        propose(f"N{number}", "garden", "moat")
    result = propose("N10", "garden")
    assert result.is_error
    assert "20 of your proposals wait" in result.content[0].text
    assert outcomes(propose("N10", "garden", client="Another")) == [("garden", "waits")]
    assert len(resources.stores.of(Proposals).of_state(None, "waiting")) == 21


HOSTILE = st.text(max_size=80) | st.sampled_from(
    [
        "- [x] garden <!-- e:1 -->",
        "`garden` <!-- e:1 00000000 --> [x]",
        "<!-- end:p7 -->\n- [x] garden",
        "x\n- [x] garden\n",
        "\u2028- [x] garden",
        "operator",
    ]
)


@given(client=HOSTILE, reason=HOSTILE, path=HOSTILE, group=HOSTILE)
@example(client="\n- [x] `garden` <!-- e:1 -->", reason="<!-- e:1 -->", path="a]]\n- [x] garden", group="")
def test_no_text_from_an_agent_makes_a_decision(client, reason, path, group):
    """Whatever an agent says its name, its reason or a note's path is, the page that shows it decides nothing."""
    named = shown_name(client)
    tags = tuple(
        QueuedTag(number, tag, group, 0.5, f"agent {named}: {reason}")
        for number, tag in enumerate(("garden", "moat"), start=1)
    )
    notes = (QueuedNote(f"{path}.md", path, reason, tags),)
    assert read(render(notes, 0, PAGE), notes, PAGE, lambda name: name) == Reading()
